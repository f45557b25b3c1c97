"""What is seen in the rows of a partition, and what follows from it for the whole; no Spark needed."""

from __future__ import annotations

import pyarrow as pa
import pytest

from cluster.spark.blocks import disorder_of, ids_increase, summarize
from cluster.spark.failures import innermost_cause
from cluster.spark.results import plain_table, plain_type
from decopa.errors import TraceError
from shuffler.rows.columns import Place
from shuffler.rows.events import TraceColumns

NAMES = TraceColumns(id="event_id")
HERE = Place("trace, partition 0")


def rows(*events: tuple[int, int | None, str]) -> pa.Table:
    ids, times, types = zip(*events, strict=True) if events else ((), (), ())
    return pa.table(
        {"event_id": pa.array(ids, pa.int64()), "ts": pa.array(times, pa.int64()), "type": pa.array(types, pa.string())}
    )


def test_a_summary_says_what_a_source_needs_to_know() -> None:
    found = summarize(rows((1, 5, "A"), (2, 5, "B"), (4, 9, "A")), NAMES, HERE)
    assert (found.rows, found.first_ts_us, found.last_ts_us) == (3, 5, 9)
    assert found.event_types == {"A", "B"}
    assert found.disorder is None
    assert found.ids_increase
    assert (found.first_id, found.last_id) == (1, 4)


def test_an_empty_partition_has_a_summary_too() -> None:
    assert summarize(rows(), NAMES, HERE).rows == 0


def test_chunks_are_seen_as_one() -> None:
    chunked = pa.concat_tables([rows((1, 5, "A")), rows(), rows((2, 3, "A"))])
    found = summarize(chunked, NAMES, HERE)
    assert found.disorder == "trace, partition 0: column 'ts', row 2: 3 is earlier than the row before"
    assert (found.first_ts_us, found.last_ts_us) == (3, 5)


def test_a_missing_time_is_refused_with_its_place() -> None:
    with pytest.raises(TraceError, match="partition 0: column 'ts', row 2: has no timestamp"):
        summarize(rows((1, 5, "A"), (2, None, "A")), NAMES, HERE)


def test_partitions_that_touch_are_in_order_and_those_that_overlap_are_not() -> None:
    one, touching, within = (
        summarize(table, NAMES, HERE)
        for table in (rows((1, 0, "A"), (2, 9, "A")), rows((3, 9, "A")), rows((4, 5, "A")))
    )
    assert disorder_of([one, touching], "t") is None
    assert disorder_of([one, within], "t") == "t: two partitions overlap in time (0 to 9 us and 5 to 5 us)"
    assert disorder_of([], "t") is None


def test_ids_that_fall_between_partitions_prove_nothing() -> None:
    one, two = summarize(rows((3, 0, "A")), NAMES, HERE), summarize(rows((2, 1, "A")), NAMES, HERE)
    assert ids_increase([two, one])
    assert not ids_increase([one, two])
    assert not ids_increase([one, one])


@pytest.mark.parametrize(
    ("kind", "plain"),
    [
        (pa.dictionary(pa.int32(), pa.string()), pa.string()),
        (pa.large_list(pa.large_string()), pa.list_(pa.string())),
        (pa.timestamp("ns", "Europe/Berlin"), pa.timestamp("us", "UTC")),
        (pa.timestamp("s"), pa.timestamp("us")),
        (pa.uint32(), pa.int64()),
        (pa.null(), pa.string()),
        (pa.float32(), pa.float32()),
    ],
)
def test_arrow_types_become_those_that_spark_knows(kind: pa.DataType, plain: pa.DataType) -> None:
    assert plain_type(kind) == plain


def test_dictionaries_are_decoded() -> None:
    table = pa.table({"q": pa.array(["x", None, "x"]).dictionary_encode(), "n": pa.array([1, 2, 3], pa.uint64())})
    assert plain_table(table).to_pydict() == {"q": ["x", None, "x"], "n": [1, 2, 3]}


def test_the_innermost_cause_of_a_java_error_is_found() -> None:
    text = "\n".join(
        (
            "An error occurred while calling o1.collect.",
            ": org.apache.spark.SparkException: Job aborted",
            "\tat a.b(C.java)",
            "Caused by: org.apache.spark.SparkException: outer",
            "\tat x",
            "Caused by: java.lang.RuntimeException: broken row 3",
        )
    )
    assert innermost_cause(text) == "broken row 3"
    assert innermost_cause("An error occurred while calling o1.x.\n: java.io.IOException: no disk") == "no disk"
    assert innermost_cause("[PATH_NOT_FOUND] no such path") == "[PATH_NOT_FOUND] no such path"
    assert innermost_cause("") == "Spark gave no reason"
