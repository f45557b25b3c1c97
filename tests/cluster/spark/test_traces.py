"""Traces through a real Spark: what goes in comes out in time order and complete, or is refused in words."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import decopa
from cluster.spark.blocks import arrow_blocks
from cluster.spark.results import to_spark
from cluster.spark.traces import clean, load_trace, read_trace, time_sorted
from decopa.errors import TraceError
from decopa.planning.predict import predict
from shuffler.rows.events import TraceColumns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# PySpark leaves the socket through which rows come to be closed by the garbage collector.
pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")]

NAMES = TraceColumns(id="event_id")
QUERY = "PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 60 us"


def a_trace(events: int = 600, seed: int = 3) -> pa.Table:
    """Shuffled, with ties in time, nulls in an attribute and ids beyond 2^53."""
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "event_id": pa.array(rng.permutation(events) + 2**60),
            "ts": pa.array(rng.integers(0, 2 * events, events)),
            "type": pa.array(rng.choice(["A", "B", "C"], events).tolist()),
            "x": pa.array(rng.random(events), mask=rng.random(events) < 0.1),
            "label": pa.array(rng.choice(["p", "q", ""], events).tolist()),
        }
    )


TRACE = a_trace()


@pytest.fixture(scope="module")
def frame(spark: SparkSession) -> DataFrame:
    return to_spark(spark, TRACE).repartition(3).cache()


def gathered(blocks: list[object]) -> pa.Table:
    import ray

    return pa.concat_tables(ray.get([block.table for block in blocks]))  # type: ignore[attr-defined]


def in_time_order(table: pa.Table) -> pa.Table:
    return table.sort_by([("ts", "ascending"), ("event_id", "ascending")])


# --------------------------------------------------------------------- in, in order
def test_blocks_hold_all_rows_in_time_order(frame: DataFrame) -> None:
    blocks = arrow_blocks(time_sorted(frame, NAMES, 4), NAMES)
    assert len(blocks) == 4
    assert sum(block.rows for block in blocks) == TRACE.num_rows
    assert all(one.last_ts_us <= other.first_ts_us for one, other in itertools.pairwise(blocks))
    assert gathered(list(blocks)).equals(in_time_order(TRACE))


def test_rows_out_of_order_are_refused_by_blocks_and_sorted_by_loading(frame: DataFrame) -> None:
    with pytest.raises(TraceError, match="earlier than the row before; sort the frame with time_sorted"):
        arrow_blocks(frame, NAMES)
    loaded = load_trace(frame, NAMES, partitions=2)
    assert loaded.notices == ("timestamps were not in order: sorted 600 events",)
    assert loaded.event_types == {"A", "B", "C"}
    assert gathered(list(loaded.blocks)).equals(in_time_order(TRACE))
    found = decopa.run(QUERY, loaded.source())
    loaded.release()
    assert found.equals(decopa.run(QUERY, TRACE, trace=decopa.TraceOptions(columns=NAMES)))


def test_blocks_carry_only_the_columns_that_queries_read(frame: DataFrame) -> None:
    loaded = load_trace(frame, NAMES, attributes={"x", "ts"})
    assert {tuple(block.summary.schema.names) for block in loaded.blocks} == {("event_id", "ts", "type", "x")}
    found = decopa.run(QUERY, loaded.source())
    loaded.release()
    assert found.equals(decopa.run(QUERY, TRACE, trace=decopa.TraceOptions(columns=NAMES)))
    with pytest.raises(TraceError, match="the data frame has no column 'labels'; did you mean 'label'"):
        load_trace(frame, NAMES, attributes={"labels"})


def test_the_time_span_of_a_frame_is_known_before_it_is_read(frame: DataFrame) -> None:
    loaded = load_trace(frame, NAMES)
    ts = TRACE.column("ts").to_numpy()
    assert loaded.source().span_us == ts.max() - ts.min()
    loaded.release()


def test_predictions_of_a_run_on_a_frame_are_those_of_the_table(frame: DataFrame) -> None:
    """They are made from the time span of the trace, which a run that feeds blocks never reads itself."""
    query = decopa.parse(QUERY)
    on_spark = decopa.run_detailed(
        query, frame, strategy="decopa", runtime="ray", units=1, trace=decopa.TraceOptions(columns=NAMES)
    )
    here = decopa.run_detailed(query, TRACE, strategy="decopa", trace=decopa.TraceOptions(columns=NAMES))
    assert on_spark.matches.equals(here.matches)
    assert on_spark.span_us == here.span_us > 0
    part = on_spark.plan.parts[0]
    predicted = predict(part, on_spark.statistics[0], on_spark.span_us)
    assert all(one.emitted.value > 0 for one in predicted.values())
    measured = {report.name: report.ingested for report in on_spark.operators}
    for name, ingested in measured.items():
        assert predicted[name].ingested.value == pytest.approx(ingested, rel=0.1)


def test_a_frame_in_order_is_taken_as_it_is_and_empty_partitions_do_not_count(spark: SparkSession) -> None:
    ordered = spark.range(0, 100, 1, 4).selectExpr("id", "id * 2 AS ts", "'A' AS type").where("id < 25 OR id >= 50")
    loaded = load_trace(ordered)
    assert loaded.was_sorted
    assert [block.rows for block in loaded.blocks] == [25, 25, 25]
    assert loaded.notices == ()


def test_a_frame_without_rows_has_no_blocks(spark: SparkSession) -> None:
    loaded = load_trace(spark.range(0).selectExpr("id", "id AS ts", "'A' AS type"))
    assert loaded.blocks == ()
    with pytest.raises(TraceError, match="the data frame has no events"):
        loaded.source()


def test_timestamps_come_as_utc_microseconds(spark: SparkSession) -> None:
    times = spark.sql("SELECT 1 AS id, TIMESTAMP '2013-08-01 00:00:37.000001' AS ts, 'A' AS type")
    (block,) = load_trace(times).blocks
    table = gathered([block])
    assert table.schema.field("ts").type == pa.timestamp("us", "UTC")
    assert table.column("ts").to_pylist() == [datetime(2013, 8, 1, 0, 0, 37, 1, tzinfo=UTC)]
    assert block.first_ts_us == block.last_ts_us == 1_375_315_237_000_001


# --------------------------------------------------------------------- in, from files
@pytest.mark.parametrize("form", ["parquet", "directory", "csv", "jsonl"])
def test_every_form_of_file_gives_the_same_events(spark: SparkSession, tmp_path: Path, form: str) -> None:
    path = tmp_path / f"trace.{form}"
    few = TRACE.slice(0, 50)
    if form == "parquet":
        pq.write_table(few, path)
    elif form == "directory":
        (path / "part=1").mkdir(parents=True)
        pq.write_table(few.slice(0, 20), path / "a.parquet")
        pq.write_table(few.slice(20), path / "part=1" / "b.parquet")
    elif form == "csv":
        pyarrow.csv.write_csv(few, path)
    else:
        path.write_text("\n".join(map(_json, few.to_pylist())))
    loaded = load_trace(read_trace(spark, path, NAMES), NAMES)
    found = gathered(list(loaded.blocks)).select(few.column_names)
    assert found.cast(few.schema).to_pylist() == in_time_order(few).to_pylist()


def test_types_of_a_csv_stay_text_and_times_are_read(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("id,ts,type\n1,2013-08-01T00:00:01,007\n2,2013-08-01T00:00:02,08\n")
    loaded = load_trace(read_trace(spark, path))
    assert loaded.event_types == {"007", "08"}
    assert [block.first_ts_us for block in loaded.blocks] == [1_375_315_201_000_000]


def test_a_broken_csv_row_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("id,ts,type\n1,5,A\n2,6,A,extra,cells\n")
    with pytest.raises(TraceError, match=r"Malformed|malformed"):
        load_trace(read_trace(spark, path), name="t.csv")


def test_paths_that_are_none_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"no trace '.*gone.parquet'; check the path"):
        read_trace(spark, tmp_path / "gone.parquet")
    (tmp_path / "t.xlsx").touch()
    with pytest.raises(TraceError, match=r"unknown kind of trace; its name must end in one of \.parquet"):
        read_trace(spark, tmp_path / "t.xlsx")
    (tmp_path / "broken.parquet").write_text("no parquet at all")
    with pytest.raises(TraceError, match=r"cannot be read: .*broken.parquet is not a Parquet file"):
        read_trace(spark, tmp_path / "broken.parquet")


# --------------------------------------------------------------------- what is wrong
def test_rows_without_id_time_or_type_fail_or_are_counted(spark: SparkSession) -> None:
    rows = [(1, 5, "A"), (None, 6, "A"), (3, None, None), (4, 7, "B")]
    gaps = spark.createDataFrame(rows, "id long, ts long, type string")
    with pytest.raises(TraceError, match="2 of 4 rows lack an id, a time or a type: 1 in 'id', 1 in 'ts', 1 in 'type'"):
        clean(gaps)
    kept = clean(gaps, missing="drop")
    assert (kept.rows, kept.dropped) == (2, {"id": 1, "ts": 1, "type": 1})
    assert kept.notices[0] == "the data frame: dropped 1 rows without id"
    assert [row.id for row in kept.frame.collect()] == [1, 4]


def test_text_that_is_no_time_is_said(spark: SparkSession) -> None:
    rows = [(1, "2013-08-01 10:00:00", "A"), (2, "10:00", "A"), (3, "2013-13-01", "A")]
    with pytest.raises(TraceError, match=r"2 in 'ts' \(2 hold text that is no time\)"):
        clean(spark.createDataFrame(rows, "id long, ts string, type string"))


def test_an_id_that_comes_twice_is_named(spark: SparkSession) -> None:
    rows = [(7, 1, "A"), (8, 2, "A"), (7, 3, "A")]
    with pytest.raises(TraceError, match="column 'id': id 7 is that of 2 events; every event needs its own id"):
        load_trace(spark.createDataFrame(rows, "id long, ts long, type string"))


def test_columns_that_do_not_fit_are_named(spark: SparkSession) -> None:
    frame = spark.range(1).selectExpr("id", "CAST(id AS DOUBLE) AS ts", "'A' AS type")
    with pytest.raises(TraceError, match="column 'ts' holds double, but times are timestamps, dates or integer"):
        clean(frame)
    with pytest.raises(TraceError, match=r"has no column 'key'; .*its columns are id, ts, type; name the right one"):
        clean(frame, TraceColumns(id="key"))
    with pytest.raises(TraceError, match="two columns are called 'id'"):
        clean(spark.range(1).selectExpr("id", "id", "id AS ts", "'A' AS type"))


# --------------------------------------------------------------------- out
MATCHES = pa.table(
    {
        "query": pa.array(["q", "q"]).dictionary_encode(),
        "start_ts": pa.array([1, 2], pa.timestamp("us", "UTC")),
        "a": pa.array([2**60 + 1, None], pa.int64()),
        "k": pa.array([[2**60 + 1, 3], [4]], pa.list_(pa.int64())),
        "names": pa.array([["x"], []], pa.list_(pa.string())),
        "b.x": pa.array([0.5, None]),
    }
)


def test_matches_come_back_as_they_are(spark: SparkSession) -> None:
    frame = to_spark(spark, MATCHES)
    assert dict(frame.dtypes)["k"] == "array<bigint>"
    assert dict(frame.dtypes)["start_ts"] == "timestamp"
    batches = frame._collect_as_arrow()
    assert pa.Table.from_batches(batches).cast(MATCHES.schema).to_pylist() == MATCHES.to_pylist()
    assert to_spark(spark, MATCHES.slice(0, 0)).schema == frame.schema


def test_blocks_in_ray_come_back_without_passing_through_the_driver(spark: SparkSession) -> None:
    import ray

    frame = to_spark(spark, [ray.put(MATCHES), ray.put(MATCHES.slice(1))])
    found = sorted((row["a"] or 0, row["k"]) for row in frame.collect())
    assert found == [(0, [4]), (0, [4]), (2**60 + 1, [2**60 + 1, 3])]


def _json(row: dict[str, object]) -> str:
    import json

    return json.dumps({name: value for name, value in row.items() if value is not None})
