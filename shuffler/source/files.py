"""Opens traces that are files: Parquet, CSV and JSON lines, directories, patterns and lists of them."""

from __future__ import annotations

import glob
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.json

from decopa.errors import TraceError
from shuffler.rows.columns import is_text
from shuffler.source.csv_files import CsvReader
from shuffler.source.letters import cut
from shuffler.source.live.decoding import Decoder, infer_columns, schema_of
from shuffler.source.readers import (
    CSV_SUFFIXES,
    JSON_SUFFIXES,
    PARQUET_SUFFIXES,
    Misfit,
    ParquetReader,
    Reader,
    TableReader,
    after,
    check_names,
    reading,
)


def open_files(
    paths: Sequence[Path | str],
    *,
    ts: str,
    texts: Sequence[str],
    kinds: Mapping[str, str] | None = None,
    divert: bool = False,
) -> Reader:
    """The reader for files, directories of Parquet files and patterns such as data/*.csv, one after the other.

    `texts` are the columns that may hold any text: ids, and last the types of events. `kinds` says what columns of CSV
    and JSON hold, where the user knows. With `divert` rows that cannot be read become misfits.
    """
    found = [path for given in paths for path in _expanded(Path(given))]
    readers = [_open_file(path, ts=ts, texts=texts, kinds=kinds or {}, divert=divert) for path in found]
    return readers[0] if len(readers) == 1 else FilesReader(readers)


class FilesReader(Reader):
    """Several files with the same columns, one after the other; rows are numbered through."""

    def __init__(self, readers: Sequence[Reader]) -> None:
        first = readers[0]
        self.name = f"{first.name} and {len(readers) - 1} more"
        self._readers = readers
        self.unreadable = {name: why for reader in readers for name, why in reader.unreadable.items()}
        self.nullable = frozenset().union(*(reader.nullable for reader in readers))
        for reader in readers[1:]:
            if sorted(reader.schema.names) != sorted(first.schema.names) and not self.unreadable:
                raise TraceError(f"{reader.name}: its columns differ from those of {first.name}; make them the same")
        names = [name for name in first.schema.names if name not in self.unreadable]
        self.schema = pa.schema([(name, self._type_of(name)) for name in names])
        self.misfits = _numbered_through(readers, names[0]) if any(reader.misfits for reader in readers) else ()

    def read(self, columns: Sequence[str], rows: int, skip: int = 0) -> Iterator[pa.RecordBatch]:
        wanted = pa.schema([self.schema.field(name) for name in columns])
        for batch in after((one for reader in self._readers for one in reader.read(columns, rows)), skip):
            fitted = [
                column if column.type == field.type or pa.types.is_dictionary(column.type) else column.cast(field.type)
                for column, field in zip(batch.columns, wanted, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(fitted, names=wanted.names)

    def _type_of(self, name: str) -> pa.DataType:
        """The type that holds the column of all files: numbers and times widen, everything else must be the same."""
        types = {reader.schema.field(name).type: reader.name for reader in self._readers}
        if len(types) == 1:
            return next(iter(types))
        if all(pa.types.is_integer(kind) or pa.types.is_floating(kind) for kind in types):
            floating = any(pa.types.is_floating(kind) for kind in types)
            return pa.float64() if floating else pa.int64()
        if all((pa.types.is_timestamp(kind) and kind.tz is None) or pa.types.is_date(kind) for kind in types):
            return pa.timestamp("us")
        (one, here), (other, there), *_ = types.items()
        raise TraceError(f"column '{name}' holds {one} in {here} and {other} in {there}; write both with one schema")


def _numbered_through(readers: Sequence[Reader], column: str) -> list[Misfit]:
    """The misfits of all files, by the number of their row in all of them."""
    rows, misfits = 0, list[Misfit]()
    for reader in readers:
        misfits += [replace(one, row=rows + one.row) for one in reader.misfits]
        rows += sum(one.left_out for one in reader.misfits)
        rows += sum(batch.num_rows for batch in reader.read([column], 1 << 16))
    return misfits


def _expanded(path: Path) -> list[Path]:
    if path.exists() or not glob.has_magic(str(path)):
        return [path]
    found = sorted(Path(one) for one in glob.glob(str(path), recursive=True))
    if not found:
        raise TraceError(f"no file fits the pattern '{path}'; check the path")
    return found


def _open_file(path: Path, *, ts: str, texts: Sequence[str], kinds: Mapping[str, str], divert: bool) -> Reader:
    """The reader for a file or a directory of Parquet files, by its suffix."""
    with reading(path, "trace"):
        directory = path.is_dir()
        if not directory:
            path.open("rb").close()
    categorical = texts[-1]
    if directory:
        parts = sorted(part for part in path.rglob("*") if part.suffix in PARQUET_SUFFIXES and _is_data(part, path))
        if not parts:
            raise TraceError(f"{path} is a directory without .parquet files; name a trace file")
        return ParquetReader(parts, str(path), categorical)
    name = path.name.lower()
    if name.endswith(PARQUET_SUFFIXES):
        return ParquetReader([path], str(path), categorical)
    if name.endswith(CSV_SUFFIXES):
        types = dict(zip(kinds, schema_of(kinds).types, strict=True))
        return CsvReader(path, texts=texts, types=types, divert=divert)
    if name.endswith(JSON_SUFFIXES):
        with reading(path, "JSON lines"):
            return _open_json(path, ts, kinds, divert=divert)
    known = ", ".join((*PARQUET_SUFFIXES, *CSV_SUFFIXES, *JSON_SUFFIXES))
    raise TraceError(f"{path}: unknown kind of trace; its name must end in one of {known}")


def _open_json(path: Path, ts: str, kinds: Mapping[str, str], *, divert: bool) -> Reader:
    """JSON lines, loaded as a whole. Only a file with something wrong in it is taken apart into its lines."""
    try:
        schema = schema_of(kinds) if kinds else None
        options = pyarrow.json.ParseOptions(explicit_schema=schema)
        table = pyarrow.json.read_json(path, parse_options=options)
        check_names(table.schema, str(path))
        return TableReader(_with_times(table, ts), str(path))
    except pa.ArrowInvalid as err:
        lines = path.read_bytes().splitlines()
        try:
            columns = infer_columns("json", [line for line in lines[:1_000] if line.strip()], ts, str(path))
        except TraceError:
            raise err from None
        decoded = Decoder("json", {**columns, **kinds}).decode(lines, list(columns))
        misfits = [
            Misfit(row, reason, {"line": cut(lines[row].decode("utf-8", "backslashreplace"))})
            for row, reason in decoded.bad
            if lines[row].strip()
        ]
        if not divert and misfits:
            worst = misfits[0]
            raise TraceError(
                f"{path}: row {worst.row + 1}: {worst.reason}: {worst.values['line']}; mend it, or put such rows aside "
                "with --bad-rows divert"
            ) from err
        reader = TableReader(pa.Table.from_batches([decoded.rows]), str(path))
        reader.misfits = [*misfits]
        return reader


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


def _is_data(part: Path, directory: Path) -> bool:
    """Not one of the hidden or marker files that Spark and others leave behind."""
    return part.is_file() and not any(name.startswith(("_", ".")) for name in part.relative_to(directory).parts)
