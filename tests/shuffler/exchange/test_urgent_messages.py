"""An urgent flush reaches whoever may hold rows back: an empty message where nothing waits, none where all is out."""

from __future__ import annotations

import pyarrow as pa

from decopa.language.text.parser import parse
from decopa.planning.plan import Plan
from decopa.planning.strategies.left_deep import left_deep
from shuffler.exchange.channel import Message
from shuffler.exchange.node import ReplayStart, ShufflerNode
from shuffler.exchange.outbox import FlushPolicy
from shuffler.routing.topology import Topology
from shuffler.rows.columns import Place
from shuffler.source.pacing import Replay
from shuffler.source.trace import open_trace

EVENTS = pa.table({"id": [1, 2, 3], "ts": [1, 2, 3], "type": ["A", "B", "C"]})


def shuffler(sent: list[Message], policy: FlushPolicy) -> ShufflerNode:
    plan = Plan((left_deep(parse("PATTERN SEQ(A a, B b) WITHIN 10 us")),))
    return ShufflerNode(
        0,
        Topology(plan, 1),
        open_trace(EVENTS).format,
        send=lambda target, message: sent.append(message),
        mark=lambda marks: None,
        replay=Replay(),
        batch_size=10,
        policy=policy,
        clock=lambda: 0.0,
        sleep=lambda seconds: None,
    )


def test_what_was_sent_without_haste_is_followed_by_an_urgent_message() -> None:
    sent: list[Message] = []
    node = shuffler(sent, FlushPolicy(max_rows=1, interval_s=1.0))
    node.feed(EVENTS.to_batches()[0], Place("events"), 0, ReplayStart(0.0, 0))
    assert [message.urgent for message in sent] == [False]
    node.flush(3)  # the watermark of the last event has been sent already
    assert [message.urgent for message in sent] == [False, True]
    assert not sent[1].rows and not sent[1].watermarks
    node.flush(3)
    assert len(sent) == 2  # whoever was pushed holds nothing


def test_rows_that_wait_leave_with_the_urgent_message() -> None:
    sent: list[Message] = []
    node = shuffler(sent, FlushPolicy(max_rows=100, interval_s=1.0))
    node.feed(EVENTS.to_batches()[0], Place("events"), 0, ReplayStart(0.0, 0))
    node.flush()
    assert [(message.urgent, bool(message.rows)) for message in sent] == [(True, True)]


def test_a_barrier_leaves_the_receiver_owed() -> None:
    """It waits there for the barriers of other senders."""
    sent: list[Message] = []
    node = shuffler(sent, FlushPolicy())
    node.barrier(1)
    node.flush()
    assert [(message.barrier, message.urgent) for message in sent] == [(1, False), (None, True)]


def test_an_urgent_block_leaves_at_once_and_nobody_is_owed_anything() -> None:
    sent: list[Message] = []
    node = shuffler(sent, FlushPolicy(max_rows=100, interval_s=1.0))
    node.feed(EVENTS.to_batches()[0], Place("events"), 0, ReplayStart(0.0, 0), urgent=True)
    assert [(message.urgent, bool(message.rows)) for message in sent] == [(True, True)]
    node.flush(3)
    assert len(sent) == 1
