"""Rows with values that cannot be used: by default the first one stops the run; they can be put aside instead.

A row that is put aside is left out of the stream, counted, and written to a file (see `shuffler.source.letters`). It is
found where the driver reads the trace, so that every runtime sees the same stream. Nothing is looked at row by
row: a block is checked as columns, and only one that is refused is taken apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from decopa.choices import BAD_ROW_POLICIES, DEFAULT_MAX_BAD_ROWS, BadRowPolicy
from decopa.errors import TraceError
from shuffler.rows.columns import BadValues, Ints, Place
from shuffler.source.letters import LetterFile, letter, values_of


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
        self._file = LetterFile(policy.file)
        self._begin()

    def _begin(self) -> None:
        self._file.go_back_to(0)

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def diverting(self) -> bool:
        return self._policy.policy == "divert"

    @property
    def rows(self) -> Ints:
        """Numbers, from 0, in order, of rows that were put aside and may be read again."""
        if len(self._in_order) < len(self._rows):
            self._in_order = np.array(sorted(self._rows), dtype=np.int64)
        return self._in_order

    @property
    def notice(self) -> str | None:
        """How many there are, and where; None if there are none."""
        if not len(self):
            return None
        rows = "1 bad row" if len(self) == 1 else f"{len(self):,} bad rows"
        where = "" if self._policy.file is None else f"; see {self._policy.file}"
        return f"left out {rows}: {self._first}{where}"

    def sift(
        self, rows: pa.RecordBatch, place: Place, check: Callable[[pa.RecordBatch, Place], object]
    ) -> tuple[pa.RecordBatch, Place]:
        """The rows that `check` lets pass, and their place; those that are known to be bad are left out.

        It names all rows that break a rule at once, so it is called again at most once for each rule.
        """
        known = self.rows
        if len(known) and not (kept := ~np.isin(place.numbers(rows.num_rows), known)).all():
            rows, place = rows.filter(pa.array(kept)), place.only(kept)
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
        indices: list[int] = np.flatnonzero(bad.wrong).tolist()
        self.put_values(place, [(index, bad.reason, values_of(rows, index)) for index in indices])

    def put_values(self, place: Place, bad: Sequence[tuple[int, str, Mapping[str, str | None]]]) -> None:
        """Writes down rows by index, reason and what could be read of them."""
        lines: list[str] = []
        for index, reason, values in bad:
            if self._is_known(place, index):
                continue
            if len(self) == self._policy.max_rows:
                self._file.add(lines)
                raise TraceError(
                    f"{place.source}: more than {self._policy.max_rows:,} bad rows; {place.at(index)}: {reason}; mend "
                    "the trace, or put up with more (BadRows(max_rows=...))"
                )
            self._note(place, index)
            self._first = self._first or f"{place.at(index)}: {reason}"
            lines.append(letter(place, index, reason, values))
        self._file.add(lines)

    def _is_known(self, place: Place, index: int) -> bool:
        return place.row(index) - 1 in self._rows

    def _note(self, place: Place, index: int) -> None:
        self._rows.add(place.row(index) - 1)


class StreamLetters(DeadLetters):
    """The bad rows of a live stream, counted for each source. Each row passes once, so none is remembered.

    `mark` goes into a checkpoint; `go_back_to` takes back what was put aside after it.
    """

    def _begin(self) -> None:
        self._counts: Counter[str] = Counter()

    def __len__(self) -> int:
        return self._counts.total()

    @property
    def counts(self) -> Mapping[str, int]:
        """How many there are of each source."""
        return dict(self._counts)

    @property
    def mark(self) -> dict[str, object]:
        return {"bytes": self._file.size(), "counts": dict(self._counts), "first": self._first}

    def go_back_to(self, mark: Mapping[str, object] | None) -> None:
        """Goes back to a mark, or to the beginning."""
        mark = mark or {}
        counts, size, first = mark.get("counts", {}), mark.get("bytes", 0), mark.get("first")
        assert isinstance(counts, dict) and isinstance(size, int)
        self._counts, self._first = Counter(counts), None if first is None else str(first)
        self._file.go_back_to(size)

    def _is_known(self, place: Place, index: int) -> bool:
        return False

    def _note(self, place: Place, index: int) -> None:
        self._counts[place.source] += 1
