"""Results out: tables and texts as files that appear whole or not at all, and the first rows for the eye.

Everything is written to a temporary file in the target's directory, which then takes the target's name.
"""

from __future__ import annotations

import json
import tempfile
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from decopa.errors import OutputError

#: Separates the ids of a KL alias in CSV, which has no lists.
LIST_SEPARATOR = ";"
_ROWS_AT_ONCE = 65_536
#: Rows of a Parquet row group; small ones are slow to read.
_ROW_GROUP = 524_288

Write = Callable[[pa.RecordBatch], object]


def write_matches(table: pa.Table, path: Path, *, overwrite: bool) -> None:
    """The matches as Parquet, CSV or JSON lines, as the suffix of the path says."""
    write_batches(table.schema, table.to_batches(max_chunksize=_ROWS_AT_ONCE), path, overwrite=overwrite)


def write_batches(schema: pa.Schema, batches: Iterable[pa.RecordBatch], path: Path, *, overwrite: bool) -> None:
    """A table of any length, batch by batch, as Parquet, CSV or JSON lines.

    In CSV the items of a list are joined by `;`. In JSON, times are ISO 8601 and numbers that JSON lacks are null.
    """
    check_writable(path, overwrite)
    writer = _WRITERS[path.suffix.lower()]
    with _replacing(path, overwrite) as temporary, writer(temporary, schema) as write:
        for batch in batches:
            write(batch)


def write_text(text: str, path: Path, *, overwrite: bool) -> None:
    """A text file, whatever its suffix."""
    check_writable(path, overwrite, suffixes=())
    with _replacing(path, overwrite) as temporary:
        temporary.write_text(text, encoding="utf-8")


def check_writable(path: Path, overwrite: bool, *, suffixes: Iterable[str] | None = None) -> None:
    """Refuses what `write_matches` would refuse, before the work is done; no suffixes means that any will do."""
    wanted = tuple(_WRITERS if suffixes is None else suffixes)
    if wanted and path.suffix.lower() not in wanted:
        raise OutputError(f"cannot write '{path}': its name must end in one of {', '.join(wanted)}")
    _refuse_existing(path, overwrite)
    try:
        if not path.parent.is_dir():
            raise OutputError(f"cannot write '{path}': there is no directory '{path.parent}'; make it first")
        # Permissions alone do not tell (read-only file systems, root), so try.
        tempfile.TemporaryFile(dir=path.parent).close()
    except OSError as err:
        raise _cannot_write(path, err) from err


def preview(table: pa.Table, rows: int) -> str:
    """The first rows as text, in aligned columns under their names."""
    head = _flat(pa.Table.from_batches(table.slice(0, rows).to_batches(), table.schema), ",")
    columns = [
        [name, *("" if cell is None else str(cell) for cell in column.to_pylist())]
        for name, column in zip(head.schema.names, _as_text(head).columns, strict=True)
    ]
    aligned = []
    for kind, cells in zip(head.schema.types, columns, strict=True):
        width = max(map(len, cells))
        number = pa.types.is_integer(kind) or pa.types.is_floating(kind)
        aligned.append([cell.rjust(width) if number else cell.ljust(width) for cell in cells])
    return "\n".join("  ".join(line).rstrip() for line in zip(*aligned, strict=True))


# ------------------------------------------------------------------ formats


@contextmanager
def _parquet(path: Path, schema: pa.Schema) -> Iterator[Write]:
    waiting: list[pa.RecordBatch] = []
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:

        def write(batch: pa.RecordBatch) -> None:
            waiting.append(batch)
            if sum(part.num_rows for part in waiting) >= _ROW_GROUP:
                writer.write_table(pa.Table.from_batches(waiting))
                waiting.clear()

        yield write
        if waiting:
            writer.write_table(pa.Table.from_batches(waiting))


@contextmanager
def _csv(path: Path, schema: pa.Schema) -> Iterator[Write]:
    empty = _flat(schema.empty_table(), LIST_SEPARATOR).schema
    with pyarrow.csv.CSVWriter(path, empty) as writer:
        yield lambda batch: writer.write_table(_flat(pa.Table.from_batches([batch]), LIST_SEPARATOR))


@contextmanager
def _json_lines(path: Path, schema: pa.Schema) -> Iterator[Write]:
    with path.open("w", encoding="utf-8") as file:

        def write(batch: pa.RecordBatch) -> None:
            for row in _as_json(pa.Table.from_batches([batch])).to_pylist():
                file.write(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n")

        yield write


_WRITERS = {".parquet": _parquet, ".csv": _csv, ".jsonl": _json_lines}


def _flat(table: pa.Table, separator: str) -> pa.Table:
    """Lists joined into strings, dictionaries as plain values."""

    def flat(column: pa.ChunkedArray) -> pa.ChunkedArray:
        if pa.types.is_dictionary(column.type):
            return column.cast(column.type.value_type)
        if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
            return pc.binary_join(column.cast(pa.list_(pa.string())), separator)
        return column

    return _mapped(table, flat)


def _as_text(table: pa.Table) -> pa.Table:
    return _mapped(table, lambda column: column.cast(pa.string()))


def _as_json(table: pa.Table) -> pa.Table:
    def fit(column: pa.ChunkedArray) -> pa.ChunkedArray:
        if pa.types.is_temporal(column.type):
            return column.cast(pa.string())
        if pa.types.is_floating(column.type):
            return pc.if_else(pc.is_finite(column), column, None)
        return column

    return _mapped(table, fit)


def _mapped(table: pa.Table, change: Callable[[pa.ChunkedArray], pa.ChunkedArray]) -> pa.Table:
    return pa.table([change(column) for column in table.columns], names=table.schema.names)


# ------------------------------------------------------------------ whole or not at all


@contextmanager
def _replacing(path: Path, overwrite: bool) -> Iterator[Path]:
    """A temporary path whose file takes the place of `path` at the end, or vanishes after an error."""
    temporary = path.with_name(f".decopa-{uuid.uuid4().hex}.tmp")
    try:
        temporary.touch(exist_ok=False)
        yield temporary
        _refuse_existing(path, overwrite)  # it may have come into being during the run
        temporary.replace(path)
    except OSError as err:
        raise _cannot_write(path, err) from err
    finally:
        temporary.unlink(missing_ok=True)


def _refuse_existing(path: Path, overwrite: bool) -> None:
    if path.is_dir():
        raise OutputError(f"cannot write '{path}': it is a directory; name a file in it")
    if path.exists() and not overwrite:
        raise OutputError(f"'{path}' exists; pass --overwrite (overwrite=True) or name another file")


def _cannot_write(path: Path, err: OSError) -> OutputError:
    return OutputError(f"cannot write '{path}': {err.strerror or err}; choose a place that can be written")
