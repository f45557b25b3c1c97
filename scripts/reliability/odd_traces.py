"""Traces for fuzzing: cells that fit no column, odd headers, damaged bytes; and how traces are read."""

from __future__ import annotations

import io
import json
import os
import tempfile
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from scripts.reliability.mutations import NUMBERS, TEXTS, damaged_bytes
from shuffler.source.dead_letters import BadRows
from shuffler.source.json_lines import JsonLines
from shuffler.source.trace import TraceSource, open_trace

_TIMES = (
    "2024-01-01",
    "2024-01-01 00:00:01",
    "2024-01-01T00:00:01.5Z",
    "9999-12-31",
    "0000-00-00",
    "24:00",
    "12:30:00",
)
_CELLS = (*NUMBERS, *TEXTS, *_TIMES, "true", "nan", "1;2", "[1]", "{}")
_HEADERS = (
    "id,ts,type,x,s",
    "id,ts,type,x",
    "id,ts,type,x,x",
    "id,ts",
    "id,ts,type,,",
    '"id","ts","type"',
    "",
    "ts,type,id,x",
)
_ARROW: tuple[pa.DataType, ...] = (
    pa.int8(), pa.int64(), pa.uint64(), pa.float32(), pa.float64(), pa.string(), pa.large_string(), pa.bool_(),
    pa.date32(), pa.timestamp("ns"), pa.timestamp("us", "UTC"), pa.timestamp("s"), pa.duration("ns"), pa.time64("us"),
    pa.decimal128(20, 3), pa.binary(), pa.list_(pa.int64()), pa.null(), pa.struct([("f", pa.int64())]),
)  # fmt: skip


def odd_csv(random: Random) -> bytes:
    header = random.choice(_HEADERS) if random.random() < 0.3 else _HEADERS[0]
    width = header.count(",") + 1
    lines = [header]
    for number in range(random.choice((0, 1, 5, 40, 300))):
        cells = [str(number), str(number * 10), random.choice("AB"), f"{random.random():.3f}", random.choice("pqr")]
        if random.random() < 0.1:
            cells[random.randrange(5)] = random.choice(_CELLS)
        lines.append(",".join(cells[: width if random.random() < 0.99 else random.randrange(1, 6)]))
    content = random.choice(("\n", "\r\n", "\n")).join(lines).encode("utf-8", "surrogatepass")
    return damaged_bytes(content, random) if random.random() < 0.4 else content


def odd_json_lines(random: Random) -> bytes:
    lines = []
    for number in range(random.choice((0, 1, 5, 40, 200))):
        event: dict[str, Any] = {"id": number, "ts": number * 10, "type": random.choice("AB"), "x": random.random()}
        if random.random() < 0.1:
            name = random.choice((*event, "s", random.choice(TEXTS)))
            event[name] = random.choice((*_CELLS, None, True, 1, -1.5, 2**63, float("nan"), [1], {"f": 1}, [], {}))
        if random.random() < 0.05:
            del event[random.choice(list(event))]
        line = json.dumps(event)
        if random.random() < 0.02:
            line = (
                line.replace('"ts"', '"id"') if random.random() < 0.5 else line.replace("0", random.choice(NUMBERS), 1)
            )
        lines.append(line)
    content = random.choice(("\n", "\n", "\r\n", "\n\n")).join(lines).encode("utf-8", "surrogatepass")
    return damaged_bytes(content, random) if random.random() < 0.4 else content


def odd_parquet(random: Random) -> bytes:
    rows = random.choice((0, 1, 10, 300))
    arrays = {
        "id": pa.array(range(rows), pa.int64()),
        "ts": pa.array([number * 10 for number in range(rows)], pa.int64()),
        "type": pa.array([random.choice("AB") for _ in range(rows)], pa.string()),
        "x": pa.array([random.random() for _ in range(rows)], pa.float64()),
        "s": pa.array([random.choice(("p", "q", None)) for _ in range(rows)], pa.string()),
    }
    for _ in range(random.choice((0, 1, 1, 2))):
        arrays[random.choice(list(arrays))] = _odd_column(rows, random)
    if random.random() < 0.1:
        del arrays[random.choice(list(arrays))]
    names = [random.choice(TEXTS) if random.random() < 0.01 else name for name in arrays]
    stream = io.BytesIO()
    table = pa.table(list(arrays.values()), names=[name.encode("utf-8", "replace").decode() for name in names])
    try:
        pq.write_table(
            table,
            stream,
            compression=random.choice(("none", "snappy", "zstd", "gzip")),
            row_group_size=random.choice((1, 7, 1000)),
            use_dictionary=random.random() < 0.5,
            data_page_version=random.choice(("1.0", "2.0")),
            store_schema=random.random() < 0.7,
        )
    except pa.ArrowInvalid:  # some times do not fit into Parquet's types
        return b"PAR1"
    content = stream.getvalue()
    match random.randrange(10):
        case 0 | 1 | 2:
            return damaged_bytes(content, random)
        case 3 | 4 | 5 | 6:
            # The footer tells where everything is, so damage to it does most; its length is before the last four bytes.
            footer = int.from_bytes(content[-8:-4], "little") + 8
            return content[:-footer] + damaged_bytes(content[-footer:-8], random) + content[-8:]
    return content


def _odd_column(rows: int, random: Random) -> pa.Array:
    kind = random.choice(_ARROW)
    values: list[Any] = []
    for _ in range(rows):
        drawn = random.choice((None, 0, 1, random.getrandbits(40), -1, 2**63 - 1, -(2**63), float("nan"), "p", True))
        values.append(drawn)
    if pa.types.is_list(kind) or pa.types.is_struct(kind) or pa.types.is_null(kind):
        return pa.nulls(rows, kind)
    found = []
    for value in values:
        try:
            found.append(pa.scalar(value, kind))
        except (pa.ArrowException, ValueError, TypeError, OverflowError):
            found.append(pa.scalar(None, kind))
    return pa.array([None if not one.is_valid else one for one in found], kind)


# ------------------------------------------------------------------ reading


_DIVERT = BadRows("divert", max_rows=100)


def read_trace(path: Path, *, divert: bool) -> None:
    bad_rows = BadRows("divert", path.with_suffix(".bad.jsonl"), max_rows=100) if divert else BadRows()
    _consume(open_trace(path, bad_rows=bad_rows, nan_as_null=path.stat().st_size % 3 == 1))


def read_stream(content: bytes, *, divert: bool) -> None:
    with tempfile.TemporaryFile() as file:
        file.write(content)
        file.seek(0)
        descriptor = os.dup(file.fileno())
        try:
            bad_rows = _DIVERT if divert else BadRows()
            _consume(open_trace(JsonLines(descriptor, ts="ts", kinds={"x": "float"}), bad_rows=bad_rows))
        finally:
            os.close(descriptor)


def _consume(source: TraceSource) -> None:
    for batch in source.batches([name for name in source.schema.attributes if name not in source.unusable], 64):
        assert len(batch) <= 64
