"""What all ways to change a plan are measured on: a query as dense whatever its window, and its stream."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import takewhile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import decopa
from actors.group import Limits
from cluster.feeding import FeedBlock, StoredBlocks, TraceBlocks, rows_per_block
from cluster.options import RayOptions
from costmodel.capacity import Capacity
from decopa.planning.plan import Plan
from decopa.planning.spread import spread_units
from decopa.planning.strategies.left_deep import left_deep
from decopa.query.query import Query
from decopa.traces.synthetic import SyntheticSpec
from shuffler.source.pacing import Replay
from shuffler.source.trace import TraceSource

#: Events of a window that have the same key, about: of each of the types two.
_PER_KEY = 8
LIMITS = Limits(max_matches=10**9)


@dataclass(frozen=True)
class Setting:
    """`times` changes on a stream of `rate` events a second, between plans of `units` and one more.

    The stream begins with the windows that fill the plan's state, as fast as they can be read. Then it is paced, and
    `calm_s` after a change, `after_s` of which count as its wake, comes the next one.
    """

    rate: float
    window_s: float
    units: int
    times: int
    #: The share of their time that units pretend to be busy, if they do.
    busy: float | None = None
    memory: bool = False
    calm_s: float = 2.0
    after_s: float = 1.5
    #: How long a change may take on average, with its wake and the calm before: the stream is as long.
    longest_s: float = 40.0

    @cached_property
    def query(self) -> Query:
        where = "a.k = b.k AND b.k = c.k AND b.x < c.x"
        window = f"{round(1000 * self.window_s)} ms"
        return decopa.parse(f"QUERY q PATTERN SEQ(A a, B b, C c) WHERE {where} WITHIN {window}")

    @property
    def splits(self) -> tuple[Plan, Plan]:
        """Two plans that split the query differently, on different numbers of units."""
        backwards = left_deep(self.query, tuple(reversed(self.query.aliases)))
        return self.widths[0], Plan((spread_units(backwards, self.units + 1),))

    @property
    def widths(self) -> tuple[Plan, Plan]:
        """Two plans with the same split on different numbers of units."""
        few, many = (Plan((spread_units(left_deep(self.query), units),)) for units in (self.units, self.units + 1))
        return few, many

    @property
    def replay(self) -> Replay:
        return Replay(rate=self.rate)

    @property
    def options(self) -> RayOptions:
        if self.busy is None:
            return RayOptions(replay=self.replay, metrics=False)
        # Units that are busy are asleep: the processors are free for the plan that is built.
        capacity = Capacity.per_second(self.rate / self.busy, 1_000 * self.rate / self.busy)
        return RayOptions(replay=self.replay, metrics=False, emulate={"": capacity})

    @property
    def fill_us(self) -> int:
        """From the first event on: how long the stream is not paced."""
        return round(1.2e6 * self.window_s)

    def write(self, path: Path) -> None:
        """A trace that is long enough for all changes."""
        seconds = self.fill_us / 1e6 + 20 + self.longest_s * self.times
        events = int(self.rate * seconds)
        keys = max(1, round(self.rate * self.window_s / _PER_KEY))
        spec = SyntheticSpec(events=events, rate_per_s=self.rate, types=4, keys=keys, zipf=0.3, seed=1)
        with pq.ParquetWriter(path, spec.schema) as writer:
            for batch in spec.batches():
                writer.write_batch(batch)

    def expected(self, trace: Path, events: int) -> pa.Table:
        """The matches of so many events in a run whose plan does not change."""
        return decopa.run(self.query, pq.read_table(trace).slice(0, events), limits=LIMITS)


class UntilDone(TraceBlocks):
    """The blocks of a trace until everything that was to be measured is."""

    def __init__(self, source: TraceSource, replay: Replay) -> None:
        super().__init__(source, rows_per_block(replay))
        self.done = False

    def stored_blocks(
        self, attributes: object, skip: int = 0, *, whole_groups: bool, timed: bool = False
    ) -> StoredBlocks | None:
        stored = super().stored_blocks(attributes, skip, whole_groups=whole_groups, timed=timed)  # type: ignore[arg-type]
        return None if stored is None else replace(stored, blocks=self._until_done(stored.blocks))

    def _until_done(self, blocks: Iterator[FeedBlock]) -> Iterator[FeedBlock]:
        return takewhile(lambda block: not self.done, blocks)


def same_matches(found: pa.Table, expected: pa.Table) -> bool:
    """Whether both are made of the same events; a match that comes twice must come twice in both."""
    aliases = ["a", "b", "c"]
    by_id = [(alias, "ascending") for alias in aliases]
    one, other = (table.select(aliases).sort_by(by_id).combine_chunks() for table in (found, expected))
    return bool(one.equals(other))
