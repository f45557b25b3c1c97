"""Files with states of processes for fuzzing, made from those of a small run."""

from __future__ import annotations

import hashlib
import json
import struct
from dataclasses import replace
from random import Random

import pyarrow as pa

from actors.columnar.jit import interpreted
from actors.group import Limits, UnitGroup
from actors.state.codec import UnitsCodec, decode_shuffler
from actors.state.file import MAGIC, VERSION, StoredRows, read_state, write_state
from decopa.api import make_plan
from decopa.planning.plan import Plan
from scripts.reliability.mutations import damaged_bytes, damaged_document
from shuffler.routing.table import END_OF_STREAM
from shuffler.rows.strings import StringPool
from tests.support.engine import table_of
from tests.support.resuming import ResumableRun

_HEAD = struct.Struct("<16sQQ32s")
_QUERIES = (
    "PATTERN AND(A a, B b) WHERE a.s != b.s WITHIN 50 us",
    "PATTERN AND(A a, KL(B b)) WHERE b.s != a.s WITHIN 8 us",
    "PATTERN SEQ(A a, NOT(B b)) WHERE a.s = b.s WITHIN 50 us",
)


class OddStates:
    """The first byte of an input says which query it is for."""

    def __init__(self) -> None:
        rows = [{"id": n, "ts": n, "type": "AB"[n % 2], "s": "xyz"[n % 3]} for n in range(24)]
        self._events = table_of(rows, {"s": str})
        self._runs = [self._started(make_plan(text, units=2)) for text in _QUERIES]
        self._files: list[list[bytes]] = []
        for run in self._runs:
            shufflers, units = run.save()
            self._files.append([*shufflers, *(one for part in units for one in part)])

    def draw(self, random: Random) -> bytes:
        query = random.randrange(len(_QUERIES))
        content = random.choice(self._files[query])
        match random.randrange(4):
            case 0:
                content = damaged_bytes(content, random)
            case 1:
                content = _sealed(damaged_bytes(content[_HEAD.size :], random))
            case _:
                content = _rewritten(content, random)
        return bytes([query]) + content

    def accept(self, content: bytes) -> None:
        """Decoded; units whose state is taken are restored and brought to the end of the stream."""
        if not content:
            return
        run = self._runs[content[0] % len(self._runs)]
        header, _ = read_state(content[1:], "fuzz.state")
        if header.get("kind") == "shuffler":
            state = decode_shuffler(run.routing, content[1:], "fuzz.state")
            for feeders, feeder in zip(run.feeders, state.feeders, strict=False):
                feeders[0].restore(feeder)
            return
        strings = StringPool()
        units = UnitsCodec(run.routing[0], run.bounds[0], strings).decode(content[1:], "fuzz.state").group
        group = UnitGroup(
            run.routing[0].plan,
            run.bounds[0],
            strings.pin,
            routing=run.routing[0],
            limits=Limits(),
            outside=lambda delivery: None,
            hosted=units.units.keys(),
        )
        group.restore(units)
        with interpreted():
            for operator, number in group.units:
                for channel in units.units[operator, number].watermarks:
                    group.accept(operator, number, channel, END_OF_STREAM)
            group.drain()

    def _started(self, plan: Plan) -> ResumableRun:
        run = ResumableRun(plan, self._events, Random(1))
        with interpreted():
            run.feed(0, 12, 1)
        return run


def _sealed(payload: bytes) -> bytes:
    return _HEAD.pack(MAGIC, VERSION, len(payload), hashlib.sha256(payload).digest()) + payload


def _rewritten(content: bytes, random: Random) -> bytes:
    """A file that is whole, with a damaged header or damaged rows inside."""
    header, stored = read_state(content, "seed")
    try:
        damaged = json.loads(damaged_document(header, random)) if random.random() < 0.6 else header
    except (ValueError, RecursionError):
        damaged = header
    if not isinstance(damaged, dict):
        damaged = {"kind": damaged}
    if stored and random.random() < 0.6:
        place = random.randrange(len(stored))
        stored[place] = _damaged_rows(stored[place], random)
    if stored and random.random() < 0.1:
        random.choice((stored.pop, lambda: stored.append(stored[0])))()
    return write_state(damaged, stored)


def _damaged_rows(rows: StoredRows, random: Random) -> StoredRows:
    match random.randrange(5):
        case 0:
            return replace(rows, length=random.choice((0, -1, 2**62, rows.length + 1)))
        case 1:
            return replace(rows, operator=random.choice(("", "zz", "o1")), unit=random.choice((-1, 0, 1, 2**40)))
        case 2:
            return replace(rows, columns=rows.columns[:-1])
        case 3:
            return replace(rows, encoded=rows.encoded[:1] if random.random() < 0.5 else rows.encoded[::-1])
    place = random.randrange(len(rows.encoded))
    buffers = [one.to_pybytes() for one in rows.encoded]
    buffers[place] = damaged_bytes(buffers[place], random)
    return replace(rows, encoded=tuple(map(pa.py_buffer, buffers)))
