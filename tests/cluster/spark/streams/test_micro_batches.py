"""Structured Streaming: matches that span micro-batches, each once, also over a restart."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import decopa
from actors.columnar.jit import interpreted
from decopa.errors import CheckpointError, TraceError
from decopa.traces.synthetic import SyntheticSpec
from shuffler.source.lateness import Lateness

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

QUERY = "QUERY q PATTERN SEQ(A a, B b, NOT(C c)) WHERE a.x < b.x AND c.k = a.k WITHIN 200 ms RETURN a.s"


@pytest.fixture(scope="module")
def events() -> pa.Table:
    spec = SyntheticSpec(events=600, rate_per_s=1000, types=3, keys=10, seed=3)
    plain = [("type", pa.string()), ("s", pa.string())]
    table = pa.Table.from_batches(list(spec.batches()))
    for name, kind in plain:
        table = table.set_column(table.column_names.index(name), name, table[name].cast(kind))
    return table


def write(table: pa.Table, folder: Path, number: int) -> None:
    """A new file appears as a whole, as Spark expects of a file source; it takes files by their age."""
    staged = folder.parent / f"{number}.staged"
    pq.write_table(table, staged)
    written = staged.stat().st_mtime - 1_000 + number
    os.utime(staged, (written, written))
    staged.rename(folder / f"part-{number}.parquet")


def streaming(spark: SparkSession, folder: Path, events: pa.Table) -> DataFrame:
    pq.write_table(events.slice(0, 0), folder.parent / "schema.parquet")
    schema = spark.read.parquet((folder.parent / "schema.parquet").as_uri()).schema
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", "1").parquet(folder.as_uri())


def published(folder: Path) -> list[dict[str, object]]:
    rows = [row for path in sorted(folder.glob("matches-*.parquet")) for row in pq.read_table(path).to_pylist()]
    return sorted(rows, key=repr)


def test_matches_span_micro_batches_and_a_restart_goes_on(
    spark: SparkSession, events: pa.Table, tmp_path: Path
) -> None:
    incoming = tmp_path / "in"
    incoming.mkdir()
    frame = streaming(spark, incoming, events)
    places = {"out": tmp_path / "out", "checkpoint": tmp_path / "checkpoint"}
    lateness = Lateness(allowed_us=20_000, policy="drop")
    # Neighbours across the cut between two files change places: late, but not too late.
    order = [*range(190), *range(195, 200), *range(190, 195), *range(200, 600)]
    shuffled = events.take(pa.array(order))
    with interpreted():
        with decopa.stream(frame, QUERY, units=2, **places, trace=decopa.TraceOptions(lateness=lateness)) as stream:
            write(shuffled.slice(0, 195), incoming, 0)
            stream.process_all_available()
            write(shuffled.slice(195, 205), incoming, 1)
            stream.process_all_available()
            assert stream.progress.late_events == 0
        with decopa.stream(frame, QUERY, units=3, **places, trace=decopa.TraceOptions(lateness=lateness)) as stream:
            write(shuffled.slice(400), incoming, 2)
            stream.process_all_available()
            # The stream goes on, so what could still be late is held back: an event far ahead lets it go.
            last = events.slice(599).set_column(1, "ts", pa.array([events["ts"][-1].as_py() + 10**7]))
            write(last.set_column(0, "id", pa.array([10**9])), incoming, 3)
            stream.process_all_available()
        expected = decopa.run(QUERY, events).to_pylist()
    found = published(tmp_path / "out")
    assert len(expected) > 50
    assert found == sorted(expected, key=repr)


def test_another_query_does_not_go_on_from_this_checkpoint(
    spark: SparkSession, events: pa.Table, tmp_path: Path
) -> None:
    incoming = tmp_path / "in"
    incoming.mkdir()
    frame = streaming(spark, incoming, events)
    places = {"out": tmp_path / "out", "checkpoint": tmp_path / "checkpoint"}
    write(events.slice(0, 100), incoming, 0)
    with interpreted():
        with decopa.stream(frame, QUERY, **places) as stream:
            stream.process_all_available()
            write(events.slice(0, 100), incoming, 1)  # the same events again: all but the last are late
            with pytest.raises(TraceError, match="99 events are earlier than what has been worked on"):
                stream.process_all_available()
        with pytest.raises(CheckpointError, match="belongs to another query"):
            decopa.stream(frame, "PATTERN SEQ(A a, B b) WITHIN 1 s", **places)


def test_a_data_frame_runs_on_ray_and_comes_back(spark: SparkSession, events: pa.Table, tmp_path: Path) -> None:
    pq.write_table(events.take(pa.array(range(599, -1, -1))), tmp_path / "events.parquet")
    frame = spark.read.parquet((tmp_path / "events.parquet").as_uri())
    with interpreted():
        here = decopa.run(QUERY, events)
        result = decopa.run_detailed(QUERY, frame, units=2, strategy="decopa", runtime="ray")
    assert result.matches.equals(here)
    assert "timestamps were not in order: sorted 600 events" in result.notices
