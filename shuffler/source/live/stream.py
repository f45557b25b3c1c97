"""LiveStream: arrivals of a live source, checked and put in the order of time, as blocks with positions."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from decopa.choices import TIME_UNITS
from decopa.errors import CheckpointError
from shuffler.rows.columns import Place, identities, timestamps_us
from shuffler.rows.events import TraceColumns
from shuffler.rows.times import guessed_unit, shown_time
from shuffler.source.block import Block
from shuffler.source.checks import IdOrder, check_rows, check_unique
from shuffler.source.dead_letters import StreamLetters
from shuffler.source.lateness import Lateness, Run
from shuffler.source.letters import letter, values_of
from shuffler.source.live.interface import Arrival, LiveReader
from shuffler.source.live.letter_topic import letter_box
from shuffler.source.live.merging import Clock, PartitionMerge
from shuffler.source.live.position import Position


class LiveStream:
    """The events of a live reader; a new pass begins with every call of `blocks`, if the source can be read again."""

    def __init__(
        self,
        reader: LiveReader,
        columns: TraceColumns,
        lateness: Lateness,
        letters: StreamLetters,
        *,
        nan_as_null: bool = False,
        idle_after_s: float | None = None,
        clock: Clock = time.monotonic,
    ) -> None:
        self._reader, self._columns, self._lateness, self._letters = reader, columns, lateness, letters
        self._nan_as_null, self._idle_after_s, self._clock = nan_as_null, idle_after_s, clock
        self._late_file = letter_box(lateness.file, "late events")
        self._merge = self._merge_from(None)
        self._offsets: dict[str, int] = {}
        self._unit_seen = False

    def blocks(self, wanted: Sequence[str], rows: int, saved: bytes | None = None) -> Iterator[Block | None]:
        """Blocks of at most `rows`, from the saved position on; None whenever nothing has come for a moment."""
        position = None if saved is None else self._position(saved)
        self._merge = self._merge_from(position)
        marks = {} if position is None else position.marks
        self._letters.go_back_to(marks.get("bad"))
        self._late_file.go_back_to(marks.get("late", 0))
        self._offsets = dict(position.offsets) if position is not None else {}
        ids, one_lane = IdOrder(), len(self._reader.partitions()) == 1
        for arrival in self._reader.arrivals(wanted, None if position is None else position.offsets):
            if arrival is not None:
                self._take(arrival, wanted, ids)
            if arrival is None or one_lane:
                yield from self._cut(self._merge.leave(self._reader.lag()), rows)
                self._reader.hold_back(self._merge.far_ahead)
            if arrival is None:
                yield None
        yield from self._cut(self._merge.end(), rows)

    @property
    def replayable(self) -> bool:
        return self._reader.replayable

    @property
    def late_events(self) -> int:
        return self._merge.late_events

    @property
    def late(self) -> dict[str, int]:
        """Late events of each partition that has any."""
        return dict(self._merge.late)

    @property
    def held_rows(self) -> int:
        return self._merge.held_rows

    @property
    def notice(self) -> str | None:
        return self._merge.notice(self._reader.name)

    # ------------------------------------------------------------- in

    def _take(self, arrival: Arrival, wanted: Sequence[str], ids: IdOrder) -> None:
        rows, place, names = arrival.rows, arrival.place, self._columns
        for name, offset in arrival.offsets.items():
            if offset < 0:
                self._offsets.pop(name, None)
            else:
                self._offsets[name] = offset
        if self._letters.diverting or self._reader.replayable:
            rows, place = self._letters.sift(rows, place, lambda some, here: self._check(some, here, wanted))
        ids.see(identities(rows.column(names.id), names.id, place))
        if not ids.increasing:
            rows, place = self._letters.sift(rows, place, self._check_unique)
        times = timestamps_us(rows.column(names.clock), names.clock, place, names.unit)
        if not self._unit_seen and len(times):
            self._check_unit(rows.column(names.ts), place)
        self._merge.arrive(arrival.partition, rows, times, place)

    def _check_unit(self, column: pa.Array, place: Place) -> None:
        """Refuses whole numbers that look like dates in another unit than the one that they are taken for."""
        self._unit_seen = True
        if self._columns.unit is None and pa.types.is_integer(column.type):
            first = int(column[0].as_py())
            unit = guessed_unit(np.array([first]))
            if unit != "us":
                raise place.error(
                    self._columns.ts,
                    0,
                    f"{first} looks like {TIME_UNITS[unit]} since 1970 ({shown_time(first, unit)}); say --ts-unit "
                    f"{unit} (TraceColumns(unit='{unit}')), or us if it is microseconds",
                )

    def _check(self, rows: pa.RecordBatch, place: Place, wanted: Sequence[str]) -> None:
        check_rows(rows, place, self._columns, wanted[3:], self._nan_as_null)

    def _check_unique(self, rows: pa.RecordBatch, place: Place) -> None:
        check_unique(pa.chunked_array([rows.column(self._columns.id)]), self._columns.id, place)

    def _take_late(self, rows: pa.RecordBatch, behind_us: npt.NDArray[np.uint64], place: Place) -> None:
        allowed = self._lateness.allowed_us
        self._late_file.add(
            [
                letter(
                    place, index, f"late: {behind:,} us behind the newest, {allowed:,} allowed", values_of(rows, index)
                )
                for index, behind in enumerate(behind_us.tolist())
            ]
        )

    # ------------------------------------------------------------- out

    def _cut(self, run: Run | None, rows: int) -> Iterator[Block]:
        """The run in blocks. A cut of the stream may fall between any two of them, so each has its own position."""
        if run is None:
            return
        for start in range(0, len(run), rows):
            part = run.slice(start, start + rows)
            rest = run.slice(start + rows, len(run)) if start + rows < len(run) else None
            yield Block(part.rows, Place(self._reader.name, order=part.numbers), self._position_after(rest))

    def _position_after(self, rest: Run | None) -> Position | None:
        if not self._reader.replayable:
            return None
        marks: dict[str, Any] = {"bad": self._letters.mark, "late": self._late_file.size()}
        return Position(self._reader.identity, dict(self._offsets), self._merge.snapshot(rest), marks)

    def _position(self, saved: bytes) -> Position:
        position = Position.decode(saved, "the position of the source in the checkpoint", self._columns)
        if position.identity != self._reader.identity:
            raise CheckpointError(
                f"the checkpoint belongs to {position.identity}, not to {self._reader.identity}; name another folder "
                "for this source, or go on with that one"
            )
        return position

    def _merge_from(self, position: Position | None) -> PartitionMerge:
        return PartitionMerge(
            self._lateness,
            self._columns.clock,
            partitions=self._reader.partitions(),
            idle_after_s=self._idle_after_s,
            clock=self._clock,
            state=None if position is None else position.merge,
            take_late=self._take_late if self._lateness.policy == "divert" else None,
        )
