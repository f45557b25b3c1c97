"""States of the vertices of a process to and from bytes, in the format of all states."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from actors.network.vertex import VertexLogic, VertexState
from actors.state.codec import UnitsCodec, UnitsState
from actors.state.file import StoredRows, read_state, refusing, write_state
from decopa.errors import CheckpointError
from decopa.planning.subquery import SubQuery
from decopa.query.binding import BoundQuery
from shuffler.exchange.wire import BatchCodec
from shuffler.routing.table import SenderState
from shuffler.rows.layout import layout_of
from shuffler.rows.strings import StringPool

_KIND = "network-host"
_UNITS, _KEPT = "units", "kept"


def encode_vertices(vertices: Mapping[str, VertexLogic], bounds: Sequence[BoundQuery], strings: StringPool) -> bytes:
    """What all vertices of a process hold."""
    states = {name: logic.snapshot() for name, logic in vertices.items()}
    header = {
        "kind": _KIND,
        "vertices": [
            {
                "name": name,
                "watermarks": dict(state.watermarks),
                "leaves": {leaf: [one.watermark_us, list(one.turns)] for leaf, one in state.leaves.items()},
            }
            for name, state in states.items()
        ],
    }

    def rows() -> Iterator[StoredRows]:
        for name, state in states.items():
            logic = vertices[name]
            bound = bounds[logic.vertex.part]
            units = UnitsCodec(logic.routing, bound, strings).encode(UnitsState("", 0, state.group))
            yield StoredRows(name, 0, _UNITS, "", 0, (pa.py_buffer(units),))
            if state.kept is not None:
                codec = _kept_codec(logic, bound, strings)
                yield StoredRows(name, 0, _KEPT, codec.description, state.kept.length, codec.encode([state.kept]))

    return write_state(header, rows())


def decode_vertices(
    vertices: Mapping[str, VertexLogic],
    bounds: Sequence[BoundQuery],
    strings: StringPool,
    content: bytes,
    where: str,
) -> dict[str, VertexState]:
    """The states with string codes of this process; a CheckpointError says why `where` cannot be used."""
    header, stored = read_state(content, where)
    with refusing(where):
        items = {item["name"]: item for item in header["vertices"]}
        if header.get("kind") != _KIND or items.keys() != vertices.keys():
            raise CheckpointError(f"{where} is not of the vertices {', '.join(sorted(vertices))}")
        found: dict[tuple[str, str], StoredRows] = {(one.operator, one.name): one for one in stored}
        states = {}
        for name, logic in vertices.items():
            bound = bounds[logic.vertex.part]
            (units,) = found[name, _UNITS].encoded
            group = UnitsCodec(logic.routing, bound, strings).decode(units, where).group
            kept = found.get((name, _KEPT))
            rows = None
            if kept is not None:
                rows = _kept_codec(logic, bound, strings).decode(kept.encoded, trusted=False)
            leaves = {leaf: SenderState(mark, tuple(turns)) for leaf, (mark, turns) in items[name]["leaves"].items()}
            states[name] = VertexState(group, leaves, items[name]["watermarks"], rows)
        return states


def _kept_codec(logic: VertexLogic, bound: BoundQuery, strings: StringPool) -> BatchCodec:
    assert logic.vertex.forwards is not None
    return BatchCodec(bound, layout_of(bound, SubQuery(frozenset({logic.vertex.forwards}))), strings)
