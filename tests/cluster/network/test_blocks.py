"""A trace in blocks, divided among the nodes where its events are born."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from cluster.network.blocks import OriginBlock, OriginBlocks
from decopa.errors import TraceError
from shuffler.source.pacing import Replay
from shuffler.source.trace import open_trace

NODES = ("n0", "n1")


def blocks_of(table: pa.Table, rows: int, skip: int = 0, replay: Replay | None = None) -> list[OriginBlock]:
    found = OriginBlocks(
        open_trace(table), "home", NODES, attributes=["x"], block_rows=rows, replay=replay, together_s=0.02
    )
    return list(found.after(skip))


def events(count: int) -> pa.Table:
    homes = [NODES[place % 3 == 0] for place in range(count)]
    return pa.table({
        "id": range(100, 100 + count), "ts": [10 * place for place in range(count)], "type": ["A", "B"] * (count // 2),
        "x": range(count), "home": homes,
    })  # fmt: skip


@pytest.mark.parametrize("skip", [0, 3, 4, 9])
def test_every_event_after_the_place_is_given_to_its_node_once(skip: int) -> None:
    table = events(10)
    found: dict[str, list[tuple[int, int]]] = {node: [] for node in NODES}
    for block in blocks_of(table, 4, skip):
        for node in NODES:
            rows, ordinals, _, watermark_us = block.of(node)
            assert watermark_us == int(block.events.ts[-1])
            found[node] += zip(rows.column("id").to_pylist(), ordinals.tolist(), strict=True)
    expected = [(100 + place, place) for place in range(skip, 10)]
    assert found["n1"] == [one for one in expected if one[1] % 3 == 0]
    assert sorted(found["n0"] + found["n1"]) == expected


def test_rows_keep_their_numbers_for_messages() -> None:
    (block,) = blocks_of(events(10), 100)
    _, _, place, _ = block.of("n1")
    assert [place.row(index) for index in range(4)] == [1, 4, 7, 10]


def test_events_of_some_types_are_counted() -> None:
    (block,) = blocks_of(events(10), 100)
    assert (block.of_types({"A"}), block.of_types({"A", "B"}), block.of_types({"Z"})) == (5, 10, 0)


def test_a_paced_replay_feeds_events_together_that_are_due_together() -> None:
    found = blocks_of(events(10), 4, 2, Replay(rate=100.0))
    assert [len(block) for block in found] == [2, 2, 2, 2]
    due_s = [block.due_s for block in found]
    assert np.concatenate([one for one in due_s if one is not None]) == pytest.approx(np.arange(8) / 100)


def test_an_event_from_an_unknown_node_is_refused() -> None:
    table = events(10).drop_columns(["home"]).append_column("home", pa.array(["n0"] * 9 + ["n7"]))
    with pytest.raises(TraceError, match="event 109 is born at node 'n7'"):
        blocks_of(table, 4)
