"""`decopa.stream` over restarts of every kind: what is published is what a run over the whole trace finds."""

from __future__ import annotations

import itertools
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import decopa
from actors.columnar.jit import interpreted
from shuffler.source.checks import TraceColumns
from shuffler.source.lateness import Lateness
from tests.cluster.spark.streams.test_micro_batches import events, published, streaming, write

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark
__all__ = ["events"]

GOOGLE = """PATTERN SEQ(B a, C b, B c)
WHERE a.job_id = b.job_id AND b.job_id = c.job_id AND a.task_index = b.task_index AND b.task_index = c.task_index
WITHIN 5 min"""
COLUMNS = TraceColumns(id="event_id")
NEEDED = ["event_id", "ts", "type", "job_id", "task_index"]
#: A match of the first alternative is one of the second, too, half a second of event time later.
OR_NOT = "PATTERN OR(SEQ(A a, B b), SEQ(A a, B b, NOT(C c))) WHERE a.k = b.k AND c.k = a.k WITHIN 100 ms"


def as_rows(table: pa.Table) -> list[dict[str, object]]:
    return sorted(table.to_pylist(), key=repr)


@pytest.fixture
def incoming(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    return tmp_path / "in"


@pytest.fixture
def free_cpus(spark: SparkSession) -> Iterator[None]:
    """Whoever ends gives back what it held."""
    before = cpus()
    yield
    assert_free(before)


def cpus() -> float:
    import ray

    return float(ray.available_resources().get("CPU", 0.0))


def assert_free(before: float) -> None:
    """Ray counts an actor's CPU as free a moment after the actor has gone. Those of the test before may not have been
    counted yet."""
    deadline = time.monotonic() + 5
    while cpus() < before and time.monotonic() < deadline:
        time.sleep(0.05)
    assert cpus() >= before


def restarted_after_every_batch(
    frame: DataFrame, incoming: Path, parts: list[pa.Table], query: str, units: list[int], columns: TraceColumns
) -> None:
    """Feeds a file, waits until it is done, compares, stops, and goes on with another number of units."""
    places = {"out": incoming.parent / "out", "checkpoint": incoming.parent / "checkpoint"}
    for number, part in enumerate(parts):
        with decopa.stream(
            frame, query, units=units[number % len(units)], **places, trace=decopa.TraceOptions(columns=columns)
        ) as stream:
            write(part, incoming, number)
            stream.process_all_available()
            so_far = decopa.run(
                query, pa.concat_tables(parts[: number + 1]), trace=decopa.TraceOptions(columns=columns)
            )
            assert published(places["out"]) == as_rows(so_far)
            assert stream.last_progress is not None and stream.last_progress.num_input_rows == part.num_rows


def google_parts(shared: Path, files: int, *, name: str = "google_cluster_small") -> list[pa.Table]:
    table = pq.read_table(shared / "data" / f"{name}.parquet", columns=NEEDED)
    cuts = [round(table.num_rows * part / files) for part in range(files + 1)]
    return [table.slice(start, end - start) for start, end in itertools.pairwise(cuts)]


@pytest.mark.usefixtures("free_cpus")
def test_the_google_trace_in_six_files_with_a_restart_after_each(
    spark: SparkSession, shared: Path, incoming: Path
) -> None:
    parts = google_parts(shared, 6)
    frame = streaming(spark, incoming, parts[0])
    with interpreted():
        restarted_after_every_batch(frame, incoming, parts, GOOGLE, [2], COLUMNS)
    assert len(published(incoming.parent / "out")) == 249


@pytest.mark.usefixtures("free_cpus")
@pytest.mark.slow
def test_the_whole_google_trace_in_six_files_with_a_restart_after_each(
    spark: SparkSession, shared: Path, incoming: Path
) -> None:
    parts = google_parts(shared, 6, name="google_cluster")
    restarted_after_every_batch(streaming(spark, incoming, parts[0]), incoming, parts, GOOGLE, [2], COLUMNS)
    assert len(published(incoming.parent / "out")) == 3_400


@pytest.mark.usefixtures("free_cpus")
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_random_cuts_and_units_change_nothing(spark: SparkSession, shared: Path, incoming: Path, seed: int) -> None:
    """Cuts fall between any two events, those of equal time among them; every start has other numbers of units."""
    chaos = random.Random(seed)
    table = pa.concat_tables(google_parts(shared, 1)).slice(chaos.randrange(8_000), 12_000)
    cuts = sorted({0, len(table), *(chaos.randrange(len(table)) for _ in range(4))})
    parts = [table.slice(start, end - start) for start, end in itertools.pairwise(cuts)]
    units = [chaos.randint(1, 4) for _ in parts]
    with interpreted():
        restarted_after_every_batch(streaming(spark, incoming, table), incoming, parts, GOOGLE, units, COLUMNS)


@pytest.mark.slow
def test_after_process_all_available_nothing_is_missing_fifty_times(
    spark: SparkSession, shared: Path, incoming: Path
) -> None:
    parts = google_parts(shared, 50)
    with (
        interpreted(),
        decopa.stream(
            streaming(spark, incoming, parts[0]),
            GOOGLE,
            units=2,
            out=incoming.parent / "out",
            checkpoint=incoming.parent / "checkpoint",
            trace=decopa.TraceOptions(columns=COLUMNS),
        ) as stream,
    ):
        for number, part in enumerate(parts):
            write(part, incoming, number)
            stream.process_all_available()
            so_far = decopa.run(
                GOOGLE, pa.concat_tables(parts[: number + 1]), trace=decopa.TraceOptions(columns=COLUMNS)
            )
            assert published(incoming.parent / "out") == as_rows(so_far)


@pytest.mark.parametrize("stops", [(), (1, 2)])
def test_alternatives_of_or_with_not_publish_a_match_once(
    spark: SparkSession, events: pa.Table, incoming: Path, stops: tuple[int, ...]
) -> None:
    places = {"out": incoming.parent / "out", "checkpoint": incoming.parent / "checkpoint"}
    frame = streaming(spark, incoming, events)
    with interpreted():
        stream = decopa.stream(frame, OR_NOT, **places)
        for number in range(4):
            write(events.slice(150 * number, 150), incoming, number)
            stream.process_all_available()
            if number in stops:
                stream.stop()
                stream = decopa.stream(frame, OR_NOT, **places)
        stream.stop()
        expected = decopa.run(OR_NOT, events)
    assert expected.num_rows > 50
    assert published(places["out"]) == as_rows(expected)


def test_a_batch_from_which_nothing_can_leave_yet_is_kept(
    spark: SparkSession, events: pa.Table, incoming: Path
) -> None:
    """All events are younger than the allowed lateness; a restart finds them again."""
    places = {"out": incoming.parent / "out", "checkpoint": incoming.parent / "checkpoint"}
    frame, query = streaming(spark, incoming, events), "PATTERN SEQ(A a, B b) WHERE a.k = b.k WITHIN 100 ms"
    lateness = Lateness(allowed_us=10**9)
    with interpreted():
        for number in range(2):
            with decopa.stream(frame, query, **places, trace=decopa.TraceOptions(lateness=lateness)) as stream:
                write(events.slice(300 * number, 300), incoming, number)
                stream.process_all_available()
                assert published(places["out"]) == []
        with decopa.stream(frame, query, **places) as stream:  # no lateness any more: all that is held may go
            last = events.slice(599).set_column(1, "ts", pa.array([events["ts"][-1].as_py() + 10**7]))
            write(last.set_column(0, "id", pa.array([10**9])), incoming, 2)
            stream.process_all_available()
        expected = decopa.run(query, events)
    assert published(places["out"]) == as_rows(expected)


@pytest.mark.slow
@pytest.mark.parametrize("point", ["handed", "published", "done"])
def test_a_driver_killed_between_hand_over_and_commit_goes_on(events: pa.Table, tmp_path: Path, point: str) -> None:
    """Not on this process's Spark: the driver and everything that it owns is gone."""
    query = "PATTERN SEQ(A a, B b, NOT(C c)) WHERE a.x < b.x AND c.k = a.k WITHIN 100 ms"
    (tmp_path / "in").mkdir()
    pq.write_table(events.slice(0, 0), tmp_path / "schema.parquet")
    (tmp_path / "query.txt").write_text(query)
    for number in range(4):
        write(events.slice(150 * number, 150), tmp_path / "in", number)
    last = events.slice(599).set_column(1, "ts", pa.array([events["ts"][-1].as_py() + 10**7]))
    write(last.set_column(0, "id", pa.array([10**9])), tmp_path / "in", 4)
    driver(tmp_path, "2", point, "1", status=-signal.SIGKILL)
    driver(tmp_path, "3", status=0)
    expected = as_rows(decopa.run(query, events))
    assert len(expected) > 50
    assert published(tmp_path / "out") == expected


def driver(folder: Path, *arguments: str, status: int) -> None:
    command = [sys.executable, "-m", "tests.support.killed_stream", str(folder), *arguments]
    ended = subprocess.run(command, env=dict(os.environ), timeout=200, capture_output=True, text=True)
    assert ended.returncode == status, ended.stderr[-5_000:]


def test_a_stream_that_has_ended_says_so_and_gives_its_cpus_back(
    spark: SparkSession, events: pa.Table, incoming: Path
) -> None:
    before = cpus()
    write(events.slice(0, 300), incoming, 0)
    query = "PATTERN SEQ(A a, B b) WHERE a.k = b.k WITHIN 100 ms"
    places = {"out": incoming.parent / "out", "checkpoint": incoming.parent / "checkpoint"}
    frame = streaming(spark, incoming, events)
    with interpreted():
        stream = decopa.stream(frame, query, trigger={"availableNow": True}, name="pairs", **places)
        assert stream.name == "pairs"
        assert stream.await_termination(timeout_s=100)
        assert not stream.is_active and stream.exception() is None
        assert stream.await_termination()  # still ended
        assert_free(before)
        first = stream.id
        stream = decopa.stream(frame, query, name="pairs", **places)
        assert stream.id == first and stream.is_active
        assert not stream.await_termination(timeout_s=0.2)  # it goes on
        stream.process_all_available()
        assert stream.last_progress is None and stream.recent_progress == ()  # of this run; nothing new has come
        assert not stream.status.is_data_available
        write(events.slice(0, 100), incoming, 1)  # events that have been worked on already
        with pytest.raises(decopa.TraceError, match="are earlier than what has been worked on"):
            stream.await_termination(timeout_s=100)
        assert isinstance(stream.exception(), decopa.TraceError) and not stream.is_active
        assert_free(before)
        assert stream.progress.batch_id == 0
