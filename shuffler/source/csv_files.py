"""CSV files: types settled over the whole file, and cells and lines that do not fit named by their row."""

from __future__ import annotations

import codecs
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from decopa.errors import TraceError
from shuffler.source.letters import cut
from shuffler.source.readers import Misfit, Reader, after, check_names, reading

_NUMBER = r"^\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*$|^\s*[-+]?([nN][aA][nN]|[iI][nN][fF])\s*$"
_WHOLE = r"^\s*[-+]?\d{1,18}\s*$"
#: A column of text with this many numbers for each word is one of numbers, some of which are wrong.
_NUMBERS_PER_WORD = 10
#: Words among numbers that are kept in mind; more are counted only.
_MOST_WORDS = 100_000


class CsvReader(Reader):
    """A CSV file with a header. Empty cells are missing values, `""` is an empty string, `NaN` is a NaN.

    A first pass settles the type of each column over the whole file: Arrow guesses it from the first block, and a
    number with decimals or a time with fractions may come later. What fits no type makes its column unreadable, unless
    rows may be left out (`divert`): then lines with too few or too many cells are, and words among numbers are noted.
    `texts` may hold words among numbers, and the last of them always is text; `types` says what columns hold, where the
    user knows.
    """

    def __init__(
        self,
        path: Path,
        *,
        texts: Sequence[str],
        types: Mapping[str, pa.DataType] | None = None,
        divert: bool = False,
    ) -> None:
        self.name, self._path, self._divert, self._given = str(path), path, divert, dict(types or {})
        self._lines: dict[int, Misfit] = {}
        with self._reading():
            # Arrow cannot pass on a line that is not UTF-8; a file with such a line is refused as without `divert`.
            self._skipping = divert and _is_utf8(path)
        first = {texts[-1]: pa.string()} | self._given
        with self._reading():
            guessed = pyarrow.csv.open_csv(path, **self._options(first)).schema
            check_names(guessed, self.name)
        self.unreadable = self._given_up = dict[str, str]()
        self._types = dict(zip(guessed.names, guessed.types, strict=True))
        #: Columns of numbers that are read as text, because words stand among them.
        self._numeric: dict[str, pa.DataType] = {}
        words = _Words([name for name in guessed.names if name not in first and name not in texts])
        self.nullable = frozenset(self._settle_types(guessed.names, words))
        self._look_at(words)
        self.schema = pa.schema([(name, self._numeric.get(name, kind)) for name, kind in self._types.items()])

    def read(self, columns: Sequence[str], rows: int, skip: int = 0) -> Iterator[pa.RecordBatch]:
        with self._reading():
            for batch in after(pyarrow.csv.open_csv(self._path, **self._options(self._types, columns)), skip):
                yield self._with_numbers(batch) if self._numeric else batch

    def _settle_types(self, names: Sequence[str], words: _Words) -> set[str]:
        """Widens types until every column is read to the end or given up; returns the columns with missing values."""
        while True:
            nullable: set[str] = set()
            words.begin()
            try:
                for batch in self.read(list(self._types), 0):
                    nullable.update(name for name in batch.schema.names if batch.column(name).null_count)
                    words.see(batch)
                return nullable
            except _Unfit as unfit:
                name = names[unfit.column]
                wider = _wider(self._types[name], unfit.value)
                if wider is None and self._divert and name not in self._given:
                    wider = (
                        pa.string()
                    )  # then it is one of words among numbers, or of times that are checked one by one
                if wider is not None:
                    self._types[name] = wider
                else:
                    self._given_up[name] = f"{unfit.problem} (its first rows hold {self._types.pop(name)})"

    def _look_at(self, words: _Words) -> None:
        """Columns of text that are mostly numbers become columns of numbers, or unreadable."""
        mixed = words.mixed()
        if not self._divert:
            for name in mixed:
                row, value = words.found[name][0]
                self._given_up[name] = (
                    f"row {row + 1}: '{cut(value)}' is no number, and {words.numbers[name]:,} other values are; mend "
                    f"it, put such rows aside with --bad-rows divert, or read text with --schema {name}=string"
                )
                del self._types[name]
            return
        self._numeric = {name: words.number_type(name) for name in mixed}
        bad: dict[int, Misfit] = dict(self._lines)
        lines = Reader.place(self._only(bad), 0, words.rows).numbers(words.rows) if bad else None
        for name in mixed:
            for index, value in words.found[name]:
                row = index if lines is None else int(lines[index])
                reason = f"column '{name}': '{cut(value)}' is no number"
                bad[row] = Misfit(row, reason, {name: cut(value)}, left_out=False)
        self.misfits = [bad[row] for row in sorted(bad)]

    def _only(self, lines: Mapping[int, Misfit]) -> CsvReader:
        self.misfits = [lines[row] for row in sorted(lines)]
        return self

    def _with_numbers(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = [
            _numbers_in(column, self._numeric[name]) if name in self._numeric else column
            for name, column in zip(batch.schema.names, batch.columns, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)

    def _skip(self, line: pyarrow.csv.InvalidRow) -> str:
        """A line with too few or too many cells; Arrow counts lines from 1, the header first."""
        row = line.number - 2
        reason = f"the line has {line.actual_columns} cells instead of {line.expected_columns}"
        self._lines[row] = Misfit(row, reason, {"line": cut(line.text)})
        return "skip"

    def _options(self, types: Mapping[str, pa.DataType], columns: Sequence[str] | None = None) -> dict[str, object]:
        return {
            # One thread, because row numbers in Arrow's messages need it; the gain of more is small.
            "read_options": pyarrow.csv.ReadOptions(use_threads=False),
            "parse_options": pyarrow.csv.ParseOptions(
                newlines_in_values=True, invalid_row_handler=self._skip if self._skipping else None
            ),
            "convert_options": pyarrow.csv.ConvertOptions(
                column_types=types,
                include_columns=columns,
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        }

    @contextmanager
    def _reading(self) -> Iterator[None]:
        with reading(self._path, "CSV"):
            try:
                yield
            except pa.ArrowInvalid as err:
                raise _Unfit.of(err, self.name) or err from None


def _is_utf8(path: Path) -> bool:
    decoder = codecs.getincrementaldecoder("utf-8")()
    with pa.input_stream(str(path), compression="detect") as stream:
        try:
            while chunk := stream.read(1 << 20):
                decoder.decode(chunk)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            return False
    return True


class _Words:
    """Counts numbers and words in columns of text."""

    def __init__(self, names: Collection[str]) -> None:
        self._names = frozenset(names)
        self.begin()

    def begin(self) -> None:
        self.rows = 0
        self.numbers: Counter[str] = Counter()
        self.words: Counter[str] = Counter()
        self._whole: Counter[str] = Counter()
        #: Rows and values of the words, by column.
        self.found: dict[str, list[tuple[int, str]]] = {}

    def see(self, batch: pa.RecordBatch) -> None:
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            if name not in self._names or not pa.types.is_string(column.type) or self._is_text(name):
                continue
            is_number = pc.match_substring_regex(column, _NUMBER).fill_null(True).to_numpy(zero_copy_only=False)
            words = np.flatnonzero(~is_number)
            self.numbers[name] += len(column) - column.null_count - len(words)
            self.words[name] += len(words)
            self._whole[name] += pc.sum(pc.match_substring_regex(column, _WHOLE)).as_py() or 0
            noted = self.found.setdefault(name, [])
            for index in words[: _MOST_WORDS - len(noted)].tolist():
                noted.append((self.rows + index, column[index].as_py()))
        self.rows += batch.num_rows

    def mixed(self) -> list[str]:
        return [name for name, words in self.words.items() if 0 < words * _NUMBERS_PER_WORD <= self.numbers[name]]

    def number_type(self, name: str) -> pa.DataType:
        """Of the numbers in the column: whole ones stay whole."""
        return pa.int64() if self._whole[name] == self.numbers[name] else pa.float64()

    def _is_text(self, name: str) -> bool:
        """Whether it has so many words that it need not be looked at any further."""
        return self.words[name] >= _MOST_WORDS


def _numbers_in(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """The numbers of a column of text; its words are missing values."""
    kept = pc.if_else(pc.match_substring_regex(column, _NUMBER), column, pa.scalar(None, pa.string()))
    return pc.utf8_trim_whitespace(kept).cast(kind)


class _Unfit(TraceError):
    """A cell that is not of its column's type."""

    _FORM = re.compile(r"In CSV column #(\d+): ((?:Row #(\d+): )?.*?(?:invalid value '(.*)')?)\Z", re.DOTALL)

    def __init__(self, source: str, column: int, value: str, problem: str) -> None:
        self.column, self.value, self.problem = column, value, problem
        super().__init__(f"{source}: column {column + 1}: {problem}")

    @classmethod
    def of(cls, err: pa.ArrowInvalid, source: str) -> _Unfit | None:
        found = cls._FORM.search(str(err))
        return None if found is None else cls(source, int(found[1]), found[4] or "", found[2])


def _wider(narrow: pa.DataType, value: str) -> pa.DataType | None:
    """The type that holds what `narrow` holds and, perhaps, `value`; None if there is none but text."""
    if pa.types.is_null(narrow):  # nothing but empty cells so far: let Arrow guess from this one
        cell = pa.py_buffer(b'v\n"' + value.replace('"', '""').encode() + b'"\n')
        return pyarrow.csv.open_csv(pa.BufferReader(cell)).schema.types[0]
    if pa.types.is_int64(narrow):
        return pa.float64()
    if pa.types.is_date32(narrow):
        return pa.timestamp("s")
    return pa.timestamp("us", narrow.tz) if narrow in (pa.timestamp("s"), pa.timestamp("s", "UTC")) else None
