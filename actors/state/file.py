"""The file that holds the state of one process: 64 bytes that tell whether the rest is whole, then an Arrow IPC file.

    bytes 0-15    decopa-state, CR LF, Ctrl-Z, LF: a transfer that "repairs" line ends shows up at once
    bytes 16-23   version, little-endian
    bytes 24-31   length of the Arrow file, little-endian
    bytes 32-63   SHA-256 of the Arrow file

The Arrow file has a record batch for each set of rows; its schema metadata has a JSON document under `decopa` for
everything else. Nothing is parsed before the checksum is right, and nothing that is read can run.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from decopa.errors import CheckpointError
from shuffler.exchange.wire import Encoded

MAGIC = b"decopa-state\r\n\x1a\n"
VERSION = 1
_HEAD = struct.Struct("<16sQQ32s")
_HEADER = b"decopa"
_SCHEMA = pa.schema(
    [
        ("operator", pa.string()),
        ("unit", pa.int64()),
        ("name", pa.string()),
        ("columns", pa.string()),
        ("length", pa.int64()),
        ("rows", pa.large_binary()),
        ("texts", pa.large_binary()),
    ]
)

#: What looking for something in a file that is not there, or not like that, can end in.
_UNREADABLE = (
    ArithmeticError, AttributeError, EOFError, LookupError, OSError, RecursionError, TypeError, ValueError,
    pa.ArrowException,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class StoredRows:
    """A set of rows as a codec encoded it; `columns` is the codec's description of them."""

    operator: str
    unit: int
    name: str
    columns: str
    length: int
    encoded: Encoded


def write_state(header: Mapping[str, Any], sets: Iterable[StoredRows]) -> bytes:
    stream = pa.BufferOutputStream()
    schema = _SCHEMA.with_metadata({_HEADER: json.dumps(header).encode()})
    with pa.ipc.new_file(stream, schema) as writer:
        for one in sets:
            writer.write_batch(_record(one, schema))
    payload = stream.getvalue()
    head = _HEAD.pack(MAGIC, VERSION, payload.size, hashlib.sha256(payload).digest())
    return b"".join([head, payload])


def read_state(
    content: bytes | pa.Buffer, where: str, *, verified: bool = False
) -> tuple[dict[str, Any], list[StoredRows]]:
    """What `write_state` was given. Anything else than its output is refused with a CheckpointError about `where`.

    The checksum of content that is `verified`, by the manifest of its checkpoint, is not computed again.
    """
    payload = _payload(pa.py_buffer(content), where, verified=verified)
    with refusing(where):
        reader = pa.ipc.open_file(payload)
        if not reader.schema.equals(_SCHEMA):
            raise ValueError("its columns are not those of a state")
        header = json.loads((reader.schema.metadata or {})[_HEADER])
        if not isinstance(header, dict):
            raise ValueError("its header is no JSON object")
        return header, [_stored(reader.get_batch(place)) for place in range(reader.num_record_batches)]


@contextlib.contextmanager
def refusing(where: str) -> Iterator[None]:
    """Whatever goes wrong inside is the fault of the file `where`."""
    try:
        yield
    except _UNREADABLE as err:
        what = " ".join(str(err).split())
        raise CheckpointError(f"{where} is no state that this decopa wrote: {type(err).__name__}: {what}") from err


def _payload(content: pa.Buffer, where: str, *, verified: bool) -> pa.Buffer:
    head = content.slice(0, min(content.size, _HEAD.size)).to_pybytes()
    if not MAGIC.startswith(head[: len(MAGIC)]):
        raise CheckpointError(f"{where} is no state of a decopa process; it begins with {head[: len(MAGIC)]!r}")
    if len(head) < _HEAD.size:
        raise CheckpointError(f"{where} is cut off after {content.size} bytes; use an older checkpoint")
    _, version, length, digest = _HEAD.unpack(head)
    if version != VERSION:
        raise CheckpointError(f"{where} has version {version}, this decopa reads version {VERSION}; start anew")
    if content.size - _HEAD.size != length:
        raise CheckpointError(
            f"{where} should have {_HEAD.size + length} bytes and has {content.size}; use an older checkpoint"
        )
    payload = content.slice(_HEAD.size)
    if not verified and hashlib.sha256(payload).digest() != digest:
        raise CheckpointError(f"{where} is damaged: its checksum is wrong; use an older checkpoint")
    return payload


def _record(one: StoredRows, schema: pa.Schema) -> pa.RecordBatch:
    buffers = [*one.encoded, None][:2]
    plain = [one.operator, one.unit, one.name, one.columns, one.length]
    arrays = [pa.array([value], type=field.type) for value, field in zip(plain, schema)]
    return pa.RecordBatch.from_arrays(arrays + [_binary(buffer) for buffer in buffers], schema=schema)


def _binary(content: pa.Buffer | None) -> pa.Array:
    """An array with one value, which is not copied; a state may be large."""
    if content is None:
        return pa.nulls(1, pa.large_binary())
    offsets = pa.py_buffer(np.array([0, content.size], dtype=np.int64))
    return pa.Array.from_buffers(pa.large_binary(), 1, [None, offsets, content])


def _stored(record: pa.RecordBatch) -> StoredRows:
    record.validate(full=True)
    if record.num_rows != 1 or any(record.column(place).null_count for place in range(6)):
        raise ValueError("a set of rows is not complete")
    operator, unit, name, columns, length = (record.column(place)[0].as_py() for place in range(5))
    encoded = tuple(record.column(place)[0].as_buffer() for place in (5, 6) if not record.column(place).null_count)
    return StoredRows(operator, unit, name, columns, length, encoded)
