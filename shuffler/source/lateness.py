"""Lateness: events of a live stream that arrive out of order are held until they can be put back in order.

An event of time t leaves when the newest event seen is `allowed_us` later than t: until then an earlier one may still
come. Events leave in the order of time, equal times in the order of arrival. An event is late if one of a later time
has left before it came; one of the same time as the last that left is still in order. This goes event by event: which
events are late does not depend on how the stream is cut into batches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from decopa.choices import LATE_POLICIES, LatePolicy
from decopa.errors import TraceError
from shuffler.rows.columns import MAX_TS_US, Ints, Place, shown

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Lateness:
    """How far events may be out of order, and what becomes of one that is later than that.

    An event may arrive after another that is up to `allowed_us` later in time. What comes later still is refused with
    `fail`, or dropped and counted with `drop`.
    """

    allowed_us: int = 0
    policy: LatePolicy = "fail"

    def __post_init__(self) -> None:
        if not isinstance(self.allowed_us, int) or not 0 <= self.allowed_us <= MAX_TS_US:
            raise TraceError(
                f"the allowed lateness must be 0 to 2^62 whole microseconds, got {self.allowed_us}; "
                "change --allowed-lateness (Lateness(allowed_us=...))"
            )
        if self.policy not in LATE_POLICIES:
            raise TraceError(
                f"unknown policy for late events '{self.policy}'; choose --late {' or '.join(LATE_POLICIES)}"
            )


@dataclass(frozen=True, slots=True)
class Run:
    """Rows in the order of time, with their times and with their numbers (from 0) in the stream."""

    rows: pa.RecordBatch
    ts: Ints
    numbers: Ints

    def __len__(self) -> int:
        return len(self.ts)

    def slice(self, start: int, stop: int) -> Run:
        return Run(self.rows.slice(start, stop - start), self.ts[start:stop], self.numbers[start:stop])


class ArrivalBuffer:
    """Holds the events of one stream back until they are in order.

    Held rows are a few sorted runs, each more than twice as long as the next when it was made, in the order in which
    their rows arrived. So a batch costs what its own rows and those that leave cost, times a logarithm, however many
    are held; merging them all for every batch would make small batches slow.
    """

    def __init__(self, lateness: Lateness, ts_column: str) -> None:
        self.late_events = 0
        self._lateness, self._column = lateness, ts_column
        self._runs: list[Run] = []
        self._newest_us: int | None = None
        self._left_us = -(2**63)
        self._most_behind_us = 0

    @property
    def held_rows(self) -> int:
        """Rows that have arrived, are not late, and have not left yet."""
        return sum(map(len, self._runs))

    @property
    def notice(self) -> str | None:
        """How many late events were dropped, and by how much they missed; None if none were."""
        if not self.late_events:
            return None
        events = "event" if self.late_events == 1 else "events"
        return (
            f"dropped {self.late_events:,} late {events}: up to {self._most_behind_us:,} us behind the newest, and "
            f"{self._lateness.allowed_us:,} us are allowed"
        )

    def arrive(self, rows: pa.RecordBatch, ts: Ints, place: Place) -> Run | None:
        """Takes the next rows of the stream, whose times are `ts`; returns those that leave now, None if none do."""
        if not len(ts):
            return None
        allowed_us = self._lateness.allowed_us
        before = ts[0] if self._newest_us is None else self._newest_us
        newest = np.maximum.accumulate(np.concatenate((np.array([before]), ts)))
        self._newest_us = int(newest[-1])
        horizons = newest - allowed_us
        leaving = self._leave_until(int(horizons[-1]))
        # What left before is not after the horizon, so nothing is late as long as every row reaches it.
        if (ts < horizons[:-1]).any():
            late = self._late(ts, horizons, leaving)
            if late.any():
                # Between the ends of the range of times is one microsecond more than an int64 holds.
                behind_us = (newest[:-1] - ts).view(np.uint64)
                self._refuse_or_count(late, behind_us, rows.column(self._column), place)
                rows = rows.filter(pa.array(~late))
            arrived = Run(rows, ts[~late], place.numbers(len(ts))[~late])
        else:
            arrived = Run(rows, ts, place.numbers(len(ts)))
        if allowed_us:
            # Dictionaries differ between batches, and united ones would grow for as long as the stream lasts.
            arrived = Run(_without_dictionaries(arrived.rows), arrived.ts, arrived.numbers)
        self._runs.append(_merged([arrived]))
        leaving += self._leave_until(int(horizons[-1]))
        self._merge_short_runs()
        return self._left(leaving)

    def end(self) -> Run | None:
        """The stream is over: everything held leaves."""
        leaving, self._runs = self._runs, []
        return self._left(leaving)

    def _merge_short_runs(self) -> None:
        """Only neighbours are merged, so that runs stay in the order of arrival, which decides between equal times."""
        while len(self._runs) > 1 and len(self._runs[-2]) <= 2 * len(self._runs[-1]):
            self._runs[-2:] = [_merged(self._runs[-2:])]

    def _leave_until(self, horizon_us: int) -> list[Run]:
        """Takes what is not after the horizon out of every run."""
        cuts = [int(np.searchsorted(run.ts, horizon_us, side="right")) for run in self._runs]
        leaving = [run.slice(0, cut) for run, cut in zip(self._runs, cuts, strict=True) if cut]
        # The rest is a view that keeps its run's memory; all of a run leaves within the allowed lateness, so this too
        # is bounded by it.
        self._runs = [
            run.slice(cut, len(run)) if cut else run
            for run, cut in zip(self._runs, cuts, strict=True)
            if cut < len(run)
        ]
        return leaving

    def _left(self, leaving: list[Run]) -> Run | None:
        if not leaving:
            return None
        run = _merged(leaving)
        self._left_us = int(run.ts[-1])
        return run

    def _late(self, ts: Ints, horizons: Ints, leaving: Sequence[Run]) -> Mask:
        """Which of the rows came after one of a later time had left.

        `horizons[i]` is the horizon when row i comes, `leaving` the held rows that leave while these rows come. Late
        rows need no exception: each is earlier than something that has left, and so moves no maximum here.
        """
        passed, last = horizons[1:], horizons[-1]
        old = np.concatenate([run.ts for run in leaving]) if leaving else ts[:0]
        arrival = np.flatnonzero(ts <= last)
        # A row leaves with the first arrival, its own or a later one, that moves the horizon up to it.
        steps = np.concatenate(
            (np.searchsorted(passed, old), np.maximum(np.searchsorted(passed, ts[arrival]), arrival))
        )
        left = np.full(len(ts), self._left_us)
        np.maximum.at(left, steps, np.concatenate((old, ts[arrival])))
        # This counts what leaves with the row itself, too; none of that is later than a row that makes it leave.
        late: Mask = ts < np.maximum.accumulate(left)
        return late

    def _refuse_or_count(self, late: Mask, behind_us: npt.NDArray[np.uint64], times: pa.Array, place: Place) -> None:
        if self._lateness.policy == "fail":
            index = int(np.argmax(late))
            # Nothing before the first late row was late, so what has left is not after the row before, or that row
            # made it leave: either way the late one is earlier than the row before.
            raise place.error(
                self._column,
                index,
                f"{shown(times, index)} is earlier than the row before; a live stream must come in time order up to "
                f"the allowed lateness of {self._lateness.allowed_us:,} us, and this is {int(behind_us[index]):,} us "
                "behind the newest event; allow more lateness with --allowed-lateness, or --late drop",
            )
        self.late_events += int(np.count_nonzero(late))
        self._most_behind_us = max(self._most_behind_us, int(behind_us[late].max()))


def _merged(runs: Sequence[Run]) -> Run:
    """All rows in the order of time, equal times in the order of the runs; no copy where they are in order already."""
    first = runs[0]
    if len(runs) > 1:
        columns = [
            pa.concat_arrays([run.rows.column(index) for run in runs]) for index in range(first.rows.num_columns)
        ]
        rows = pa.RecordBatch.from_arrays(columns, schema=first.rows.schema)
        first = Run(rows, np.concatenate([run.ts for run in runs]), np.concatenate([run.numbers for run in runs]))
    if not (first.ts[1:] < first.ts[:-1]).any():
        return first
    order = np.argsort(first.ts, kind="stable")
    return Run(first.rows.take(pa.array(order)), first.ts[order], first.numbers[order])


def _without_dictionaries(rows: pa.RecordBatch) -> pa.RecordBatch:
    columns = [column.dictionary_decode() if pa.types.is_dictionary(column.type) else column for column in rows.columns]
    return pa.RecordBatch.from_arrays(columns, names=rows.schema.names)
