"""How a plan runs on Ray. Plain data: nothing here imports Ray."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from costmodel.capacity import Capacity
from decopa.choices import DEFAULT_CHECKPOINT_S, PLACEMENTS
from decopa.errors import CheckpointError, DeployError
from shuffler.exchange.outbox import FlushPolicy
from shuffler.source.pacing import Replay

#: Messages that may be on their way to one receiver; at two, one is worked on while the next one arrives.
DEFAULT_WINDOW = 4


@dataclass(frozen=True)
class Placement:
    """`strategy` is Ray's, or EDGES, which needs `flows`: bytes between processes, see `cluster.deploy.edges`. `pins`
    puts processes, by name or by the operator in it, on nodes, by address. EDGES also goes by `loads`, the seconds that
    processes are busy, and `speeds`, how fast nodes are, by address, as far as they are known."""

    strategy: str = PLACEMENTS[0]
    pins: Mapping[str, str] | None = None
    flows: Mapping[tuple[str, str], float] | None = None
    loads: Mapping[str, float] | None = None
    speeds: Mapping[str, float] | None = None

    def __post_init__(self) -> None:
        if self.strategy not in PLACEMENTS:
            raise DeployError(f"unknown placement '{self.strategy}'; known: {', '.join(PLACEMENTS)}")


@dataclass(frozen=True)
class RayOptions:
    """How a plan runs on Ray. `sinks` is how many processes collect the matches of its queries. `batch_size` is events
    per batch at the shufflers; `window` is messages on their way
    from one actor to another; `emulate` is the capacity per second that units pretend to have, by process name or,
    under "", for all. `metrics` shows what actors do to Prometheus, see docs/profiling.md. `address` names a Ray
    cluster to connect to, if this program is not connected yet. `wait_for_nodes_s` is how long nodes may take that are
    still to join it."""

    address: str | None = None
    shufflers: int = 1
    batch_size: int = 32_768
    policy: FlushPolicy = field(default_factory=FlushPolicy)
    window: int = DEFAULT_WINDOW
    placement: Placement = field(default_factory=Placement)
    replay: Replay = field(default_factory=Replay)
    emulate: Mapping[str, Capacity] = field(default_factory=dict)
    metrics: bool = True
    wait_for_nodes_s: float | None = None
    sinks: int = 1

    def __post_init__(self) -> None:
        for name in ("shufflers", "sinks", "batch_size", "window"):
            if getattr(self, name) < 1:
                raise DeployError(f"{name} must be at least 1, got {getattr(self, name)}")


@dataclass(frozen=True)
class Checkpoints:
    """Where checkpoints go (a path or a URI that pyarrow knows, seen by all nodes), how often, and how many stay.

    `retries` is how often a run restarts without having completed a checkpoint in between.
    """

    location: str
    every_s: float = DEFAULT_CHECKPOINT_S
    keep: int = 3
    retries: int = 5

    def __post_init__(self) -> None:
        if self.every_s <= 0 or self.keep < 1 or self.retries < 0:
            raise CheckpointError("checkpoints need a positive interval, and one at least must be kept")
