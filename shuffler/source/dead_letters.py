"""Rows with values that cannot be used: by default the first one stops the run; they can be put aside instead.

A row that is put aside is left out of the stream, counted, and written to a file of JSON lines with the reason:

    {"source": "trace.csv", "row": 7, "reason": "column 'x': NaN; ...", "values": {"id": "6", "x": "nan"}}

It is found where the driver reads the trace, so that every runtime sees the same stream. Nothing is looked at row by
row: a block is checked as columns, and only one that is refused is taken apart.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from decopa.choices import BAD_ROW_POLICIES, DEFAULT_MAX_BAD_ROWS, BadRowPolicy
from decopa.errors import OutputError, TraceError
from shuffler.rows.columns import BadValues, Ints, Place, shown

#: Characters of a value that are written.
LONGEST_VALUE = 200


@dataclass(frozen=True, slots=True)
class BadRows:
    """What becomes of rows with values that cannot be used: missing ids, times out of range, NaN, repeated ids.

    `fail` stops at the first. `divert` leaves them out and counts them; with a `file` they are written there, in place
    of what it held. More than `max_rows` stop the run: then it is the trace that is wrong, not some of its rows.
    """

    policy: BadRowPolicy = "fail"
    file: Path | None = None
    max_rows: int = DEFAULT_MAX_BAD_ROWS

    def __post_init__(self) -> None:
        if self.policy not in BAD_ROW_POLICIES:
            raise TraceError(
                f"unknown policy for bad rows '{self.policy}'; choose --bad-rows {' or '.join(BAD_ROW_POLICIES)}"
            )
        if self.file is not None and self.policy == "fail":
            raise TraceError("a file for bad rows is of use with --bad-rows divert only")
        if self.max_rows < 1:
            raise TraceError(f"the number of bad rows to put up with must be positive, got {self.max_rows}")


class DeadLetters:
    """The bad rows of one trace; each is counted and written once, however often the trace is read."""

    def __init__(self, policy: BadRows, source: str) -> None:
        self._policy, self._source = policy, source
        self._rows: set[int] = set()
        self._in_order: Ints = np.empty(0, dtype=np.int64)
        self._first: str | None = None
        if policy.file is not None:
            self._write("", "w")

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def diverting(self) -> bool:
        return self._policy.policy == "divert"

    @property
    def rows(self) -> Ints:
        """Their numbers, from 0, in order."""
        if len(self._in_order) < len(self._rows):
            self._in_order = np.array(sorted(self._rows), dtype=np.int64)
        return self._in_order

    @property
    def notice(self) -> str | None:
        """How many there are, and where; None if there are none."""
        if not self._rows:
            return None
        rows = "1 bad row" if len(self) == 1 else f"{len(self):,} bad rows"
        where = "" if self._policy.file is None else f"; see {self._policy.file}"
        return f"left out {rows}: {self._first}{where}"

    def sift(
        self, rows: pa.RecordBatch, place: Place, check: Callable[[pa.RecordBatch, Place], object]
    ) -> tuple[pa.RecordBatch, Place]:
        """The rows that `check` lets pass, and their place. It names all rows that break a rule at once, so it is
        called again at most once for each rule."""
        while True:
            try:
                check(rows, place)
                return rows, place
            except BadValues as bad:
                if not self.diverting or bad.wrong is None:
                    raise
                self.put(rows, bad, place)
                rows, place = rows.filter(pa.array(~bad.wrong)), place.only(~bad.wrong)

    def put(self, rows: pa.RecordBatch, bad: BadValues, place: Place) -> None:
        """Writes down the rows that are wrong."""
        assert bad.wrong is not None
        lines: list[str] = []
        for index in np.flatnonzero(bad.wrong).tolist():
            number = place.row(index)
            if number - 1 in self._rows:
                continue
            if len(self._rows) == self._policy.max_rows:
                self._write("".join(lines))
                raise TraceError(
                    f"{self._source}: more than {self._policy.max_rows:,} bad rows; row {number}: {bad.reason}; mend "
                    "the trace, or put up with more (BadRows(max_rows=...))"
                )
            self._rows.add(number - 1)
            self._first = self._first or f"row {number}: {bad.reason}"
            lines.append(json.dumps(self._letter(number, bad.reason, _values(rows, index))) + "\n")
        self._write("".join(lines))

    def _letter(self, number: int, reason: str, values: Mapping[str, str | None]) -> dict[str, object]:
        return {"source": self._source, "row": number, "reason": reason, "values": values}

    def _write(self, text: str, mode: str = "a") -> None:
        if self._policy.file is None or (not text and mode == "a"):
            return
        try:
            with self._policy.file.open(mode, encoding="utf-8") as file:
                file.write(text)
        except OSError as err:
            raise OutputError(f"cannot write bad rows to {self._policy.file}: {err.strerror}; check the path") from err


def _values(rows: pa.RecordBatch, index: int) -> dict[str, str | None]:
    return {name: _text(rows.column(place), index) for place, name in enumerate(rows.schema.names)}


def _text(column: pa.Array, index: int) -> str | None:
    """A value as text, cut to a length that a file of many can hold."""
    if not column[index].is_valid:
        return None
    text = shown(column, index)
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}..."
