"""Partitions become one stream in the order of time; a pass that begins at any block's position gives the rest."""

from __future__ import annotations

from random import Random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from decopa.errors import CheckpointError, TraceError
from shuffler.rows.columns import Place
from shuffler.source.lateness import Lateness
from shuffler.source.live.merging import PartitionMerge
from shuffler.source.live.position import Position
from tests.support.scripted_source import ScriptedSource, dealt_out, scripted_trace


def table(times: list[int]) -> pa.Table:
    return pa.table({"id": list(range(len(times))), "ts": times, "type": ["A"] * len(times)})


class Streams:
    """A merge of partitions 'x' and 'y' and the clock that it looks at."""

    def __init__(self, lateness: Lateness | None = None, idle_after_s: float | None = 5.0) -> None:
        self.now_s = 0.0
        self.late: list[int] = []
        self.merge = PartitionMerge(
            lateness or Lateness(),
            "ts",
            partitions=("x", "y"),
            idle_after_s=idle_after_s,
            clock=lambda: self.now_s,
            take_late=lambda rows, behind, place: self.late.extend(rows.column("ts").to_pylist()),
        )

    def arrive(self, partition: str, *times: int) -> None:
        rows = pa.record_batch({"ts": pa.array(times, pa.int64())})
        self.merge.arrive(partition, rows, np.array(times), Place(partition, by_offset=True))

    def leave(self, **lag: int) -> list[int]:
        run = self.merge.leave(lag)
        return [] if run is None else [int(ts) for ts in run.ts]


def test_events_wait_for_the_slowest_partition() -> None:
    streams = Streams()
    streams.arrive("x", 1, 5, 9)
    assert streams.leave() == []
    streams.arrive("y", 2, 6)
    assert streams.leave() == [1, 2, 5, 6]
    streams.arrive("y", 10)
    assert streams.leave() == [9]
    assert [int(ts) for ts in streams.merge.end().ts] == [10]


def test_an_idle_partition_does_not_hold_the_others() -> None:
    streams = Streams()
    streams.now_s = 1.0
    streams.arrive("x", 1, 5)
    assert streams.leave() == []
    streams.now_s = 5.0
    assert streams.leave(y=3) == []  # it has events, they are only not read yet
    assert streams.leave(y=0) == [1, 5]


def test_a_partition_that_has_ended_does_not_hold_the_others() -> None:
    streams = Streams(idle_after_s=None)
    streams.arrive("x", 1, 5)
    streams.arrive("y", 2)
    assert streams.leave(x=7, y=0) == [1, 2]
    assert streams.leave(x=7, y=-1) == [5]


def test_a_partition_that_wakes_up_with_old_events_has_late_ones() -> None:
    streams = Streams(Lateness(0, "drop"))
    streams.now_s = 6.0
    streams.arrive("x", 10)
    assert streams.leave() == [10]
    streams.arrive("y", 7, 10, 12)
    streams.arrive("x", 12)
    assert streams.leave() == [10, 12, 12]
    assert streams.late == [7]
    assert streams.merge.late == {"y": 1}
    strict = Streams()
    strict.now_s = 6.0
    strict.arrive("x", 10)
    strict.leave()
    with pytest.raises(TraceError, match=r"y: column 'ts', offset 0: 7 is earlier than .* make --idle-after longer"):
        strict.arrive("y", 7)


def test_when_all_are_idle_the_allowed_lateness_still_counts() -> None:
    streams = Streams(Lateness(3))
    streams.arrive("x", 1, 5, 9)
    streams.arrive("y", 2)
    streams.now_s = 10.0
    assert streams.leave() == [1, 2, 5]


def test_a_partition_far_ahead_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shuffler.source.live.merging.MANY_ROWS", 3)
    streams = Streams()
    streams.arrive("x", 1, 2, 3)
    assert streams.merge.far_ahead == {"x"}
    streams.arrive("y", 9)
    assert streams.leave() == [1, 2, 3]
    assert streams.merge.far_ahead == frozenset()


@given(st.lists(st.integers(0, 30), max_size=40), st.integers(1, 4), st.integers(0, 8), st.integers(0, 2**32))
def test_a_pass_from_any_position_gives_exactly_the_rest(
    times: list[int], partitions: int, disorder: int, seed: int
) -> None:
    """Events are out of order within a partition by less than is allowed, so none is late, whatever the schedule."""
    chaos = Random(seed)
    events = table([ts + chaos.randint(0, disorder) for ts in sorted(times)])
    source = ScriptedSource(dealt_out(events, partitions, chaos), chaos)
    whole = list(scripted_trace(source, Lateness(disorder)).arrivals([], 5))
    blocks = [block for block in whole if block is not None]
    handed = [row for block in blocks for row in block.rows.to_pylist()]
    assert [row["ts"] for row in handed] == sorted(events.column("ts").to_pylist())
    assert sorted(row["id"] for row in handed) == list(range(events.num_rows))
    if not blocks:
        return
    cut = chaos.randrange(len(blocks))
    position = blocks[cut].position
    assert position is not None
    again = scripted_trace(ScriptedSource(source._tables, chaos), Lateness(disorder))
    rest = [
        row
        for block in again.arrivals([], chaos.randint(1, 9), position.encode())
        if block is not None
        for row in block.rows.to_pylist()
    ]
    before = [row for block in blocks[: cut + 1] for row in block.rows.to_pylist()]
    assert [row["ts"] for row in rest] == sorted(row["ts"] for row in rest)
    assert sorted(row["id"] for row in [*before, *rest]) == list(range(events.num_rows))


def test_a_position_of_another_source_or_a_damaged_one_is_refused() -> None:
    source = ScriptedSource({"0": table([1, 2])}, Random(1))
    other = Position("kafka:orders", {"0": 1}).encode()
    with pytest.raises(CheckpointError, match="belongs to kafka:orders, not to scripted; name another folder"):
        list(scripted_trace(source).arrivals([], 5, other))
    with pytest.raises(CheckpointError, match="is damaged"):
        list(scripted_trace(source).arrivals([], 5, other[:-40]))
