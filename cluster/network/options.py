"""How a network plan runs on Ray. Plain data: nothing here imports Ray."""

from __future__ import annotations

from dataclasses import dataclass, field

from cluster.checkpoint.store import CheckpointStore
from cluster.options import DEFAULT_WINDOW
from costmodel.capacity import Capacity
from costmodel.networks.network import EventSourcedNetwork
from shuffler.exchange.outbox import FlushPolicy
from shuffler.source.pacing import Replay


@dataclass(frozen=True)
class NetworkRayOptions:
    """How a network plan runs on Ray: events in a block; messages on their way between two processes; where checkpoints
    are kept, and after how many blocks one is made; how often a run is taken up without getting further.

    `replay` paces the events; those that are due within `together_s` are fed together. `emulate` is the capacity of one
    unit; a process pretends to be all units of its node. Bandwidth and latency of `network`'s links are emulated.
    `idle_after_us` is explained at `Heartbeats`.
    """

    block_rows: int = 32_768
    window: int = DEFAULT_WINDOW
    policy: FlushPolicy = field(default_factory=FlushPolicy)
    checkpoints: CheckpointStore | None = None
    every_blocks: int = 4
    retries: int = 5
    replay: Replay = field(default_factory=Replay)
    together_s: float = 0.05
    emulate: Capacity | None = None
    network: EventSourcedNetwork | None = None
    idle_after_us: int | None = None
