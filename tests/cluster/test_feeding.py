"""Blocks of a live stream on their way to the shufflers: events that trickle in come together, and none waits long."""

from __future__ import annotations

import os
import threading
import time

import numpy as np
import pyarrow as pa

from cluster.feeding import GATHER_S, TraceBlocks, _in_portions, gather_s
from shuffler.rows.columns import Place
from shuffler.source.block import Block
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


def test_a_stream_that_is_behind_comes_in_portions_that_are_worked_off_soon() -> None:
    now_s = [0.0]
    events = pa.record_batch({"id": np.arange(10_000)})
    blocks = iter([Block(events, Place("stream", 7)), None, Block(events.slice(0, 100), Place("stream", 10_007))])
    taken: list[tuple[int, int]] = []
    for block in _in_portions(blocks, 4_096, lambda: now_s[0]):
        if block is not None:
            taken.append((block.place.first_row, block.rows.num_rows))
            assert block.rows.column("id")[0].as_py() == (block.place.first_row - 7) % 10_000
            now_s[0] += 0.001 * block.rows.num_rows  # what a plan takes that works on a thousand events a second
    assert sum(rows for _, rows in taken) == 10_100
    assert [row for row, _ in taken] == [7 + sum(rows for _, rows in taken[:place]) for place in range(len(taken))]
    assert taken[0][1] == 4_096, "the first one tells nothing yet"
    assert max(rows for _, rows in taken[1:]) <= 500


def test_a_stream_that_keeps_up_comes_as_it_is() -> None:
    blocks = [Block(pa.record_batch({"id": np.arange(count)}), Place("stream", 0)) for count in (5, 4_000, 3)]
    assert [block.rows.num_rows for block in _in_portions(iter(blocks), 4_096) if block is not None] == [5, 4_000, 3]
