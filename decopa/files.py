"""Files out: the one atomic write, and the one writer of matches, for whole files and for the parts of a folder.

A file is written under a temporary name in its own directory, which then takes its name: readers see all of it or
nothing. Only bad rows are appended line by line (`shuffler.source.dead_letters`).
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import tempfile
import uuid
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import fs

from decopa.choices import FILE_FORMATS
from decopa.errors import OutputError

#: Separates the ids of a KL alias in CSV, which has no lists.
LIST_SEPARATOR = ";"
_ROWS_AT_ONCE = 65_536
#: Rows of a Parquet row group; small ones are slow to read.
_ROW_GROUP = 524_288
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)

Write = Callable[[pa.RecordBatch], object]


def write_matches(table: pa.Table, path: Path, *, overwrite: bool, durable: bool = False) -> None:
    """The matches as Parquet, CSV or JSON lines, as the suffix of the path says."""
    batches = table.to_batches(max_chunksize=_ROWS_AT_ONCE)
    write_batches(table.schema, batches, path, overwrite=overwrite, durable=durable)


def write_batches(
    schema: pa.Schema, batches: Iterable[pa.RecordBatch], path: Path, *, overwrite: bool, durable: bool = False
) -> None:
    """A table of any length, batch by batch, as Parquet, CSV or JSON lines.

    In CSV the items of a list are joined by `;`. In JSON, times are ISO 8601 and numbers that JSON lacks are null.
    """
    check_writable(path, overwrite)
    writer = _WRITERS[path.suffix.lower()]
    with replacing(path, overwrite=overwrite, durable=durable) as temporary, writer(temporary, schema) as write:
        for batch in batches:
            write(batch)


@contextlib.contextmanager
def open_parquet(schema: pa.Schema, path: Path, *, overwrite: bool) -> Iterator[Write]:
    """A Parquet file for batches that come one after the other; it appears at the end."""
    with replacing(path, overwrite=overwrite) as temporary, _parquet(temporary, schema) as write:
        yield write


def json_lines(table: pa.Table) -> str:
    """A line for each row; times are ISO 8601, and numbers that JSON lacks are null."""
    rows = _mapped(table, _for_json).to_pylist()
    return "".join(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n" for row in rows)


def csv_lines(table: pa.Table, *, header: bool) -> bytes:
    """A line for each row, after one with the names of the columns if `header`; items of a list are joined by `;`."""
    import pyarrow.csv

    text = pa.BufferOutputStream()
    options = pyarrow.csv.WriteOptions(include_header=header)
    pyarrow.csv.write_csv(flat(table, LIST_SEPARATOR), text, options)
    return bytes(text.getvalue())


def write_text(text: str, path: Path, *, overwrite: bool, durable: bool = False) -> None:
    """A text file, whatever its suffix."""
    check_writable(path, overwrite, suffixes=())
    with replacing(path, overwrite=overwrite, durable=durable) as temporary:
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


# ------------------------------------------------------------------ whole or not at all


@contextlib.contextmanager
def replacing(path: Path, *, overwrite: bool = True, durable: bool = False) -> Iterator[Path]:
    """A temporary path whose file takes the place of `path` at the end, or vanishes after an error.

    What is `durable` is on the disk before it takes the name, so that a crash of the machine leaves no empty file.
    """
    temporary = path.with_name(f".decopa-{uuid.uuid4().hex}.tmp")
    try:
        temporary.touch(exist_ok=False)
        yield temporary
        if durable:
            with temporary.open("rb") as written:
                os.fsync(written.fileno())
        _refuse_existing(path, overwrite)  # it may have come into being during the run
        temporary.replace(path)
    except OSError as err:
        raise _cannot_write(path, err) from err
    finally:
        temporary.unlink(missing_ok=True)


def replace_on(files: fs.FileSystem, path: str, payload: bytes) -> None:
    """The same for a file on any filesystem that pyarrow knows, in a folder that is made if need be; raises OSError."""
    beside = f"{path}.part"
    try:
        if "/" in path:
            files.create_dir(path.rpartition("/")[0], recursive=True)
        with files.open_output_stream(beside) as stream:
            stream.write(payload)
        files.move(beside, path)
    except OSError:
        with contextlib.suppress(OSError):  # what was written of it takes space that may be wanted
            files.delete_file(beside)
        raise


def _refuse_existing(path: Path, overwrite: bool) -> None:
    if path.is_dir():
        raise OutputError(f"cannot write '{path}': it is a directory; name a file in it")
    if path.exists() and not overwrite:
        raise OutputError(f"'{path}' exists; pass --overwrite (overwrite=True) or name another file")


def _cannot_write(path: Path, err: OSError) -> OutputError:
    # Arrow's errors have no strerror.
    remedy = "check rights and free space" if err.errno in _NO_ROOM else "choose a place that can be written"
    return OutputError(f"cannot write '{path}': {err.strerror or err}; {remedy}")


# ------------------------------------------------------------------ formats


@contextlib.contextmanager
def _parquet(path: Path, schema: pa.Schema) -> Iterator[Write]:
    import pyarrow.parquet as pq  # here, because processing units, which write kernels only, need not load it

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


@contextlib.contextmanager
def _csv(path: Path, schema: pa.Schema) -> Iterator[Write]:
    import pyarrow.csv

    empty = flat(schema.empty_table(), LIST_SEPARATOR).schema
    with pyarrow.csv.CSVWriter(path, empty) as writer:
        yield lambda batch: writer.write_table(flat(pa.Table.from_batches([batch]), LIST_SEPARATOR))


@contextlib.contextmanager
def _json_lines(path: Path, schema: pa.Schema) -> Iterator[Write]:
    with path.open("w", encoding="utf-8") as file:

        def write(batch: pa.RecordBatch) -> None:
            file.write(json_lines(pa.Table.from_batches([batch])))

        yield write


_WRITERS = {f".{form}": writer for form, writer in zip(FILE_FORMATS, (_parquet, _csv, _json_lines), strict=True)}


def flat(table: pa.Table, separator: str) -> pa.Table:
    """The table with lists joined into strings, and dictionaries as plain values."""

    def flattened(column: pa.Array) -> pa.Array:
        if pa.types.is_dictionary(column.type):
            return column.cast(column.type.value_type)
        if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
            return pc.binary_join(column.cast(pa.list_(pa.string())), separator)
        return column

    return _mapped(table, flattened)


def _for_json(column: pa.Array) -> pa.Array:
    """Times as text, numbers that JSON lacks as null, in lists, too."""
    if pa.types.is_list(column.type):
        offsets, values = pc.cast(column.offsets, pa.int32()), _for_json(column.values)
        return pa.ListArray.from_arrays(offsets, values, mask=column.is_null() if column.null_count else None)
    if pa.types.is_temporal(column.type):
        return column.cast(pa.string())
    if pa.types.is_floating(column.type):
        return pc.if_else(pc.is_finite(column), column, None)
    return column


def _mapped(table: pa.Table, change: Callable[[pa.Array], pa.Array]) -> pa.Table:
    def changed(column: pa.ChunkedArray) -> pa.ChunkedArray:
        chunks = [change(chunk) for chunk in column.chunks]
        return pa.chunked_array(chunks or [change(pa.array([], type=column.type))])

    return pa.table([changed(column) for column in table.columns], names=table.schema.names)
