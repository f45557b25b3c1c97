"""Where events come from: tables, Parquet files and directories, CSV, JSON lines, live streams.

A reader hands out record batches of the columns asked for, in the order of its rows, and knows nothing of what the
columns mean. Memory follows the block, not the file; JSON lines alone are loaded as a whole.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet as pq

from decopa.errors import TraceError
from shuffler.rows.columns import is_text
from shuffler.source.parquet_files import groups_after, nullable_columns, whole

PARQUET_SUFFIXES = (".parquet", ".pq")
CSV_SUFFIXES = (".csv", ".csv.gz")
JSON_SUFFIXES = (".jsonl", ".ndjson")
#: Column chunks are read piecewise, so that a huge row group costs no memory. Arrow's pre-buffering must be off for
#: that: it keeps all that it has read, in the end the whole file, until the file is closed.
_PIECEWISE = {"buffer_size": 1 << 20, "pre_buffer": False}
#: An in-memory table in smaller pieces than this is copied into one, to keep the cost per piece out.
_SMALL_CHUNK = 4_096
#: Arrow measures blocks of JSON in 32 bits.
_MAX_JSON_BLOCK = 2**31 - 1


class Reader(ABC):
    """`nullable` names the columns in which values may be missing; `unreadable` says why a column cannot be had."""

    name: str
    schema: pa.Schema
    nullable: frozenset[str]
    unreadable: Mapping[str, str]

    @abstractmethod
    def read(self, columns: Sequence[str], rows: int, skip: int = 0) -> Iterator[pa.RecordBatch]:
        """The rows after the first `skip`, of these columns, in blocks of at most `rows` or as they come."""


class TableReader(Reader):
    """An Arrow table in memory, sliced without copying."""

    def __init__(self, table: pa.Table, name: str = "the table") -> None:
        self.name, self.schema, self.unreadable = name, table.schema, {}
        self.nullable = frozenset(
            field.name for field, column in zip(table.schema, table.columns, strict=True) if _has_nulls(column)
        )
        self._table = table

    def read(self, columns: Sequence[str], rows: int, skip: int = 0) -> Iterator[pa.RecordBatch]:
        table = self._table.select(list(columns)).slice(skip)
        if table.num_rows < _SMALL_CHUNK * max((column.num_chunks for column in table.columns), default=0):
            table = table.combine_chunks()
        yield from table.to_batches(max_chunksize=rows)


class ParquetReader(Reader):
    """One Parquet file or several with the same columns, one after the other; `categorical` comes as a dictionary."""

    def __init__(self, paths: Sequence[Path], name: str, categorical: str) -> None:
        self.name, self.unreadable, self._paths, self._categorical = name, {}, paths, categorical
        nullable: set[str] = set()
        for number, path in enumerate(paths):
            with _reading(path, "Parquet"), pq.ParquetFile(path, **_PIECEWISE) as file:
                schema = file.schema_arrow
                _check_names(schema, str(path))
                nullable.update(nullable_columns(file))
            if number == 0:
                self.schema = schema
            elif not schema.equals(self.schema):
                raise TraceError(f"{path}: its columns differ from those of {paths[0]}; write both with one schema")
        self.nullable = frozenset(nullable)

    def read(self, columns: Sequence[str], rows: int, skip: int = 0) -> Iterator[pa.RecordBatch]:
        """Files and row groups that are skipped are not read: their metadata says how many rows they have."""
        wanted = list(columns)
        dictionary = [self._categorical] if is_text(self.schema.field(self._categorical).type) else None
        for path in self._paths:
            with (
                _reading(path, "Parquet"),
                pq.ParquetFile(path, read_dictionary=dictionary, **_PIECEWISE) as file,
            ):
                groups, skip = groups_after(file, skip)
                for batch in after(file.iter_batches(rows, row_groups=groups, columns=wanted), skip if groups else 0):
                    yield whole(batch.select(wanted))
                skip = 0 if groups else skip


class CsvReader(Reader):
    """A CSV file with a header. Empty cells are missing values, `""` is an empty string, `NaN` is a NaN.

    A first pass settles the type of each column over the whole file: Arrow guesses it from the first block, and a
    number with decimals or a time with fractions may come later. What fits no type makes its column unreadable.
    """

    def __init__(self, path: Path, categorical: str) -> None:
        self.name, self._path = str(path), path
        with self._reading():
            guessed = pyarrow.csv.open_csv(path, **self._options({categorical: pa.string()})).schema
            _check_names(guessed, self.name)
        self.unreadable = self._given_up = dict[str, str]()
        self._types = dict(zip(guessed.names, guessed.types, strict=True))
        self.nullable = frozenset(self._settle_types(guessed.names))
        self.schema = pa.schema(list(self._types.items()))

    def read(self, columns: Sequence[str], rows: int, skip: int = 0) -> Iterator[pa.RecordBatch]:
        with self._reading():
            yield from after(pyarrow.csv.open_csv(self._path, **self._options(self._types, columns)), skip)

    def _settle_types(self, names: Sequence[str]) -> set[str]:
        """Widens types until every column is read to the end or given up; returns the columns with missing values."""
        while True:
            nullable: set[str] = set()
            try:
                for batch in self.read(list(self._types), 0):
                    nullable.update(name for name in batch.schema.names if batch.column(name).null_count)
                return nullable
            except _Misfit as misfit:
                name = names[misfit.column]
                wider = _wider(self._types[name], misfit.value)
                if wider is not None:
                    self._types[name] = wider
                else:
                    self._given_up[name] = f"{misfit.problem} (its first rows hold {self._types.pop(name)})"

    def _options(self, types: Mapping[str, pa.DataType], columns: Sequence[str] | None = None) -> dict[str, object]:
        return {
            # One thread, because row numbers in Arrow's messages need it; the gain of more is small.
            "read_options": pyarrow.csv.ReadOptions(use_threads=False),
            "parse_options": pyarrow.csv.ParseOptions(newlines_in_values=True),
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
        with _reading(self._path, "CSV"):
            try:
                yield
            except pa.ArrowInvalid as err:
                raise _Misfit.of(err, self.name) or err from None


class _Misfit(TraceError):
    """A cell that is not of its column's type."""

    _FORM = re.compile(r"In CSV column #(\d+): ((?:Row #(\d+): )?.*?(?:invalid value '(.*)')?)\Z", re.DOTALL)

    def __init__(self, source: str, column: int, value: str, problem: str) -> None:
        self.column, self.value, self.problem = column, value, problem
        super().__init__(f"{source}: column {column + 1}: {problem}")

    @classmethod
    def of(cls, err: pa.ArrowInvalid, source: str) -> _Misfit | None:
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


class StreamReader(Reader):
    """Record batches as they arrive; can be read once."""

    def __init__(self, batches: Iterable[pa.RecordBatch], name: str = "the stream") -> None:
        self.name, self.unreadable = name, {}
        self._arriving: Iterator[pa.RecordBatch] | None = iter(batches)
        self._first: list[pa.RecordBatch] = []
        schema = getattr(batches, "schema", None)
        if not isinstance(schema, pa.Schema):
            first = next(self._arriving, None)
            if first is None:
                raise TraceError(f"{name} ended before its first batch, so its columns are unknown")
            self._first.append(_checked_batch(first, name))
            schema = first.schema
        self.schema = schema
        self.nullable = frozenset(schema.names)

    def read(self, columns: Sequence[str], rows: int, skip: int = 0) -> Iterator[pa.RecordBatch]:
        yield from after(self._read(columns), skip)

    def _read(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        arriving, self._arriving = self._arriving, None
        if arriving is None:
            raise TraceError(f"{self.name} was read already; a live stream passes once, so collect it into a table")
        wanted = list(columns)
        while True:
            batch = self._first.pop() if self._first else next(arriving, None)
            if batch is None:
                return
            if not _checked_batch(batch, self.name).schema.equals(self.schema):
                raise TraceError(f"{self.name}: the columns of a batch differ from those of the first one")
            yield batch.select(wanted)


def after(batches: Iterable[pa.RecordBatch], skip: int) -> Iterator[pa.RecordBatch]:
    """The rows after the first `skip`."""
    for batch in batches:
        passed = min(skip, batch.num_rows)
        skip -= passed
        if passed < batch.num_rows or not passed:
            yield batch.slice(passed) if passed else batch


def open_file(path: Path, *, times: Sequence[str], categorical: str) -> Reader:
    """The reader for a file or a directory of Parquet files, by its suffix."""
    with _reading(path, "trace"):
        directory = path.is_dir()
        if not directory:
            path.open("rb").close()
    if directory:
        parts = sorted(part for part in path.rglob("*") if part.suffix in PARQUET_SUFFIXES and _is_data(part, path))
        if not parts:
            raise TraceError(f"{path} is a directory without .parquet files; name a trace file")
        return ParquetReader(parts, str(path), categorical)
    name = path.name.lower()
    if name.endswith(PARQUET_SUFFIXES):
        return ParquetReader([path], str(path), categorical)
    if name.endswith(CSV_SUFFIXES):
        return CsvReader(path, categorical)
    if name.endswith(JSON_SUFFIXES):
        with _reading(path, "JSON lines"):
            table = _read_json(path)
            _check_names(table.schema, str(path))
            for name in times:
                table = _with_times(table, name)
            return TableReader(table, str(path))
    known = ", ".join((*PARQUET_SUFFIXES, *CSV_SUFFIXES, *JSON_SUFFIXES))
    raise TraceError(f"{path}: unknown kind of trace; its name must end in one of {known}")


def _read_json(path: Path) -> pa.Table:
    """Arrow reads block by block and counts the rows of each; what it refuses is read again in one piece, so that the
    row it names is that of the file."""
    try:
        return pyarrow.json.read_json(path)
    except pa.ArrowInvalid as err:
        whole_file = min(path.stat().st_size + 1, _MAX_JSON_BLOCK)
        options = pyarrow.json.ReadOptions(use_threads=False, block_size=whole_file)
        try:
            return pyarrow.json.read_json(path, options)
        except pa.ArrowInvalid as exact:
            raise pa.ArrowInvalid(counted_from_one(str(exact))) from err


def counted_from_one(message: str, rows_before: int = 0) -> str:
    """Arrow's message about JSON with rows counted from 1, as everywhere else, after those that came before."""
    return re.sub(r"in row (\d+)", lambda found: f"in row {rows_before + int(found[1]) + 1}", message)


@contextmanager
def _reading(path: Path, form: str) -> Iterator[None]:
    """Turns what Arrow and the system say about an unreadable file into one line."""
    try:
        yield
    except FileNotFoundError:
        raise TraceError(f"no trace '{path}'; check the path") from None
    except PermissionError:
        raise TraceError(f"'{path}' may not be read; check its permissions") from None
    except (pa.ArrowException, OSError, ValueError) as err:
        reason = next(iter(str(err).splitlines()), type(err).__name__)
        raise TraceError(f"'{path}' cannot be read as {form}: {reason}; is it complete?") from err


def _check_names(schema: pa.Schema, source: str) -> None:
    """Names that are not UTF-8 end in a ValueError here."""
    for name in schema.names:
        if schema.names.count(name) > 1:
            raise TraceError(f"{source}: two columns are called '{name}'; rename one")


def _checked_batch(batch: object, name: str) -> pa.RecordBatch:
    if not isinstance(batch, pa.RecordBatch):
        raise TraceError(f"{name} must consist of pyarrow.RecordBatch, got {type(batch).__name__}")
    return batch


def _has_nulls(column: pa.ChunkedArray) -> bool:
    if column.null_count:
        return True
    return pa.types.is_dictionary(column.type) and any(chunk.dictionary.null_count for chunk in column.chunks)


def _is_data(part: Path, directory: Path) -> bool:
    """Not one of the hidden or marker files that Spark and others leave behind."""
    return part.is_file() and not any(name.startswith(("_", ".")) for name in part.relative_to(directory).parts)


def _with_times(table: pa.Table, ts: str) -> pa.Table:
    """JSON has no times: ISO 8601 strings in the time column become timestamps if they all are."""
    if ts not in table.schema.names or not is_text(table.schema.field(ts).type):
        return table
    for kind in (pa.timestamp("us"), pa.timestamp("us", "UTC")):
        try:
            return table.set_column(table.schema.get_field_index(ts), ts, table.column(ts).cast(kind))
        except pa.ArrowInvalid:
            continue
    return table
