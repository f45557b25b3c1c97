"""A folder of matches: what a run with `out=` returns, and how other tools open it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset

from actors.sinks.parts import FolderSpec, Publication, StagedPart
from decopa.choices import Order
from decopa.errors import OutputError
from decopa.query.query import Query
from decopa.runs.spec import RunSpec


@dataclass(frozen=True)
class MatchFolder:
    """The Parquet files with the matches of a run; without any match there is no file.

    Every file is in the order of the ends of its matches; files of several units overlap in time.
    """

    path: Path
    files: tuple[Path, ...]
    rows: int
    nbytes: int

    def dataset(self) -> pyarrow.dataset.Dataset:
        """As an Arrow dataset, which reads what is asked for and no more."""
        return pyarrow.dataset.dataset([str(file) for file in self.files], format="parquet")

    def table(self) -> pa.Table:
        """All matches in memory."""
        return self.dataset().to_table()

    def to_pandas(self) -> Any:
        return self.table().to_pandas()

    def to_ray(self) -> Any:
        """As a Ray Dataset, on the Ray that this program is connected to."""
        from cluster.datasets import read_parts

        return read_parts(self.files)

    def to_spark(self, session: Any) -> Any:
        """As a data frame of a Spark session."""
        return session.read.parquet(*[str(file) for file in self.files])


def check_folder(spec: RunSpec, queries: Sequence[Query]) -> None:
    """Refuses what units cannot write as parts on their own."""
    if spec.count:
        raise OutputError("a count has no matches to write; leave out the folder, or the count")
    if spec.output is not None and spec.output.format != "parquet":
        raise OutputError("units write Parquet; leave out --out-format, or name a file")
    if spec.order == Order.CANONICAL.value:
        raise OutputError(
            'units write a folder side by side, so its matches have no order as a whole; leave out order="canonical" '
            "(--order), or name a file"
        )
    if len(queries) > 1 or any(len(query.branches) > 1 for query in queries):
        raise OutputError(
            "a folder takes the matches of one query without OR, since its files have the same columns; name a file, "
            "or run the queries one by one"
        )
    if any(query.summary is not None for query in queries):
        raise OutputError("a query with aggregates gives a few rows; name a file for them, not a folder")
    if any(query.ranking is not None for query in queries):
        raise OutputError("ORDER BY and LIMIT are about a whole result; name a file, or leave them out for a folder")


@contextmanager
def publishing(folder: FolderSpec) -> Iterator[Publication]:
    """Inside, parts are staged; after a failure or Ctrl-C nothing of them is left."""
    publication = Publication(folder.folder)
    publication.prepare()
    try:
        yield publication
    except BaseException:
        publication.abandon()
        raise


def published(publication: Publication, parts: Sequence[StagedPart]) -> MatchFolder:
    files = publication.publish(list(parts))
    rows, nbytes = sum(part.rows for part in parts), sum(part.nbytes for part in parts)
    return MatchFolder(publication.folder, files, rows, nbytes)
