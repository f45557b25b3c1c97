"""Outlets: where the matches of a live run go, batch by batch.

JSON lines to a stream, a file of lines that grows, a folder of Parquet parts, or one Parquet file that appears when the
run ends. What an outlet has taken is out once `close` has returned, whatever ended the run.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any, Protocol

import pyarrow as pa

from decopa.errors import OutputError
from decopa.files import check_writable, csv_lines, json_lines, open_parquet, write_matches
from decopa.runs.result import combined

#: A part of a folder is written when it has this many matches, or this long after its first one.
DEFAULT_PART_ROWS = 100_000
DEFAULT_PART_S = 10.0


class Outlet(Protocol):
    """Takes matches; none of its methods is called by two threads at once."""

    def write(self, matches: pa.Table) -> None: ...

    def close(self) -> None: ...


class LineStream:
    """JSON lines to a stream, such as standard output; each batch is there at once."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def write(self, matches: pa.Table) -> None:
        self._stream.write(json_lines(matches))
        self._stream.flush()

    def close(self) -> None:
        pass


class GrowingFile:
    """A file of JSON lines or CSV that grows with the matches: whole lines, each batch in one write."""

    def __init__(self, path: Path, *, overwrite: bool) -> None:
        check_writable(path, overwrite, suffixes=(".jsonl", ".csv"))
        self._path, self._csv, self._header = path, path.suffix.lower() == ".csv", True
        try:
            self._file = path.open("wb", buffering=0)
        except OSError as err:
            raise _cannot_write(path, err) from err

    def write(self, matches: pa.Table) -> None:
        text = csv_lines(matches, header=self._header) if self._csv else json_lines(matches).encode()
        self._header = False
        try:
            self._file.write(text)
        except OSError as err:
            raise _cannot_write(self._path, err) from err

    def close(self) -> None:
        self._file.close()


class PartFolder:
    """A folder of Parquet parts, each of which appears as a whole: part-00000000.parquet and so on.

    `timer(seconds, write)` writes a part that has waited for long enough, in a thread of its own.
    """

    def __init__(
        self,
        folder: Path,
        *,
        rows: int = DEFAULT_PART_ROWS,
        every_s: float = DEFAULT_PART_S,
        timer: Callable[[float, Callable[[], None]], Any] = threading.Timer,
    ) -> None:
        self._folder, self._rows, self._every_s, self._timer = folder, rows, every_s, timer
        self._waiting: list[pa.Table] = []
        self._due: Any = None
        self._number = 0
        self._lock = threading.Lock()
        self._failure: OutputError | None = None
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if any(folder.glob("part-*")):
                raise OutputError(f"'{folder}' holds parts of another run; name an empty folder")
        except OSError as err:
            raise _cannot_write(folder, err) from err

    def write(self, matches: pa.Table) -> None:
        with self._lock:
            if self._failure is not None:
                raise self._failure
            self._waiting.append(matches)
            if sum(table.num_rows for table in self._waiting) >= self._rows:
                self._ship()
            elif self._due is None:
                self._due = self._timer(self._every_s, self._ship_in_time)
                self._due.daemon = True
                self._due.start()

    def close(self) -> None:
        with self._lock:
            self._ship()

    def _ship_in_time(self) -> None:
        with self._lock:
            try:
                self._ship()
            except OutputError as err:  # told by the next write
                self._failure = err

    def _ship(self) -> None:
        if self._due is not None:
            self._due.cancel()
            self._due = None
        if self._waiting:
            whole = combined(self._waiting)  # rules that come and go have columns of their own
            write_matches(whole, self._folder / f"part-{self._number:08d}.parquet", overwrite=False)
            self._waiting, self._number = [], self._number + 1


class WholeFile:
    """One Parquet file, which appears when the run has ended."""

    def __init__(self, path: Path, *, overwrite: bool) -> None:
        check_writable(path, overwrite, suffixes=(".parquet",))
        self._path, self._overwrite = path, overwrite
        self._open = ExitStack()
        self._write: Callable[[pa.RecordBatch], object] | None = None

    def write(self, matches: pa.Table) -> None:
        if self._write is None:
            self._write = self._open.enter_context(open_parquet(matches.schema, self._path, overwrite=self._overwrite))
        for batch in matches.to_batches():
            self._write(batch)

    def close(self) -> None:
        self._open.close()


def outlet_for(path: Path, *, overwrite: bool, part_rows: int | None, part_s: float | None) -> Outlet:
    """The outlet that a path names: by its suffix, a folder of parts without one."""
    suffix = path.suffix.lower()
    if suffix and (part_rows is not None or part_s is not None):
        raise OutputError(f"'{path}' is one file and has no parts; name a folder, without a suffix")
    if not suffix:
        return PartFolder(path, rows=part_rows or DEFAULT_PART_ROWS, every_s=part_s or DEFAULT_PART_S)
    if suffix == ".parquet":
        return WholeFile(path, overwrite=overwrite)
    if suffix in (".jsonl", ".csv"):
        return GrowingFile(path, overwrite=overwrite)
    raise OutputError(
        f"cannot write '{path}': its name must end in .jsonl, .csv or .parquet, or have no suffix for a folder of parts"
    )


def quiet_stream(stream: IO[str]) -> None:
    """Lets what a stream still holds go nowhere: its reader has gone."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, stream.fileno())
    os.close(null)


def _cannot_write(path: Path, err: OSError) -> OutputError:
    return OutputError(f"cannot write '{path}': {err.strerror or err}; check rights and free space")
