"""What waits in an outbox is encoded as often as it differs, not as often as it is sent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest

from decopa.choices import COMPRESSIONS
from decopa.errors import DeployError
from decopa.planning.plan import Plan
from decopa.query.binding import bind
from shuffler.exchange.channel import Message
from shuffler.exchange.outbox import FlushPolicy, Outbox
from shuffler.exchange.wire import BatchCodec, Encoded
from shuffler.routing.table import Sender
from shuffler.routing.topology import Topology
from shuffler.rows.batch import Batch
from shuffler.rows.layout import Layout, layout_of
from shuffler.rows.strings import StringPool
from shuffler.source.trace import open_trace
from tests.support.plan_text import operator, plan_of
from tests.support.small_traces import trace

UNITS = 3
PLAN = plan_of(
    "SEQ(A a, B b)",
    operator("a", "a", partitioned=True),
    operator("b", "b"),
    operator("ab", "a b", "a b", units=UNITS),
)
SCHEMA = open_trace(trace(type=["A", "B", "A"])).schema


class CountingCodec(BatchCodec):
    def __init__(self, layout: Layout) -> None:
        super().__init__(bind(PLAN.query, SCHEMA), layout, StringPool())
        self.layout, self.encoded = layout, 0

    def encode(self, batches: Sequence[Batch]) -> Encoded:
        self.encoded += 1
        return super().encode(batches)


class Sent:
    """An outbox of a shuffler for three units, with the messages it has sent."""

    def __init__(self, max_rows: int = 1_000, compression: str | None = None) -> None:
        bound = bind(PLAN.query, SCHEMA)
        self.codecs = {name: CountingCodec(layout_of(bound, PLAN.operator(name).sub_query)) for name in ("a", "b")}
        self.topology = Topology(Plan((PLAN,)))
        self.messages: list[tuple[str, Message]] = []
        self.outbox = Outbox(
            self.topology.shuffler_names[0],
            self.topology,
            lambda part, source: self.codecs[source],
            send=lambda target, message: self.messages.append((target, message)),
            policy=FlushPolicy(max_rows, 1e9, compression),
            clock=lambda: 0.0,
        )
        routing = self.topology.routing[0]
        self.senders = {leaf.name: Sender(routing.senders(leaf)[0], routing.edges_from(leaf)) for leaf in PLAN.leaves}

    def put(self, leaf: str, ids: Sequence[int]) -> None:
        layout = self.codecs[leaf].layout
        batch = Batch(len(ids), {name: np.array(ids, dtype=np.int64) for name in layout.columns}, {})
        for delivery in self.senders[leaf].rows(batch):
            self.outbox.put(0, 0, delivery)

    def received(self, leaf: str) -> dict[str, list[int]]:
        """The ids that each unit got, in order."""
        found: dict[str, list[int]] = {}
        for target, message in self.messages:
            lanes = self.topology.channels[message.sender, target]
            for index, encoded in message.rows:
                if lanes[index].source == leaf:
                    ids = self.codecs[leaf].decode(encoded).columns[f"{leaf}.id"]
                    found.setdefault(target, []).extend(ids.tolist())
        return found


def test_broadcast_rows_are_encoded_once_for_all_units() -> None:
    sent = Sent()
    sent.put("b", [1, 2])
    sent.put("b", [3])
    sent.outbox.flush(urgent=True)
    assert sent.codecs["b"].encoded == 1
    assert list(sent.received("b").values()) == [[1, 2, 3]] * UNITS


def test_rows_that_are_dealt_out_are_encoded_for_each_unit() -> None:
    sent = Sent()
    sent.put("a", [1, 2, 3, 4])
    sent.outbox.flush(urgent=True)
    assert sent.codecs["a"].encoded == UNITS
    assert sorted(sent.received("a").values()) == [[1, 4], [2], [3]]


@pytest.mark.parametrize("max_rows", [1, 2, 3, 1_000])
def test_every_unit_gets_all_broadcast_rows_however_messages_are_cut(max_rows: int) -> None:
    sent, rng = Sent(max_rows), np.random.default_rng(max_rows)
    for number in range(60):
        sent.put("b", list(range(10 * number, 10 * number + 1 + int(rng.integers(5)))))
        sent.put("a", [number])
        if rng.integers(3) == 0:
            sent.outbox.flush(urgent=bool(rng.integers(2)))
    sent.outbox.flush(urgent=True)
    found = list(sent.received("b").values())
    assert found[0] == found[1] == found[2] == sorted(found[0])
    dealt = Counter(number for ids in sent.received("a").values() for number in ids)
    assert dealt == Counter(range(60))
    assert sent.outbox.rows_sent == UNITS * len(found[0]) + 60


def sizes(sent: Sent) -> list[int]:
    return [buffer.size for _, message in sent.messages for _, encoded in message.rows for buffer in encoded]


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_compressed_rows_are_the_same_in_fewer_bytes(compression: str) -> None:
    plain, small = Sent(10_000), Sent(10_000, compression)
    for sent in (plain, small):
        sent.put("b", range(10_000))
        sent.put("a", [1])  # too few to be worth it
        sent.outbox.flush(urgent=True)
    assert small.codecs["b"].encoded == 1
    assert small.received("b") == plain.received("b") and small.received("a") == plain.received("a")
    assert max(sizes(small)) < max(sizes(plain)) / 1.5 and min(sizes(small)) == min(sizes(plain))


def test_compressed_rows_of_strangers_are_refused() -> None:
    sent = Sent(10_000, "zstd")
    sent.put("b", range(10_000))
    sent.outbox.flush(urgent=True)
    ((_, encoded),) = sent.messages[0][1].rows
    with pytest.raises(pa.ArrowInvalid, match="metadata"):
        sent.codecs["b"].decode(encoded, trusted=False)


def test_an_unknown_compression_is_named() -> None:
    with pytest.raises(DeployError, match="unknown compression 'zst'; did you mean 'zstd'"):
        FlushPolicy(compression="zst")
