"""PartSink: matches leave as Parquet files, written where they are found, in bounded memory.

Files are staged under a name of their own in the folder's `_staged`; whoever runs the plan publishes all of them at the
end, or removes them. Within a part matches are in the order of their ends as far as one process knows it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from actors.sinks.sink import MatchSink
from decopa.choices import DEFAULT_MAX_FOLDER_BYTES
from decopa.errors import LimitError, OutputError
from shuffler.routing.table import END_OF_STREAM
from shuffler.rows.batch import Batch

#: Of the folder with files that are not published yet; readers pass it by.
STAGED = "_staged"
#: Bytes that stay free on the file system: whoever shares it should not be stopped by us.
_KEEP_FREE = 64 * 2**20
#: Columns that hold few distinct values in a row are worth a dictionary, ids are not.
_WITH_DICTIONARY = ["query"]
#: Readers skip row groups by time; by ids they seldom can.
_WITH_STATISTICS = ["start_ts", "end_ts"]


@dataclass(frozen=True)
class FolderSpec:
    """Where parts go, and how many bytes one process may write; `part_bytes` is about the size of one part."""

    folder: Path
    max_bytes: int = DEFAULT_MAX_FOLDER_BYTES
    part_bytes: int = 512 * 2**20


@dataclass(frozen=True, slots=True)
class StagedPart:
    """A file that is complete, with the matches and bytes in it."""

    name: str
    rows: int
    nbytes: int


class PartSink:
    """Writes what a `MatchSink` settles; `writer` tells the parts of this process from those of others."""

    def __init__(self, matches: MatchSink, spec: FolderSpec, writer: str) -> None:
        self._matches, self._spec, self._writer = matches, spec, writer
        self._staged = spec.folder / STAGED
        self.parts: list[StagedPart] = []
        self._open: _Part | None = None
        self._written = 0

    @property
    def rows(self) -> int:
        """All matches so far, those that are not written yet included."""
        return self._matches.rows

    def add(self, batch: Batch) -> None:
        self._matches.add(batch)

    def settle(self, watermark_us: int) -> None:
        """Writes matches that nothing can precede any more; at the end of the stream all of them."""
        self._matches.settle(watermark_us)
        try:
            for batch in self._matches.release():
                self._write(batch)
            if watermark_us == END_OF_STREAM:
                self._close()
        except OSError as err:
            raise OutputError(
                f"cannot write matches to {self._spec.folder}: {err.strerror or err}; free some space there, or name "
                "another folder"
            ) from err

    def abandon(self) -> None:
        """Lets go of the file that is being written, after a failure; it will never be published."""
        if self._open is not None:
            self._open.abandon()
            self._open = None

    def _write(self, batch: pa.RecordBatch) -> None:
        if self._open is None:
            name = f"part-{self._writer}-{len(self.parts):05d}.parquet"
            self._open = _Part(self._staged / name, self._required(batch.schema))
        self._open.write(batch)
        self._check_room()
        if self._open.nbytes >= self._spec.part_bytes:
            self._close()

    def _required(self, schema: pa.Schema) -> pa.Schema:
        """Columns that always have a value say so: Parquet then writes them in half the time."""
        return pa.schema([field.with_nullable(field.name in self._matches.nullable) for field in schema])

    def _check_room(self) -> None:
        assert self._open is not None
        written = self._written + self._open.nbytes
        if written > self._spec.max_bytes:
            raise LimitError(
                f"more than {self._spec.max_bytes / 2**20:,.0f} MiB of matches for {self._spec.folder}; use a shorter "
                "window or a more selective condition, count instead (--out none), or raise the limit "
                "(--max-out-mb, FolderSpec.max_bytes)"
            )
        if shutil.disk_usage(self._staged).free < _KEEP_FREE:
            raise OutputError(
                f"less than {_KEEP_FREE / 2**20:.0f} MiB are free at {self._spec.folder} after "
                f"{written / 2**20:,.0f} MiB of matches; free some space there, or name another folder"
            )

    def _close(self) -> None:
        if self._open is not None:
            self._open.close()
            self._written += self._open.nbytes
            self.parts.append(StagedPart(self._open.path.name, self._open.rows, self._open.nbytes))
            self._open = None


class _Part:
    """A Parquet file that is being written."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self.path, self.rows, self.nbytes = path, 0, 0
        self._file, self._schema = path.open("wb"), schema
        self._writer = pq.ParquetWriter(
            self._file, schema, compression="lz4", use_dictionary=_WITH_DICTIONARY, write_statistics=_WITH_STATISTICS
        )

    def write(self, batch: pa.RecordBatch) -> None:
        self._writer.write_batch(pa.RecordBatch.from_arrays(batch.columns, schema=self._schema))
        self.rows += batch.num_rows
        self.nbytes = self._file.tell()

    def close(self) -> None:
        self._writer.close()
        self.nbytes = self._file.tell()
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()

    def abandon(self) -> None:
        with contextlib.suppress(OSError):
            self._writer.close()
        with contextlib.suppress(OSError):
            self._file.close()


class Publication:
    """A folder that shows all parts of a run, or nothing of it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._staged = folder, folder / STAGED

    def prepare(self) -> None:
        """Makes the folder; it must be empty, and a place where files can be written and moved."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            odd = sorted(path.name for path in self.folder.iterdir())
            if odd:
                raise OutputError(
                    f"the folder {self.folder} is not empty, it holds '{odd[0]}'; name an empty or a new folder"
                )
            self._staged.mkdir()
            probe = self._staged / "probe"
            probe.touch()
            os.replace(probe, self.folder / "probe")
            (self.folder / "probe").unlink()
        except OSError as err:
            raise OutputError(f"cannot write to {self.folder}: {err.strerror}; check rights and free space") from err

    def publish(self, parts: list[StagedPart]) -> tuple[Path, ...]:
        """Shows the parts; the folder then holds them and nothing else."""
        shown = []
        try:
            for part in parts:
                os.replace(self._staged / part.name, self.folder / part.name)
                shown.append(self.folder / part.name)
            shutil.rmtree(self._staged)
        except OSError as err:
            for path in shown:
                path.unlink(missing_ok=True)
            raise OutputError(f"cannot publish matches in {self.folder}: {err.strerror}; check rights") from err
        return tuple(shown)

    def abandon(self) -> None:
        """Removes what was staged, after a failure."""
        shutil.rmtree(self._staged, ignore_errors=True)
