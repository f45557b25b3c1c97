"""Paced replays: when a shuffler passes events on."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest

import decopa
from decopa.planning.plan import Plan
from decopa.planning.strategies.baselines import state_parallel
from shuffler.exchange.channel import Message
from shuffler.exchange.node import MARKS_EVERY_S, Marks, ReplayStart, ShufflerNode
from shuffler.exchange.outbox import FlushPolicy
from shuffler.routing.topology import Topology
from shuffler.source.pacing import Replay
from shuffler.source.trace import open_trace
from tests.support.small_traces import trace

RATE = 100.0
QUERY = decopa.parse("PATTERN SEQ(A a, B b) WITHIN 1 s")


@dataclass
class Paced:
    """A shuffler whose time passes only while it sleeps."""

    interval_s: float
    now: float = 0.0
    sent: list[tuple[float, Message]] = field(default_factory=list)
    marked: list[Marks] = field(default_factory=list)

    def play(self, events: int, block_rows: int, times_us: np.ndarray | None = None) -> None:
        """Feeds events at `RATE` a second, or as their times say, block by block, as soon as the one before is done."""
        replay = Replay(rate=RATE) if times_us is None else Replay(speed=1.0)
        ts = np.arange(events) * 10_000 if times_us is None else times_us
        source = open_trace(trace(ts=ts, type=["A", "B"] * (events // 2)))
        node = ShufflerNode(
            0,
            Topology(Plan((state_parallel(QUERY),))),
            source.format,
            send=lambda target, message: self.sent.append((self.now, message)),
            mark=self.marked.append,
            replay=replay,
            batch_size=4_096,
            policy=FlushPolicy(interval_s=self.interval_s),
            clock=lambda: self.now,
            sleep=self._sleep,
        )
        first = 0
        for block in source.blocks([], block_rows):
            node.feed(block.rows, block.place, first, ReplayStart(0.0, 0))
            first += block.rows.num_rows
        self.fed_s = self.now
        node.finish()

    def _sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.now += seconds


@pytest.mark.parametrize("block_rows", [1, 20, 37, 1_000])
def test_blocks_shorter_than_the_flush_interval_do_not_slow_the_stream_down(block_rows: int) -> None:
    paced = Paced(interval_s=0.4)  # 40 events
    paced.play(1_000, block_rows)
    assert paced.fed_s == pytest.approx(999 / RATE, abs=0.4)


@pytest.mark.parametrize("block_rows", [1, 20, 37, 1_000])
def test_events_wait_for_company_for_a_flush_interval(block_rows: int) -> None:
    paced = Paced(interval_s=0.4)
    paced.play(1_000, block_rows)
    moments = sorted({when for when, message in paced.sent if message.rows})
    assert len(moments) <= 999 / RATE / 0.4 + 2
    assert max(np.diff(moments)) <= 2 * 0.4


@pytest.mark.parametrize("block_rows", [1, 2, 3, 64])
def test_events_do_not_wait_for_company_across_a_gap(block_rows: int) -> None:
    times_us = (np.arange(20)[:, None] * 10_000_000 + [0, 2_000]).ravel()  # pairs, ten seconds apart
    paced = Paced(interval_s=0.4)
    paced.play(40, block_rows, times_us)
    shipped = [(when, message) for when, message in paced.sent if message.watermarks]
    for due_us in times_us:
        # The watermark that follows an event says that it has been sent.
        assert min(when for when, message in shipped if message.watermarks[0][1] >= due_us) <= due_us / 1e6 + 0.41


def test_marks_of_arrival_gather_and_none_is_lost() -> None:
    paced = Paced(interval_s=0.01)
    paced.play(1_000, 1)
    assert len(paced.marked) <= paced.fed_s / MARKS_EVERY_S + 2
    assert [mark for marks in paced.marked for mark in marks] == [(n * 10_000, n / RATE) for n in range(1_000)]
