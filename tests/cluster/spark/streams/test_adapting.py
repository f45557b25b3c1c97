"""The plan of a stream follows it between two micro-batches, and no match is lost, repeated, or late."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import decopa
from decopa import Adapt
from tests.cluster.spark.streams.test_micro_batches import published, streaming, write
from tests.cluster.spark.streams.test_restarts import as_rows, free_cpus, incoming
from tests.support.mirrored import QUERY, RARE_C, stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from cluster.spark.streams.match_stream import MatchStream

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("without_compiling", "free_cpus")]
__all__ = ["free_cpus", "incoming"]

#: Looks after every micro-batch, and thinks that a plan will be right for long.
EAGER = Adapt(every_s=1e-6, overhead=1.0, horizon_s=1e6, cool_down_s=0.1)


class Feed:
    """Writes a table into the folder that a stream reads, piece by piece, in stretches of event time."""

    def __init__(self, table: pa.Table, folder: Path) -> None:
        self._table, self._folder, self._files, self._rows = table, folder, 0, 0
        self._times: Sequence[int] = table["ts"].to_pylist()
        self.out = folder.parent / "out"

    @property
    def so_far(self) -> pa.Table:
        return self._table.slice(0, self._rows)

    def give(self, running: MatchStream, seconds: float) -> None:
        """The next stretch as one micro-batch; then exactly the matches so far are published."""
        first, until = self._rows, self._times[self._rows] + seconds * 1e6
        while self._rows < len(self._times) and self._times[self._rows] < until:
            self._rows += 1
        write(self._table.slice(first, self._rows - first), self._folder, self._files)
        self._files += 1
        running.process_all_available()
        assert published(self.out) == as_rows(decopa.run(QUERY, self.so_far))

    def until_switched(self, running: MatchStream, seconds: float, *, times: int = 1) -> None:
        """Gives one stretch after the other until the plan has changed, or a change was given up, so many times."""
        while len(running.switches) < times:
            assert self._rows < len(self._times), "the plan did not change"
            self.give(running, seconds)
            time.sleep(0.5)  # for actors that are about to be up


def test_a_stream_that_nobody_knew_is_planned_anew_and_a_restart_goes_on(spark: SparkSession, incoming: Path) -> None:
    """The first plan goes by the order of the query. The restart is planned like that again, on other units."""
    feed = Feed(stream([(1_200, RARE_C)]), incoming)
    places: dict[str, Any] = {"out": feed.out, "checkpoint": incoming.parent / "checkpoint"}
    frame = streaming(spark, incoming, feed.so_far)
    with decopa.stream(frame, QUERY, units=2, adapt=EAGER, **places) as running:
        feed.give(running, 120)
        feed.until_switched(running, 120)
        feed.give(running, 30)
        (switch,) = running.switches
    assert switch.given_up is None and "the stream was measured" in switch.reason
    assert switch.replayed and switch.pause_s > 0 and switch.gain > 1.25
    with decopa.stream(frame, QUERY, units=1, **places) as running:
        feed.give(running, 60)
        assert running.switches == ()
