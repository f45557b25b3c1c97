"""Letters: rows that were put aside, with the reason, as JSON lines in a file.

    {"source": "trace.csv", "row": 7, "reason": "column 'x': NaN; ...", "values": {"id": "6", "x": "nan"}}

Rows of a broker have their `offset` in place of `row`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from decopa.errors import OutputError
from shuffler.rows.columns import Place, shown

#: Characters of a value that are written.
LONGEST_VALUE = 200


class LetterFile:
    """A file that letters are added to. A run that goes back to a checkpoint takes back the letters written since."""

    def __init__(self, path: Path | None, what: str = "bad rows") -> None:
        self._path, self._what = path, what

    def add(self, letters: Sequence[str]) -> None:
        if self._path is not None and letters:
            self._write("".join(letters), "a")

    def size(self) -> int:
        """Bytes that the file has now: the mark to go back to."""
        if self._path is None or not self._path.exists():
            return 0
        return self._path.stat().st_size

    def go_back_to(self, size: int) -> None:
        """Removes what was added after the file had this size; 0 makes it anew."""
        if self._path is None:
            return
        if size == 0:
            self._write("", "w")
        elif self._path.exists() and self._path.stat().st_size > size:
            os.truncate(self._path, size)

    def _write(self, text: str, mode: str) -> None:
        assert self._path is not None
        try:
            with self._path.open(mode, encoding="utf-8") as file:
                file.write(text)
        except OSError as err:
            raise OutputError(f"cannot write {self._what} to {self._path}: {err.strerror}; check the path") from err


def letter(place: Place, index: int, reason: str, values: Mapping[str, str | None]) -> str:
    """One line about row `index` of a block."""
    number = {"offset": place.row(index) - 1} if place.by_offset else {"row": place.row(index)}
    return json.dumps({"source": place.source, **number, "reason": reason, "values": values}) + "\n"


def values_of(rows: pa.RecordBatch, index: int) -> dict[str, str | None]:
    """The values of a row as text, each cut to a length that a file of many can hold."""
    return {name: _text(rows.column(place), index) for place, name in enumerate(rows.schema.names)}


def cut(text: str) -> str:
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}..."


def _text(column: pa.Array, index: int) -> str | None:
    return cut(shown(column, index)) if column[index].is_valid else None
