"""A live stream of JSON lines: batches of whatever has arrived, without waiting for more.

The columns are those of the first lines (what arrives within a moment), and those that the user names; what other
columns later lines bring is not read.
"""

from __future__ import annotations

import os
import select
import time
from collections.abc import Iterator, Mapping

import pyarrow as pa
import pyarrow.json

from decopa.choices import COLUMN_KINDS
from decopa.errors import TraceError
from shuffler.source.readers import counted_from_one
from shuffler.source.stopping import Stop, StreamStopped

#: What a user can say a column holds.
KINDS = dict(zip(COLUMN_KINDS, (pa.int64(), pa.float64(), pa.string(), pa.bool_(), pa.timestamp("us")), strict=True))
#: How long the first lines may take to show which columns there are, from when the first of them arrives.
FIRST_LINES_S = 0.3
_CHUNK_BYTES = 1 << 20
#: Bytes that are parsed together at most, if that many have arrived.
_BLOCK_BYTES = 4 << 20
_LONGEST_LINE = 64 << 20


class JsonLines:
    """Record batches of one schema from the JSON lines that arrive at a file descriptor; can be read once.

    `ts` is the column with times: ISO 8601 strings in it become timestamps. The constructor waits for the first line.
    Once `stop` is set it raises StreamStopped after the lines that it has read.
    """

    def __init__(
        self,
        descriptor: int,
        *,
        ts: str,
        kinds: Mapping[str, str],
        name: str = "standard input",
        stop: Stop | None = None,
    ) -> None:
        self._descriptor, self._ts, self._name, self._stop = descriptor, ts, name, stop
        self._ended = False
        self._rest = b""
        self._lines_read = 0
        self._blocks = self._whole_lines()
        first = next(self._blocks, None)
        if first is None:
            raise TraceError(f"{name} ended before its first event; send one JSON object per line")
        self._first: bytes | None = first
        self.schema = self._schema_of(self._parsed(first, None).schema, kinds, first)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        first, self._first = self._first, None
        if first is not None:
            yield from self._batches(first)
        for block in self._blocks:
            yield from self._batches(block)

    def _batches(self, block: bytes) -> Iterator[pa.RecordBatch]:
        table = self._parsed(block, self.schema).select(self.schema.names)
        self._lines_read += table.num_rows
        yield from table.combine_chunks().to_batches()

    def _parsed(self, block: bytes, schema: pa.Schema | None) -> pa.Table:
        options = pyarrow.json.ParseOptions(
            explicit_schema=schema, unexpected_field_behavior="infer" if schema is None else "ignore"
        )
        reading = pyarrow.json.ReadOptions(use_threads=False, block_size=len(block) + 1)
        try:
            table = pyarrow.json.read_json(pa.BufferReader(block), reading, options)
            _ = table.schema.names  # those that are not UTF-8 end in a UnicodeDecodeError
            return table
        except (pa.ArrowInvalid, UnicodeDecodeError) as err:
            after = f" after line {self._lines_read:,}" if self._lines_read else ""
            problem = counted_from_one(str(err).splitlines()[0], self._lines_read)
            raise TraceError(
                f"{self._name}{after}: {problem}; send one JSON object per line, and if a column "
                "holds more than its first lines show say so, as in --schema x=float"
            ) from err

    def _schema_of(self, found: pa.Schema, kinds: Mapping[str, str], first: bytes) -> pa.Schema:
        types = {field.name: field.type for field in found if not pa.types.is_null(field.type)}
        times = types.get(self._ts)
        if times is not None and (pa.types.is_string(times) or pa.types.is_timestamp(times)):
            types[self._ts] = self._time_type(types, first)
        return pa.schema([*(types | {name: KINDS[kind] for name, kind in kinds.items()}).items()])

    def _time_type(self, types: Mapping[str, pa.DataType], first: bytes) -> pa.DataType:
        """Microseconds, with or without a time zone, as the first lines have it; fractions may come later."""
        for kind in (pa.timestamp("us"), pa.timestamp("us", "UTC")):
            try:
                self._parsed(first, pa.schema([*({**types, self._ts: kind}).items()]))
            except TraceError:
                continue
            return kind
        return types[self._ts]  # no times: refused, with its name, where the trace is opened

    # ------------------------------------------------------------- bytes

    def _whole_lines(self) -> Iterator[bytes]:
        wait_s = FIRST_LINES_S
        while not self._ended:
            lines, newline, rest = (self._rest + self._arrived(wait_s)).rpartition(b"\n")
            self._rest = rest
            if len(rest) > _LONGEST_LINE:
                raise TraceError(
                    f"{self._name}: a line is longer than {_LONGEST_LINE >> 20} MiB; send one event a line"
                )
            if newline and lines.strip():
                wait_s = 0.0
                yield lines + newline
        if self._rest.strip():
            rest, self._rest = self._rest, b""
            yield rest

    def _arrived(self, wait_s: float) -> bytes:
        """Waits for bytes, then takes what else is there, or comes within `wait_s` from then on."""
        parts: list[bytes] = []
        size, until = 0, 0.0
        while size < _BLOCK_BYTES and self._readable(None if not parts else max(0.0, until - time.monotonic())):
            part = os.read(self._descriptor, _CHUNK_BYTES)
            if not part:
                self._ended = True
                break
            until = until or time.monotonic() + wait_s
            parts.append(part)
            size += len(part)
        return b"".join(parts)

    def _readable(self, wait_s: float | None) -> bool:
        """Whether there is something to read, now or within `wait_s` (None: however long it takes)."""
        stop = None if self._stop is None else self._stop.fileno()
        descriptors = [self._descriptor] if stop is None else [self._descriptor, stop]
        ready, _, _ = select.select(descriptors, [], [], wait_s)
        if wait_s is None and stop in ready:  # between blocks, however much there is to read
            raise StreamStopped
        return self._descriptor in ready
