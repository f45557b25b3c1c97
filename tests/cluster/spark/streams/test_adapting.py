"""The plan of a stream follows it between two micro-batches, and no match is lost, repeated, or late."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import decopa
from cluster.deploy import placement
from cluster.spark.streams.events import StreamEvents
from cluster.spark.streams.plans import StreamPlans
from cluster.spark.streams.stream_log import Progress, StreamLog
from decopa import Capacity, Planning
from decopa.errors import StatisticsError
from decopa.planning.price import plan_units
from shuffler.rows.events import TraceColumns
from shuffler.source.trace import open_trace
from tests.cluster.spark.streams.test_micro_batches import published, streaming, write
from tests.cluster.spark.streams.test_restarts import as_rows, driver, free_cpus, incoming
from tests.support import killed_stream
from tests.support.mirrored import QUERY, RARE_A, RARE_C, mirrored, stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from cluster.session import Session
    from cluster.spark.streams.match_stream import MatchStream

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("without_compiling", "free_cpus")]
__all__ = ["free_cpus", "incoming"]

#: Looks after every micro-batch, and thinks that a plan will be right for long.
EAGER = killed_stream.EAGER


class Feed:
    """Writes a table into the folder that a stream reads, piece by piece, in stretches of event time.

    With `certain` all matches in the events so far are certain, as they are without NOT at an end.
    """

    def __init__(self, table: pa.Table, folder: Path, query: str = QUERY, *, certain: bool = True) -> None:
        self._table, self._folder, self._query, self._certain = table, folder, query, certain
        self._times: Sequence[int] = table["ts"].to_pylist()
        self._files = self._rows = 0
        self.places: dict[str, Any] = {"out": folder.parent / "out", "checkpoint": folder.parent / "checkpoint"}

    @property
    def so_far(self) -> pa.Table:
        return self._table.slice(0, self._rows)

    @property
    def is_over(self) -> bool:
        return self._rows == len(self._times)

    def give(self, running: MatchStream, seconds: float) -> None:
        """The next stretch as one micro-batch; then exactly the matches so far are published."""
        first, until = self._rows, self._times[self._rows] + seconds * 1e6
        while not self.is_over and self._times[self._rows] < until:
            self._rows += 1
        write(self._table.slice(first, self._rows - first), self._folder, self._files)
        self._files += 1
        running.process_all_available()
        if self._certain:
            self.check()

    def check(self, *, least: int = 0) -> None:
        found = decopa.run(self._query, self.so_far)
        assert found.num_rows >= least
        assert published(self.places["out"]) == as_rows(found)

    def until_switched(self, running: MatchStream, seconds: float, *, times: int = 1) -> None:
        """Gives one stretch after the other until the plan has changed, or a change was given up, so many times."""
        while len(running.switches) < times:
            assert not self.is_over, "the plan did not change"
            self.give(running, seconds)
            time.sleep(0.5)  # for actors that are about to be up

    def end(self, running: MatchStream) -> None:
        """An event long after all others makes their matches certain."""
        last = self._table.slice(len(self._table) - 1)
        self._table = self.so_far
        for name, value in (("id", 10**9), ("ts", self._times[self._rows - 1] + 10**9)):
            last = last.set_column(last.column_names.index(name), name, pa.array([value]))
        write(last, self._folder, self._files)
        running.process_all_available()
        self.check(least=20)


def test_a_stream_that_nobody_knew_is_planned_anew_and_a_restart_goes_on(spark: SparkSession, incoming: Path) -> None:
    """The first plan goes by the order of the query. The restart is planned like that again, on other units."""
    feed = Feed(stream([(1_200, RARE_C)]), incoming)
    frame = streaming(spark, incoming, feed.so_far)
    with decopa.stream(frame, QUERY, units=2, adapt=EAGER, **feed.places) as running:
        feed.give(running, 120)
        feed.until_switched(running, 120)
        feed.give(running, 30)
        (switch,) = running.switches
    assert switch.given_up is None and "the stream was measured" in switch.reason
    assert switch.replayed and switch.pause_s > 0 and switch.gain > 1.25
    with decopa.stream(frame, QUERY, units=1, **feed.places) as running:
        feed.give(running, 60)
        assert running.switches == ()
    feed.check(least=100)


@pytest.mark.slow
def test_mirrored_rates_change_the_plan_both_ways(spark: SparkSession, incoming: Path) -> None:
    feed = Feed(mirrored(600), incoming)
    log = incoming.parent / "changes.jsonl"
    frame = streaming(spark, incoming, feed.so_far)
    with decopa.stream(frame, QUERY, units=2, adapt=replace(EAGER, log=str(log)), **feed.places) as running:
        feed.until_switched(running, 60)
        time.sleep(3 * running.switches[0].warm_up_s + 10)  # there is none for three times as long as it took
        while not feed.is_over:
            feed.give(running, 60)
        made = [one for one in running.switches if one.given_up is None]
    assert any(600_000_000 <= one.at_us <= 1_200_000_000 and "rate of A" in one.reason for one in made)
    assert any(one.at_us >= 1_200_000_000 and "rate of C" in one.reason for one in made)
    assert log.read_text().count('"kind": "plan"') == len(made)


@pytest.mark.slow
def test_the_number_of_units_follows_the_load(spark: SparkSession, incoming: Path) -> None:
    """Micro-batches take a second, so that a window has to be short for event time to pass about as fast as time."""
    query = QUERY.replace("1 min", "2 s")
    low = dict.fromkeys("ABC", 200.0)
    feed = Feed(stream([(12, low), (60, {name: 10 * rate for name, rate in low.items()})]), incoming, query)
    planning = Planning(units=2, capacity=Capacity.per_second(100, 200))
    frame = streaming(spark, incoming, feed.so_far)
    adapt = replace(EAGER, units=(2, 8))
    with decopa.stream(frame, query, planning=planning, adapt=adapt, **feed.places) as running:
        while max([0, *(plan_units(one.plan) for one in running.switches if one.given_up is None)]) < 4:
            assert not feed.is_over
            feed.give(running, 2)
        feed.give(running, 2)
        assert all(plan_units(one.plan) <= 8 for one in running.switches)


@pytest.mark.slow
@pytest.mark.parametrize(
    "query",
    [
        "PATTERN OR(SEQ(A a, B b, C c), SEQ(A a, B b, C c, NOT(B d))) WHERE a.x = b.x AND b.x = c.x AND d.x = a.x "
        "WITHIN 30 s",
        "QUERY p PATTERN SEQ(A a, B b, C c) WHERE a.x = b.x AND b.x = c.x WITHIN 30 s;"
        "QUERY q PATTERN SEQ(A a, B b, C c, NOT(B d)) WHERE a.x = b.x AND b.x = c.x AND d.x = a.x WITHIN 1 min",
    ],
    ids=["alternatives", "workload"],
)
def test_what_is_remembered_of_earlier_matches_is_built_again(spark: SparkSession, incoming: Path, query: str) -> None:
    """Matches that another alternative may bring again, or that a NOT still holds; some parts may be shared."""
    feed = Feed(mirrored(240), incoming, query, certain=False)
    frame = streaming(spark, incoming, feed.so_far)
    with decopa.stream(frame, query, units=4, adapt=EAGER, **feed.places) as running:
        while not feed.is_over:
            feed.give(running, 30)
            time.sleep(0.5)
        feed.end(running)
        assert any(one.given_up is None for one in running.switches)


@pytest.mark.slow
def test_a_query_whose_plans_report_at_different_moments_keeps_its_plan(spark: SparkSession, incoming: Path) -> None:
    query = "PATTERN SEQ(A a, NOT(SEQ(B b, NOT(C c))), C d) WHERE a.x = d.x WITHIN 20 s"
    feed = Feed(mirrored(120), incoming, query, certain=False)
    frame = streaming(spark, incoming, feed.so_far)
    with decopa.stream(frame, query, units=2, adapt=EAGER, **feed.places) as running:
        while not feed.is_over:
            feed.give(running, 60)
        feed.end(running)
        assert running.switches == ()


@pytest.mark.slow
def test_without_room_a_change_is_given_up_and_made_once_there_is_room(
    spark: SparkSession, incoming: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ray
    from ray.util.placement_group import placement_group, remove_placement_group

    monkeypatch.setattr(placement, "PATIENCE_S", 1.0)
    feed = Feed(stream([(2_400, RARE_C)]), incoming)
    frame = streaming(spark, incoming, feed.so_far)
    with decopa.stream(frame, QUERY, units=2, adapt=EAGER, **feed.places) as running:
        held = placement_group([{"CPU": ray.available_resources()["CPU"] - 1}])
        assert held.wait(30)
        try:
            feed.until_switched(running, 60)
        finally:
            remove_placement_group(held)
        assert "has no room for the plan" in (running.switches[0].given_up or "")
        while running.switches[-1].given_up is not None:
            feed.give(running, 60)
            time.sleep(0.5)
        feed.give(running, 60)


@pytest.mark.slow
@pytest.mark.parametrize("victim", ["units", "shufflers", "sinks"])
def test_a_loss_on_the_new_side_gives_the_change_up_and_the_stream_goes_on(
    spark: SparkSession, incoming: Path, monkeypatch: pytest.MonkeyPatch, victim: str
) -> None:
    import ray

    built, killed = StreamPlans.built, list[int]()

    def built_after_a_loss(self: StreamPlans, session: Session, done: Progress) -> Any:
        if done.handed_us is not None and not killed:
            actor = next(iter(getattr(session.deployment, victim).values()))
            killed.append(ray.get(actor.pid.remote()))
            os.kill(killed[0], signal.SIGKILL)
        return built(self, session, done)

    monkeypatch.setattr(StreamPlans, "built", built_after_a_loss)
    feed = Feed(stream([(2_400, RARE_C)]), incoming)
    frame = streaming(spark, incoming, feed.so_far)
    with decopa.stream(frame, QUERY, units=2, adapt=EAGER, **feed.places) as running:
        feed.until_switched(running, 60)
        assert killed and "died" in (running.switches[0].given_up or "")
        while running.switches[-1].given_up is not None:
            feed.give(running, 60)
            time.sleep(0.5)
        feed.give(running, 60)


@pytest.mark.slow
def test_a_stream_that_is_stopped_while_a_plan_starts_leaves_nothing_behind(
    spark: SparkSession, incoming: Path
) -> None:
    feed = Feed(stream([(1_200, RARE_C)]), incoming)
    log = incoming.parent / "changes.jsonl"
    frame = streaming(spark, incoming, feed.so_far)
    with decopa.stream(frame, QUERY, units=2, adapt=replace(EAGER, log=str(log)), **feed.places) as running:
        while "decided" not in log.read_text():
            feed.give(running, 60)
    (switch,) = running.switches
    assert "the stream ended before the new plan took over" in (switch.given_up or "")
    with decopa.stream(frame, QUERY, units=2, **feed.places) as running:
        feed.give(running, 60)


@pytest.mark.slow
def test_a_driver_killed_around_a_change_goes_on(incoming: Path) -> None:
    """Not on this process's Spark: once when the new plan is built, once when it has taken over."""
    folder, table = incoming.parent, stream([(1_200, RARE_C)])
    pq.write_table(table.slice(0, 0), folder / "schema.parquet")
    (folder / "query.txt").write_text(QUERY)
    moments = table["ts"].to_numpy()
    for number in range(20):
        rows = (moments >= number * 60_000_000) & (moments < (number + 1) * 60_000_000)
        write(table.filter(pa.array(rows)), incoming, number)
    driver(folder, "2", "built", "0", status=-signal.SIGKILL)
    driver(folder, "2", "replaced", "0", status=-signal.SIGKILL)
    driver(folder, "3", status=0)
    assert published(folder / "out") == as_rows(decopa.run(QUERY, table))


def test_a_sample_is_what_was_worked_on_last(spark: SparkSession, tmp_path: Path) -> None:
    table = stream([(120, RARE_A)])
    events = sample_of(spark, table, tmp_path)
    moments = table["ts"].to_numpy()
    done = Progress("", 0, int(moments[-20]))
    reached = moments[moments <= moments[-20]]
    whole = events.last(done, 60_000_000, 1_000_000)
    assert whole.ts.tolist() == reached[reached >= reached[-1] - 60_000_000].tolist()
    assert set(whole.columns) == {"x"} and set(whole.type_names) == {"A", "B", "C"}
    few = events.last(done, 60_000_000, 100)
    assert 80 <= len(few) <= 100 and few.ts.tolist() == reached[-len(few) :].tolist()
    with pytest.raises(StatisticsError, match="no events have been worked on"):
        events.last(Progress(""), 60_000_000, 100)
    with pytest.raises(StatisticsError, match="no events are kept"):
        events.last(Progress("", 0, int(moments[0]) - 1), 60_000_000, 100)


def sample_of(spark: SparkSession, table: pa.Table, folder: Path) -> StreamEvents:
    """The table, kept after micro-batch 0."""
    log, columns = StreamLog(folder / "log", folder / "out"), TraceColumns()
    log.kept(0).mkdir()
    pq.write_table(table, log.kept(0) / "part-0.parquet")
    return StreamEvents(spark, log, open_trace(table, columns=columns).format, {"x"})
