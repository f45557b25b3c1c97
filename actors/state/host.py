"""The state of a process that hosts several parts of a plan: one file that holds the state of each."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from actors.state.file import StoredRows, read_state, refusing, write_state

_KIND = "host"
_GROUP = "group"


def encode_host(states: Sequence[bytes]) -> bytes:
    """The states that `UnitsCodec` wrote of the groups of one process, as one; a single one stays as it is."""
    if len(states) == 1:
        return states[0]
    groups = (StoredRows("", number, _GROUP, "", 0, (pa.py_buffer(one),)) for number, one in enumerate(states))
    return write_state({"kind": _KIND, "groups": len(states)}, groups)


def decode_host(content: bytes | pa.Buffer, where: str, *, verified: bool = False) -> list[bytes | pa.Buffer]:
    """What `encode_host` was given; a CheckpointError says why `where` cannot be used."""
    header, stored = read_state(content, where, verified=verified)
    with refusing(where):
        if header["kind"] != _KIND:
            return [content]
        if len(stored) != header["groups"] or any(one.name != _GROUP for one in stored):
            raise ValueError("groups of units are missing")
        return [one.encoded[0] for one in stored]
