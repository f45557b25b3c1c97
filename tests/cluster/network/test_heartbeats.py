"""How far the time of silent nodes has come."""

from __future__ import annotations

import numpy as np

from cluster.network.heartbeats import Heartbeats

SECOND = 1_000_000


def test_a_trace_tells_how_far_every_node_is() -> None:
    heartbeats = Heartbeats(["n0", "n1"])
    assert heartbeats.after(0, 9, {"n0": 4}) == {"n0": 9, "n1": 9}


def test_a_silent_node_holds_its_watermark_back_until_it_counts_as_idle() -> None:
    told: list[str] = []
    heartbeats = Heartbeats(["n0", "n1"], 5 * SECOND, told.append)
    assert heartbeats.after(0, 2 * SECOND, {"n0": 2 * SECOND, "n1": SECOND}) == {"n0": 2 * SECOND, "n1": SECOND}
    assert heartbeats.after(0, 5 * SECOND, {"n0": 5 * SECOND}) == {"n0": 5 * SECOND, "n1": SECOND}
    assert told == []
    assert heartbeats.after(0, 6 * SECOND, {"n0": 6 * SECOND}) == {"n0": 6 * SECOND, "n1": 6 * SECOND}
    assert heartbeats.after(0, 8 * SECOND, {"n0": 8 * SECOND})["n1"] == 8 * SECOND
    assert told == ["node 'n1' has been silent for 5 s of the trace; the others no longer wait for it (--idle-after)"]


def test_a_node_that_wakes_up_is_told_again_when_it_falls_silent_again() -> None:
    told: list[str] = []
    heartbeats = Heartbeats(["n0", "n1"], 5 * SECOND, told.append)
    heartbeats.after(0, 7 * SECOND, {"n0": 7 * SECOND})
    assert heartbeats.after(0, 9 * SECOND, {"n0": 9 * SECOND, "n1": 8 * SECOND})["n1"] == 8 * SECOND
    heartbeats.after(0, 20 * SECOND, {"n0": 20 * SECOND})
    assert [line.split(" of ")[0] for line in told] == [
        "node 'n1' has been silent for 7 s", "node 'n1' has been silent for 12 s",
    ]  # fmt: skip


def test_a_node_without_any_event_is_silent_since_the_trace_began() -> None:
    told: list[str] = []
    heartbeats = Heartbeats(["n0", "n1"], 5 * SECOND, told.append)
    assert heartbeats.after(SECOND, 5 * SECOND, {"n0": 5 * SECOND})["n1"] == SECOND
    assert heartbeats.after(SECOND, 6 * SECOND, {"n0": 6 * SECOND})["n1"] == 6 * SECOND
    assert len(told) == 1


def test_long_batches_are_cut_so_that_silence_shows_in_time() -> None:
    ts = np.array([0, 1, 2, 5, 6, 11], dtype=np.int64)
    assert list(Heartbeats(["n0"]).pieces(ts)) == [(0, 6)]
    assert list(Heartbeats(["n0"], 6).pieces(ts)) == [(0, 3), (3, 4), (4, 5), (5, 6)]
