"""Position: where a live source is at a cut of the stream, as it lies in a checkpoint.

It has the offsets to go on from, and the rows that were read before them and have not left yet: so nothing is lost or
read twice, whatever order the partitions are read in afterwards. It is an Arrow stream of those rows; the rest is JSON
in its schema.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from decopa.documents import read_json
from decopa.errors import CheckpointError
from shuffler.rows.columns import Place, timestamps_us
from shuffler.rows.events import TraceColumns
from shuffler.source.lateness import BufferState, Run
from shuffler.source.live.merging import LaneState, MergeState

_KEY, _VERSION = b"decopa-source", 1
#: Columns beside those of the rows: which partition, whether in its buffer (0) or waiting for others (1), and number.
_LANE, _STAGE, _NUMBER = "#lane", "#stage", "#number"
#: In place of a partition: rows that all partitions have come as far as.
_READY = -1


@dataclass(frozen=True, slots=True)
class Position:
    """`identity` is that of the source, `marks` are those of the files of rows that were put aside."""

    identity: str
    offsets: Mapping[str, int]
    merge: MergeState = field(default_factory=MergeState)
    marks: Mapping[str, Any] = field(default_factory=dict)

    def encode(self) -> bytes:
        lanes, batches = [], list[pa.RecordBatch]()
        for index, (name, lane) in enumerate(self.merge.lanes.items()):
            buffer = lane.buffer
            lanes.append([name, buffer.newest_us, buffer.left_us, buffer.late_events, buffer.most_behind_us])
            for stage, runs in enumerate((buffer.held, lane.waiting)):
                batches += [_with_numbers(run, index, stage) for run in runs if len(run)]
        batches += [_with_numbers(run, _READY, 0) for run in self.merge.ready]
        document = {
            "version": _VERSION,
            "identity": self.identity,
            "offsets": dict(self.offsets),
            "lanes": lanes,
            "left_us": self.merge.left_us,
            "late": dict(self.merge.late),
            "marks": dict(self.marks),
        }
        schema = (batches[0].schema if batches else pa.schema([])).with_metadata({_KEY: json.dumps(document).encode()})
        stream = pa.BufferOutputStream()
        with pa.ipc.new_stream(stream, schema) as writer:
            for batch in batches:
                writer.write_batch(pa.RecordBatch.from_arrays(batch.columns, schema=schema))
        return bytes(stream.getvalue())

    @classmethod
    def offsets_in(cls, content: bytes, where: str) -> Mapping[str, int]:
        """The offsets alone, whatever the rows look like."""
        try:
            with pa.ipc.open_stream(content) as reader:
                offsets: dict[str, int] = read_json(reader.schema.metadata[_KEY], name=where, error=CheckpointError)[
                    "offsets"
                ]
                return offsets
        except (pa.ArrowException, ValueError, KeyError, TypeError, OSError) as err:
            raise CheckpointError(f"{where} is damaged: {err}") from err

    @classmethod
    def decode(cls, content: bytes, where: str, columns: TraceColumns) -> Position:
        try:
            with pa.ipc.open_stream(content) as reader:
                document = read_json(reader.schema.metadata[_KEY], name=where, error=CheckpointError)
                table = reader.read_all()
            if document["version"] != _VERSION:
                raise CheckpointError(f"{where} has version {document['version']}; this decopa reads {_VERSION}")
            held: dict[tuple[int, int], tuple[Run, ...]] = {}
            for key, run in _runs(table, columns):
                held[key] = (*held.get(key, ()), run)
            lanes = {
                name: LaneState(
                    BufferState(newest, left, late, behind, held.get((index, 0), ())),
                    held.get((index, 1), ()),
                )
                for index, (name, newest, left, late, behind) in enumerate(document["lanes"])
            }
            merge = MergeState(lanes, held.get((_READY, 0), ()), document["left_us"], document["late"])
            return cls(document["identity"], document["offsets"], merge, document["marks"])
        except (pa.ArrowException, ValueError, KeyError, TypeError, AttributeError, OSError) as err:
            raise CheckpointError(f"{where} is damaged: {err}") from err


def _with_numbers(run: Run, lane: int, stage: int) -> pa.RecordBatch:
    rows = len(run)
    extra = [np.full(rows, lane), np.full(rows, stage), run.numbers]
    columns = [*run.rows.columns, *(pa.array(column, pa.int64()) for column in extra)]
    return pa.RecordBatch.from_arrays(columns, names=[*run.rows.schema.names, _LANE, _STAGE, _NUMBER])


def _runs(table: pa.Table, columns: TraceColumns) -> list[tuple[tuple[int, int], Run]]:
    found = []
    for batch in table.to_batches():
        if not batch.num_rows:
            continue
        rows = batch.select([name for name in batch.schema.names if name not in (_LANE, _STAGE, _NUMBER)])
        rows = rows.replace_schema_metadata(None)
        ts = timestamps_us(rows.column(columns.clock), columns.clock, Place("the checkpoint"), columns.unit)
        numbers = batch.column(_NUMBER).to_numpy()
        key = (batch.column(_LANE)[0].as_py(), batch.column(_STAGE)[0].as_py())
        found.append((key, Run(rows, ts, numbers)))
    return found
