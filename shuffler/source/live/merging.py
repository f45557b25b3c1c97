"""One stream in the order of time from partitions that are each in order, up to the allowed lateness.

Every partition has its own buffer (`shuffler.source.lateness`), so which of its events are late depends on the
partition alone, not on how fast others are read. Events that have left their partition's buffer wait here until every
partition has come as far: the watermark of the stream is the smallest of its partitions. A partition that has nothing
more for `idle_after_s` does not hold the others back. If it wakes up with events before those that have left, these
are late.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from shuffler.rows.columns import Ints, Place, shown
from shuffler.source.lateness import ArrivalBuffer, BufferState, Lateness, Run, TakeLate, merged, without_dictionaries

#: Rows of one partition that wait for others before it need not be read for the time being.
MANY_ROWS = 262_144
_NEVER_US = -(2**63)

Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class LaneState:
    """A partition: what its buffer holds, and what waits for other partitions."""

    buffer: BufferState = field(default_factory=BufferState)
    waiting: tuple[Run, ...] = ()


@dataclass(frozen=True, slots=True)
class MergeState:
    """All that is needed to go on. `ready` has rows that every partition has come as far as; `late` counts late events
    that woke up with their partition."""

    lanes: Mapping[str, LaneState] = field(default_factory=dict)
    ready: tuple[Run, ...] = ()
    left_us: int = _NEVER_US
    late: Mapping[str, int] = field(default_factory=dict)


class _Lane:
    def __init__(self, buffer: ArrivalBuffer, waiting: Iterable[Run], now_s: float) -> None:
        self.buffer, self.waiting, self.seen_s = buffer, list(waiting), now_s

    @property
    def rows(self) -> int:
        return sum(map(len, self.waiting))

    def take_until(self, horizon_us: int) -> list[Run]:
        """What waits and is not after the horizon; runs that wait follow each other in time.

        The horizon of an idle partition lies beyond its own, so its buffer has such rows, too.
        """
        taken = self.buffer.take_until(horizon_us)
        while self.waiting and int(self.waiting[0].ts[0]) <= horizon_us:
            first = self.waiting.pop(0)
            stop = int(np.searchsorted(first.ts, horizon_us, side="right"))
            taken.append(first.slice(0, stop))
            if stop < len(first):
                self.waiting.insert(0, first.slice(stop, len(first)))
                break
        return taken


class PartitionMerge:
    """Takes rows of partitions and hands them out in the order of time."""

    def __init__(
        self,
        lateness: Lateness,
        ts_column: str,
        *,
        partitions: Collection[str] = ("",),
        idle_after_s: float | None = None,
        clock: Clock,
        state: MergeState | None = None,
        take_late: TakeLate | None = None,
    ) -> None:
        state = state or MergeState()
        self._lateness, self._column, self._take_late = lateness, ts_column, take_late
        self._idle_after_s, self._clock = idle_after_s, clock
        self._left_us, self._late = state.left_us, Counter(state.late)
        self._ready = list(state.ready)
        self._lanes: dict[str, _Lane] = {}
        for name in dict.fromkeys([*state.lanes, *partitions]):
            self._add(name, state.lanes.get(name, LaneState()))

    # ------------------------------------------------------------- in and out

    def arrive(self, partition: str, rows: pa.RecordBatch, ts: Ints, place: Place) -> None:
        """Takes the next rows of a partition, whose times are `ts`."""
        if partition not in self._lanes:
            self._add(partition, LaneState())
        lane = self._lanes[partition]
        lane.seen_s = self._clock()
        if len(self._lanes) > 1:
            rows = without_dictionaries(rows)  # those of different partitions differ
        run = lane.buffer.arrive(rows, ts, place)
        if run is not None:
            run = self._without_late(partition, run, place)
        if run is not None and len(run):
            lane.waiting.append(run)

    def leave(self, lag: Mapping[str, int] | None = None) -> Run | None:
        """The rows that every partition has come as far as; `lag` tells how many more are known to wait in each."""
        horizon_us = self._horizon_us(lag or {})
        return self._left(_NEVER_US if horizon_us is None else horizon_us)

    def end(self) -> Run | None:
        """The stream is over: everything leaves."""
        for name, lane in self._lanes.items():
            rest = lane.buffer.end()
            if rest is not None:
                rest = self._without_late(name, rest, Place(name))
            if rest is not None and len(rest):
                lane.waiting.append(rest)
        return self._left(2**63 - 1)

    def snapshot(self, ready: Run | None = None) -> MergeState:
        """A copy that nobody changes; rows are shared, so it costs nothing to take one for every block.

        `ready` are rows that have left and were not passed on yet.
        """
        lanes = {name: LaneState(lane.buffer.snapshot(), tuple(lane.waiting)) for name, lane in self._lanes.items()}
        rows = self._ready if ready is None else [*self._ready, ready]
        return MergeState(lanes, tuple(rows), self._left_us, dict(self._late))

    # ------------------------------------------------------------- what it knows

    @property
    def held_rows(self) -> int:
        """Rows that have arrived, are not late, and have not left yet."""
        return sum(lane.rows + lane.buffer.held_rows for lane in self._all) + sum(map(len, self._ready))

    @property
    def far_ahead(self) -> frozenset[str]:
        """Partitions of which many rows wait for others."""
        return frozenset(name for name, lane in self._lanes.items() if lane.rows >= MANY_ROWS)

    @property
    def late(self) -> Mapping[str, int]:
        """Late events of each partition that has any."""
        counts = Counter(self._late)
        counts.update({name: lane.buffer.late_events for name, lane in self._lanes.items()})
        return {name: count for name, count in counts.items() if count}

    @property
    def late_events(self) -> int:
        return sum(self.late.values())

    def notice(self, source: str) -> str | None:
        """How many late events were left out, and by how much they missed; None if none were."""
        late = self.late
        if not late:
            return None
        total, policy = sum(late.values()), self._lateness
        events = "event" if total == 1 else "events"
        behind_us = max(lane.buffer.most_behind_us for lane in self._all)
        split = "" if len(self._lanes) == 1 else f" ({', '.join(f'{name}: {late[name]:,}' for name in sorted(late))})"
        done, where = ("dropped", "") if policy.file is None else ("put aside", f" in {policy.file}")
        return (
            f"{done} {total:,} late {events} of {source}{split}{where}: up to {behind_us:,} us behind the newest, and "
            f"{policy.allowed_us:,} us are allowed"
        )

    # ------------------------------------------------------------- inside

    @property
    def _all(self) -> Collection[_Lane]:
        return self._lanes.values()

    def _add(self, name: str, state: LaneState) -> None:
        buffer = ArrivalBuffer(self._lateness, self._column, state.buffer, self._take_late)
        self._lanes[name] = _Lane(buffer, state.waiting, self._clock())

    def _horizon_us(self, lag: Mapping[str, int]) -> int | None:
        """Up to where rows leave; None if nobody knows yet."""
        idle = {name for name, lane in self._lanes.items() if self._is_idle(lane, lag.get(name, 0))}
        marks = {name: lane.buffer.watermark_us for name, lane in self._lanes.items()}
        active = [mark for name, mark in marks.items() if name not in idle]
        if not active:
            # None holds another back; within each the allowed lateness still counts.
            return max((mark for mark in marks.values() if mark is not None), default=None)
        known = [mark for mark in active if mark is not None]
        return min(known) if len(known) == len(active) else None

    def _is_idle(self, lane: _Lane, lag: int) -> bool:
        if lag < 0:
            return True  # it has ended
        quiet_s = self._clock() - lane.seen_s
        return self._idle_after_s is not None and quiet_s >= self._idle_after_s and lag == 0

    def _left(self, horizon_us: int) -> Run | None:
        runs, self._ready = self._ready, []
        for lane in self._all:
            runs += lane.take_until(horizon_us)
        if not runs:
            return None
        run = merged(runs)
        self._left_us = max(self._left_us, int(run.ts[-1]))
        return run

    def _without_late(self, partition: str, run: Run, place: Place) -> Run | None:
        """The run without what others have overtaken while this partition was idle."""
        late = int(np.searchsorted(run.ts, self._left_us)) if len(self._lanes) > 1 else 0
        if not late:
            return run
        where = Place(place.source, order=run.numbers, by_offset=place.by_offset)
        if self._lateness.policy == "fail":
            raise where.error(
                self._column,
                0,
                f"{shown(run.rows.column(self._column), 0)} is earlier than events of other partitions that were "
                "handed out while this one was idle; make --idle-after longer, or choose --late drop or divert",
            )
        self._late[partition] += late
        if self._take_late is not None:
            behind = (self._left_us - run.ts[:late]).view(np.uint64)
            self._take_late(run.rows.slice(0, late), behind, where)
        return run.slice(late, len(run))
