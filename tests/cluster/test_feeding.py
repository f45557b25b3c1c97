"""Blocks of a live stream on their way to the shufflers: events that trickle in come together, and none waits long."""

from __future__ import annotations

import os
import threading
import time

from cluster.feeding import GATHER_S, TraceBlocks, gather_s
from shuffler.source.json_lines import JsonLines
from shuffler.source.trace import open_trace

#: At one a millisecond or slower; what comes in the first 0.3 s is one block, to see which columns there are.
EVENTS = 600


def test_events_that_trickle_in_come_together_in_urgent_blocks() -> None:
    reading, writing = os.pipe()

    def trickle() -> None:
        with os.fdopen(writing, "wb", buffering=0) as pipe:
            for number in range(EVENTS):
                pipe.write(f'{{"id": {number}, "ts": {number}, "type": "A"}}\n'.encode())
                time.sleep(0.001)

    writer = threading.Thread(target=trickle)
    writer.start()
    stream = JsonLines(reading, ts="ts", kinds={})
    blocks = [block for block in TraceBlocks(open_trace(stream)).feed_blocks(()) if block is not None]
    writer.join()
    os.close(reading)
    assert sum(block.rows for block in blocks) == EVENTS
    assert all(block.urgent for block in blocks)
    assert len(blocks) < EVENTS / 5, "a message costs about the same whatever it carries"


def test_events_gather_for_longer_where_matches_are_published_seldom() -> None:
    assert gather_s(0.0) == GATHER_S
    assert gather_s(1.0) == 0.1
    assert gather_s(3_600.0) == 0.2, "not longer, since the time between two blocks is also what a checkpoint waits for"
