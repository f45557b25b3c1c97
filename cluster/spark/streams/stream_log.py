"""What a stream of micro-batches has done, on disk: one small file that is replaced as a whole.

A micro-batch is done when this file says so. Whatever a crash leaves half done is done again under the same names.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

import pyarrow as pa

from decopa.documents import Document, read_document, record_of
from decopa.errors import CheckpointError
from decopa.files import write_matches, write_text

FORMAT = "decopa-stream"
VERSION = 1


@dataclass(frozen=True, slots=True)
class Progress:
    """The last micro-batch that is done; events up to `handed_us` have been worked on, later ones are kept.

    `query` is the text of the queries, so that a restart with others is noticed.
    """

    query: str
    batch_id: int = -1
    handed_us: int | None = None
    events: int = 0
    late_events: int = 0
    matches: int = 0


class StreamLog:
    """`folder` holds the progress and the events that a restart needs; `out` the matches, a file for each batch."""

    def __init__(self, folder: Path, out: Path) -> None:
        self._folder, self._out = folder, out
        for one in (folder, out):
            one.mkdir(parents=True, exist_ok=True)

    def read(self, query: str) -> Progress:
        """Where to go on; refuses the log of another query, or of another version."""
        path = self._folder / "progress.json"
        if not path.exists():
            if any(self._out.glob("matches-*.parquet")):
                raise CheckpointError(
                    f"{self._out} holds matches already but {self._folder} knows nothing of them; name an empty "
                    "folder, or the checkpoint that they belong to"
                )
            return Progress(query)
        document = read_document(
            path.read_bytes(),
            format=FORMAT,
            version=VERSION,
            name=str(path),
            error=CheckpointError,
            remedy="start a new checkpoint",
        )
        fields = {name: value for name, value in document.fields.items() if name not in ("format", "version")}
        progress = record_of(Progress, Document(fields, str(path), CheckpointError))
        if progress.query != query:
            raise CheckpointError(
                f"{self._folder} belongs to another query; name another checkpoint folder for this one"
            )
        return progress

    def kept(self, batch_id: int) -> Path:
        """Where the events are that a restart after this batch needs."""
        return self._folder / f"kept-{batch_id:08d}"

    def publish(self, batch_id: int, matches: pa.Table) -> None:
        """The matches of a batch, in one step: a reader sees all of them or none."""
        path = self._out / f"matches-{batch_id:08d}.parquet"
        write_matches(matches, path, overwrite=True, durable=True)

    def commit(self, progress: Progress) -> None:
        """Declares a batch done, then removes what only earlier ones needed."""
        document = {"format": FORMAT, "version": VERSION, **asdict(progress)}
        path = self._folder / "progress.json"
        write_text(json.dumps(document, indent=1), path, overwrite=True, durable=True)
        for old in self._folder.glob("kept-*"):
            if old != self.kept(progress.batch_id):
                shutil.rmtree(old, ignore_errors=True)
