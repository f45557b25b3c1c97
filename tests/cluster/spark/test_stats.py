"""Statistics measured by Spark: rates against counts by hand, selectivities against all pairs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cluster.spark.results import to_spark
from cluster.spark.stats import MIN_SLICES, SamplePlan, TypeCounts, measure_on_spark
from cluster.spark.traces import read_trace
from costmodel.sampling.estimate import Estimate, estimate_statistics
from costmodel.stats_file import from_json, to_json
from decopa.errors import StatisticsError, TraceError
from decopa.language.text.parser import parse
from decopa.traces.synthetic import PairSelectivity as Wanted
from decopa.traces.synthetic import SyntheticSpec
from shuffler.rows.events import TraceColumns
from tests.support.columns import columns_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

AB, BC = Wanted("A", "B", 0.1), Wanted("B", "C", 0.3)
TRACE = SyntheticSpec(events=3_000, rate_per_s=1_000, types=4, zipf=0.8, pairs=(AB, BC), seed=5).table()
QUERY = parse(
    f"PATTERN SEQ(A a, AND(B b, C c)) WHERE {AB.predicate('a', 'b')} AND {BC.predicate('b', 'c')} AND a.s = c.s "
    "AND a.x < 0.5 WITHIN 40 ms"
)

# PySpark leaves the socket through which rows come to be closed by the garbage collector.
quiet = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")


# ------------------------------------------------------------------ without Spark
def test_a_profile_says_peak_variation_and_share() -> None:
    # Windows with 3, 0, 0 and 1 events.
    found = TypeCounts(events=4, windows=4, peak=3, squares=10).profile(all_events=16)
    assert (found.peak_rate, found.share) == (3.0, 0.25)
    assert found.variation == pytest.approx(1.5**0.5)
    assert TypeCounts(events=8, windows=4, peak=2, squares=16).profile(8).variation == 0


def test_a_sample_keeps_its_budget_by_fewer_slices_first_then_by_thinning() -> None:
    assert SamplePlan.within(1_000, events_per_window=1, types=5) == SamplePlan(100, 1.0)
    crowded = SamplePlan.within(1_000, events_per_window=1_000, types=5)
    assert crowded.slices == MIN_SLICES
    assert crowded.share == pytest.approx(1_000 / (MIN_SLICES * 2_000 * 5))
    with pytest.raises(StatisticsError, match="at least one event"):
        SamplePlan.within(0, 1, 1)


# --------------------------------------------------------------------- with Spark
@pytest.fixture(scope="module")
def frame(spark: SparkSession) -> DataFrame:
    return to_spark(spark, TRACE).repartition(2).cache()


@pytest.fixture(scope="module")
def found(frame: DataFrame) -> Estimate:
    return measure_on_spark([QUERY], frame)[0]


@quiet
@pytest.mark.spark
def test_a_trace_within_the_budget_is_measured_exactly(found: Estimate) -> None:
    exact = estimate_statistics(QUERY, columns_of(TRACE), pairs=10**8)
    assert found.notices == exact.notices == ()
    assert found.statistics.rates == pytest.approx(exact.statistics.rates)
    assert found.statistics.filter_shares == exact.statistics.filter_shares
    assert found.statistics.type_pairs == exact.statistics.type_pairs
    # Events that share a window stand for those that are a window apart at most.
    assert found.statistics.meetings == {
        types: pytest.approx(times, rel=0.1) for types, times in exact.statistics.meetings.items()
    }
    assert found.statistics.check_fits(QUERY) == ()
    assert from_json(to_json(found.statistics)) == found.statistics


@quiet
@pytest.mark.spark
def test_types_that_share_bursts_are_seen_to_meet_more_often(spark: SparkSession) -> None:
    rng = np.random.default_rng(4)
    bursts = rng.integers(0, 20_000_000, 200)
    ts = np.sort(rng.choice(bursts, 8_000) + rng.integers(0, 1_000, 8_000))
    trace = pa.table({"id": np.arange(8_000), "ts": ts, "type": rng.choice(["A", "B"], 8_000)})
    query = parse("PATTERN SEQ(A a, B b) WITHIN 10 ms")
    exact = estimate_statistics(query, columns_of(trace)).statistics.meetings
    found = measure_on_spark([query], to_spark(spark, trace))[0].statistics.meetings
    assert exact["A", "B"] > 5
    assert found == {types: pytest.approx(times, rel=0.15) for types, times in exact.items()}


@quiet
@pytest.mark.spark
def test_groups_and_nots_are_those_that_the_whole_trace_shows(spark: SparkSession, frame: DataFrame) -> None:
    query = parse("PATTERN SEQ(A a, NOT(C n), KL(B b)) WHERE a.x < b.x AND n.x < a.x WITHIN 20 ms")
    exact = estimate_statistics(query, columns_of(TRACE), pairs=10**8).statistics
    for samples, tolerance in ((400_000, 0.01), (3_000, 0.6)):
        found = measure_on_spark([query], frame, samples=samples)[0].statistics
        for one, true in zip(found.groups, exact.groups, strict=True):
            assert one.pattern == true.pattern
            assert one.per_window == pytest.approx(true.per_window, rel=tolerance)
        for some, all_of_it in zip(found.negations, exact.negations, strict=True):
            assert some.blocked == pytest.approx(all_of_it.blocked, abs=max(0.01, 5 * some.standard_error))


@quiet
@pytest.mark.spark
def test_profiles_are_those_counted_by_hand(found: Estimate) -> None:
    times, types = TRACE.column("ts").to_numpy(), TRACE.column("type").to_pylist()
    windows = [int(time - times[0]) // 40_000 for time in times]
    counts = [0] * (windows[-1] + 1)
    for window, event_type in zip(windows, types, strict=True):
        counts[window] += event_type == "B"
    mean = sum(counts) / len(counts)
    variation = (sum((count - mean) ** 2 for count in counts) / len(counts)) ** 0.5 / mean
    profile = found.statistics.profiles["B"]
    assert profile.peak_rate == max(counts)
    assert profile.variation == pytest.approx(variation)
    assert profile.share == pytest.approx(types.count("B") / len(types))


@quiet
@pytest.mark.spark
def test_a_sample_is_near_repeatable_and_knows_its_error(frame: DataFrame) -> None:
    first, again = (measure_on_spark([QUERY], frame.repartition(n), samples=900, seed=3)[0] for n in (1, 3))
    assert first == again
    exact = estimate_statistics(QUERY, columns_of(TRACE), pairs=10**8).statistics
    assert first.statistics.rates == pytest.approx(exact.rates)
    for one, true in zip(first.statistics.type_pairs, exact.type_pairs, strict=True):
        assert one.standard_error > 0
        assert abs(one.selectivity - true.selectivity) < 5 * one.standard_error
        assert one.interval[0] < one.selectivity < one.interval[1]


@quiet
@pytest.mark.spark
def test_queries_with_several_windows_and_timestamps_are_measured_together(spark: SparkSession) -> None:
    stamped = TRACE.set_column(1, "ts", TRACE.column("ts").cast(pa.timestamp("us", "UTC")))
    short, long = (parse(f"PATTERN SEQ(A a, B b) WHERE a.ts + 1 ms < b.ts WITHIN {w}") for w in ("5 ms", "10 min"))
    found = measure_on_spark([long, short], to_spark(spark, stamped))
    for query, one in zip((long, short), found, strict=True):
        exact = estimate_statistics(query, columns_of(TRACE), pairs=10**8)
        assert one.statistics.rates == pytest.approx(exact.statistics.rates)
        assert one.notices == exact.notices
    assert (
        found[1].statistics.type_pairs
        == estimate_statistics(short, columns_of(TRACE), pairs=10**8).statistics.type_pairs
    )
    assert "rates are extrapolated" in found[0].notices[0]
    assert found[0].statistics.profiles == {}


@quiet
@pytest.mark.spark
def test_what_cannot_be_measured_is_said(spark: SparkSession, frame: DataFrame) -> None:
    with pytest.raises(
        StatisticsError, match="no event of type 'Z', so its rate cannot be measured; known: A, B, C, D"
    ):
        measure_on_spark([parse("PATTERN SEQ(A a, Z z) WITHIN 5 ms")], frame)
    with pytest.raises(TraceError, match="the data frame has no column 'price'"):
        measure_on_spark([parse("PATTERN SEQ(A a, B b) WHERE a.price < b.price WITHIN 5 ms")], frame)
    with pytest.raises(StatisticsError, match="events at two different times at least"):
        measure_on_spark([QUERY], frame.limit(1))


@quiet
@pytest.mark.spark
def test_real_traces_give_what_the_numpy_estimator_gives(spark: SparkSession, shared: Path) -> None:
    path = shared / "data" / "citibike_small.parquet"
    if not path.is_file():
        pytest.skip(f"no {path}")
    names = TraceColumns(id="event_id")
    table = pq.read_table(path)
    common = [value["values"] for value in table.column("type").value_counts().to_pylist()][:2]
    query = parse(
        f'PATTERN SEQ("{common[0]}" a, "{common[1]}" b) WHERE a.trip_duration_s < b.trip_duration_s AND a.id > 100 '
        "WITHIN 30 min"
    )
    events = columns_of(table, names)
    exact = estimate_statistics(query, events, pairs=10**8).statistics
    (found,) = measure_on_spark([query], read_trace(spark, path, names), names)
    assert found.statistics.rates == pytest.approx(exact.rates)
    for one, true in zip(found.statistics.type_pairs, exact.type_pairs, strict=True):
        assert abs(one.selectivity - true.selectivity) <= 5 * one.standard_error + 1e-9


@quiet
@pytest.mark.spark
def test_statistics_refuse_what_a_run_refuses(spark: SparkSession) -> None:
    trace = TRACE.append_column("w", pa.array([float("nan")] * TRACE.num_rows))
    query = parse("PATTERN SEQ(A a, B b) WHERE a.w < b.w WITHIN 5 ms")
    with pytest.raises(TraceError, match=r"a sample of the data frame: column 'w', row 1: NaN; pass nan_as_null"):
        measure_on_spark([query], to_spark(spark, trace))
    (found,) = measure_on_spark([query], to_spark(spark, trace), nan_as_null=True)
    assert found.statistics.type_pairs[0].selectivity < 0.01
