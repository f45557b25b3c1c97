"""RunSpec: everything that decides how a run goes, as one value.

The command line, the Python functions, `resume`, streams and scaling tests differ only in how they fill it in. Nothing
in it is derived: defaults that depend on the trace or on other fields are applied by `decopa.runs.preparation.prepare`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath

from actors.group import Limits
from cluster.options import Checkpoints, RayOptions
from costmodel.capacity import Capacity
from costmodel.statistics import Statistics
from decopa.choices import (
    DEFAULT_COMPARED_PER_S,
    DEFAULT_HISTORY_BYTES,
    DEFAULT_INGESTED_PER_S,
    DEFAULT_MAX_FOLDER_BYTES,
    ORDERS,
    PART_FORMATS,
    RUNTIMES,
    STRATEGIES,
    Reading,
)
from decopa.errors import DecoPaError, PlanError, did_you_mean
from decopa.planning.change.options import Adapt
from decopa.planning.plan import Plan
from shuffler.rows.events import TraceColumns
from shuffler.source.dead_letters import BadRows
from shuffler.source.lateness import Lateness

DEFAULT_CAPACITY = Capacity.per_second(DEFAULT_INGESTED_PER_S, DEFAULT_COMPARED_PER_S)


@dataclass(frozen=True)
class TraceOptions:
    """How events are read.

    `path` names a stored trace; without it events are handed over in memory or arrive live. `spark` reads, cleans,
    sorts and measures the trace on Spark. `kinds` says what columns of arriving JSON lines hold. With `require_types`
    a type of the query that never occurs is an error instead of a notice. `batch_size` is the number of events
    processed together; None leaves it to the runtime.
    """

    columns: TraceColumns = field(default_factory=TraceColumns)
    assume_sorted: bool = False
    nan_as_null: bool = False
    lateness: Lateness = field(default_factory=Lateness)
    bad_rows: BadRows = field(default_factory=BadRows)
    kinds: Mapping[str, str] = field(default_factory=dict)
    require_types: bool = False
    path: str | None = None
    spark: bool = False
    batch_size: int | None = None

    def __post_init__(self) -> None:
        if self.batch_size is not None and self.batch_size < 1:
            raise DecoPaError(f"the batch size must be positive, got {self.batch_size}")


@dataclass(frozen=True)
class Planning:
    """How the plan is chosen.

    `units` is the number of processing units: processes on Ray, or their likeness inside one process. `strategy` None
    means `decopa` where statistics can be had, else `left-deep`. A `plan` is run as it is. `statistics` are one for
    all queries or one for each; without them the trace is measured where the strategy needs it. With `probe_s` the best
    candidate plans are tried on the beginning of a stored trace, for that many seconds in all. `force` runs a plan even
    if it is predicted to exceed limits or to take hours. A search for what queries share ends after `planning_time_s`
    with the best plan found so far; None is until it finds no better one.
    """

    units: int | None = None
    strategy: str | None = None
    plan: Plan | None = None
    statistics: Statistics | Sequence[Statistics] | None = None
    capacity: Capacity = DEFAULT_CAPACITY
    reading: Reading = Reading.LINEAR
    probe_s: float = 0.0
    force: bool = False
    planning_time_s: float | None = None

    def __post_init__(self) -> None:
        if self.planning_time_s is not None and not 0 < self.planning_time_s < math.inf:
            raise PlanError(f"the planning time must be a positive number of seconds, got {self.planning_time_s:g}")
        if self.units is not None and self.units < 1:
            raise PlanError(f"a plan needs at least one unit, got {self.units}")
        if self.strategy is not None and self.strategy not in STRATEGIES:
            raise PlanError(f"unknown strategy '{self.strategy}'{did_you_mean(self.strategy, STRATEGIES)}")

    def known_statistics(self, queries: int) -> tuple[Statistics, ...]:
        """The given statistics, one for each of the queries; empty if none are given."""
        if self.statistics is None:
            return ()
        if isinstance(self.statistics, Statistics):
            return (self.statistics,) * queries
        if len(self.statistics) != queries:
            raise PlanError(f"{len(self.statistics)} statistics for {queries} queries; give one for all, or one each")
        return tuple(self.statistics)


@dataclass(frozen=True)
class Output:
    """Where matches go: a file whose suffix names its format, or a folder of parts.

    Without checkpoints the parts are Parquet, written by the units, `max_bytes` by each of them at most.
    """

    path: str
    format: str = PART_FORMATS[0]
    overwrite: bool = False
    max_bytes: int = DEFAULT_MAX_FOLDER_BYTES

    def __post_init__(self) -> None:
        if self.format not in PART_FORMATS:
            raise DecoPaError(f"unknown format '{self.format}'{did_you_mean(self.format, PART_FORMATS)}")
        if self.max_bytes < 1:
            raise DecoPaError(f"a folder takes a byte at least, got {self.max_bytes}")

    @property
    def is_folder(self) -> bool:
        """Whether the path names a folder: it has no suffix, as every file of matches has."""
        return not PurePath(self.path).suffix


@dataclass(frozen=True)
class Rules:
    """Queries of a run with checkpoints that come and go while it goes on.

    `folder` is where `decopa rules` asks for changes. Of a live stream events are kept as far back as the rules there
    look and at least `keep_history_us`, within `max_history_bytes`.
    """

    folder: str | None = None
    keep_history_us: int = 0
    max_history_bytes: int = DEFAULT_HISTORY_BYTES


@dataclass(frozen=True)
class RunSpec:
    """One run. `runtime` None means Ray if units, a cluster, Spark or checkpoints are asked for, else this process.

    `order` is that of the matches, one of `ORDERS`; None means canonical for a table or file. With `count` the result
    is the number of matches, which are not made. With `adapt` the plan follows the stream while the run goes on, with
    `rules` its queries come and go.
    """

    trace: TraceOptions = field(default_factory=TraceOptions)
    planning: Planning = field(default_factory=Planning)
    limits: Limits = field(default_factory=Limits)
    ray: RayOptions = field(default_factory=RayOptions)
    runtime: str | None = None
    output: Output | None = None
    checkpoints: Checkpoints | None = None
    order: str | None = None
    count: bool = False
    adapt: Adapt | None = None
    rules: Rules | None = None

    def __post_init__(self) -> None:
        if self.order is not None and self.order not in ORDERS:
            raise DecoPaError(f"unknown order '{self.order}'{did_you_mean(self.order, ORDERS)}")
        if self.runtime is not None and self.runtime not in RUNTIMES:
            raise DecoPaError(f"unknown runtime '{self.runtime}'; known: {', '.join(RUNTIMES)}")
