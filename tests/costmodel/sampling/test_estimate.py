"""Statistics from traces: exact on small ones, near on sampled ones, and what they predict of the engine."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import decopa
from actors.columnar.jit import interpreted
from costmodel.capacity import Capacity
from costmodel.formulas import ENGINE
from costmodel.rates import QueryRates
from costmodel.sampling.estimate import Estimate, estimate_statistics
from costmodel.statistics import Statistics
from costmodel.stats_file import from_json, to_json
from decopa.errors import QueryError, StatisticsError, TraceError
from decopa.language.text.parser import parse
from decopa.planning.price import price_plan
from decopa.planning.strategies.left_deep import left_deep
from decopa.traces.synthetic import PairSelectivity, SyntheticSpec
from shuffler.source.trace import TraceColumns
from tests.support.columns import columns_of
from tests.support.engine import table_of

AB = PairSelectivity("A", "B", 0.1)
BB = PairSelectivity("B", "B", 0.4)
BC = PairSelectivity("B", "C", 0.3)
SYNTHETIC = SyntheticSpec(events=8_000, rate_per_s=1_000, types=3, zipf=0.5, pairs=(AB, BB, BC), seed=5)
TRACE = SYNTHETIC.table()
FEW = table_of(
    [
        {"id": 1, "ts": 0, "type": "A", "x": 1, "s": "p", "lat": 40.70, "lon": -74.0},
        {"id": 2, "ts": 10, "type": "B", "x": 2, "s": "p", "lat": 40.80, "lon": -74.0},
        {"id": 3, "ts": 10, "type": "A", "x": 3, "s": "q", "lat": None, "lon": -74.0},
        {"id": 4, "ts": 25, "type": "B", "x": 0, "s": "q", "lat": 40.71, "lon": -74.0},
        {"id": 5, "ts": 40, "type": "B", "x": 9, "s": "r", "lat": 40.90, "lon": -74.0},
    ]
)


def measured(text: str, trace: pa.Table = FEW) -> Estimate:
    query = parse(text)
    found = estimate_statistics(query, columns_of(trace))
    assert found.statistics.check_fits(query) == ()
    assert from_json(to_json(found.statistics)) == found.statistics
    return found


def selectivities(text: str, trace: pa.Table = FEW) -> dict[tuple[str, str], float]:
    known = measured(text, trace).statistics
    return {(one.first, one.second): one.selectivity for one in (*known.type_pairs, *known.alias_pairs)}


# ------------------------------------------------------------------------ exact
def test_rates_are_events_per_window_over_the_span_of_the_trace() -> None:
    assert measured("PATTERN SEQ(A a, B b) WITHIN 20 us").statistics.rates == {"A": 1.0, "B": 1.5}


def test_pairs_in_order_are_strictly_later_and_at_most_a_window_apart() -> None:
    # A1-B2, A1-B4 and A3-B4 are in order and within 25 us; in the last one x falls.
    assert selectivities("PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 25 us") == {("A", "B"): pytest.approx(1 / 3)}


def test_pairs_without_order_may_have_either_event_first() -> None:
    # Also B2-A3, which are at the same time.
    assert selectivities("PATTERN AND(A a, B b) WHERE a.x < b.x WITHIN 25 us") == {("A", "B"): pytest.approx(1 / 4)}


def test_an_order_that_contradicts_the_alphabet_is_kept() -> None:
    assert selectivities("PATTERN SEQ(B a, A b) WHERE a.x < b.x WITHIN 100 us", _reversed(FEW)) == {
        ("A", "B"): pytest.approx(2 / 5)
    }


def test_pairs_of_types_that_stand_for_several_positions_are_measured_by_alias() -> None:
    found = selectivities("PATTERN SEQ(B b1, A a, B b2) WHERE b1.x < b2.x AND a.x < b2.x WITHIN 1 ms")
    assert found == {("B", "B"): pytest.approx(2 / 3), ("a", "b2"): pytest.approx(3 / 5)}


def test_an_event_is_no_pair_with_itself() -> None:
    assert selectivities("PATTERN AND(B b1, B b2) WHERE b1.s = b2.s WITHIN 1 ms") == {("B", "B"): 0.5 / 6}


def test_members_of_a_group_are_compared_earlier_with_later() -> None:
    assert selectivities("PATTERN KL(B b) WHERE b.x < b.x WITHIN 1 ms") == {("B", "B"): pytest.approx(2 / 3)}


def test_conditions_on_one_event_are_a_share_of_its_type_and_narrow_the_pairs() -> None:
    known = measured("PATTERN SEQ(A a, B b) WHERE a.x < b.x AND b.x > 0 WITHIN 1 ms").statistics
    assert known.filter_shares == {"b": pytest.approx(2 / 3)}
    assert known.type_pairs[0].selectivity == pytest.approx(3 / 3)
    assert known.type_pairs[0].standard_error == 0


def test_strings_and_distances_are_compared_as_the_engine_does() -> None:
    assert selectivities("PATTERN SEQ(A a, B b) WHERE a.s = b.s WITHIN 1 ms") == {("A", "B"): pytest.approx(2 / 5)}
    far = "dist_km(a.lat, a.lon, b.lat, b.lon) >= 6"  # A3 has no latitude, so it is far from nothing
    assert selectivities(f"PATTERN SEQ(A a, B b) WHERE {far} WITHIN 1 ms") == {("A", "B"): pytest.approx(2 / 5)}


def test_a_condition_that_no_pair_fulfils_counts_as_half_an_example() -> None:
    assert selectivities("PATTERN SEQ(A a, B b) WHERE a.s = 'nowhere' OR b.x > 99 WITHIN 1 ms") == {("A", "B"): 0.5 / 5}


def test_alternatives_are_measured_together() -> None:
    text = "PATTERN SEQ(A a, OR(B b, NOT_THERE n)) WHERE a.x < b.x WITHIN 1 ms"
    with pytest.raises(StatisticsError, match="no event of type 'NOT_THERE'"):
        measured(text)
    found = selectivities("PATTERN OR(SEQ(A a, B b), SEQ(B b, A a)) WHERE a.x < b.x WITHIN 1 ms")
    assert found == {("A", "B"): pytest.approx(3 / 5)}


def test_time_order_does_not_matter_in_the_table() -> None:
    text = "PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 25 us"
    assert selectivities(text, FEW.take(pa.array([4, 2, 0, 3, 1]))) == selectivities(text)


def test_times_may_be_timestamps() -> None:
    stamped = FEW.set_column(1, "ts", FEW.column("ts").cast(pa.timestamp("us")))
    text = "PATTERN SEQ(A a, B b) WHERE b.ts - a.ts < 20 WITHIN 1 ms"
    assert selectivities(text, stamped) == selectivities(text) == {("A", "B"): pytest.approx(2 / 5)}


def test_columns_may_have_other_names() -> None:
    renamed = FEW.rename_columns(["event_id", "start", "kind", "x", "s", "lat", "lon"])
    events = columns_of(renamed, TraceColumns("event_id", "start", "kind"))
    query = parse("PATTERN SEQ(A a, B b) WHERE a.x < b.x AND a.id < b.id WITHIN 25 us")
    found = estimate_statistics(query, events).statistics
    assert found.type_pairs[0].selectivity == pytest.approx(1 / 3)


# ------------------------------------------------------------------------ wrong
def test_a_trace_shorter_than_the_window_is_noticed() -> None:
    found = measured("PATTERN SEQ(A a, B b) WITHIN 80 us")
    assert found.statistics.rates == {"A": 4.0, "B": 6.0}
    assert found.notices == (
        "the trace spans 40 us, less than the window of 80 us: rates are extrapolated",
    )  # fmt: skip


def test_a_condition_on_three_events_is_noticed() -> None:
    found = measured("PATTERN SEQ(A a, B b, B c) WHERE a.x + b.x < c.x WITHIN 20 us")
    assert "on more than two events" in found.notices[0]
    assert not found.statistics.type_pairs


def test_events_that_never_meet_are_measured_from_afar_with_a_notice() -> None:
    trace = table_of([{"id": n, "ts": n * 1000, "type": kind, "x": n} for n, kind in enumerate("AABB")])
    found = measured("PATTERN SEQ(B b, A a) WHERE a.x < b.x WITHIN 10 us", trace)
    assert found.statistics.type_pairs[0].selectivity == 1.0
    assert "pairs farther apart were measured" in found.notices[0]


def test_a_single_event_for_two_positions_cannot_be_measured() -> None:
    trace = table_of([{"id": 1, "ts": 0, "type": "A", "x": 1}, {"id": 2, "ts": 9, "type": "B", "x": 1}])
    with pytest.raises(StatisticsError, match="'A a1' and 'A a2', so their selectivity cannot be measured"):
        measured("PATTERN AND(A a1, A a2) WHERE a1.x < a2.x WITHIN 10 us", trace)


@pytest.mark.parametrize("rows", [0, 1])
def test_a_trace_without_duration_has_no_rates(rows: int) -> None:
    with pytest.raises(StatisticsError, match="rates cannot be measured"):
        measured("PATTERN SEQ(A a, B b) WITHIN 10 us", FEW.slice(0, rows))


def test_unknown_columns_and_attributes_are_named() -> None:
    with pytest.raises(QueryError, match="unknown attribute 'z'"):
        measured("PATTERN SEQ(A a, B b) WHERE a.z < b.x WITHIN 10 us")
    with pytest.raises(TraceError, match=r"no column 'id'; its columns are ts, type.*--id"):
        measured("PATTERN SEQ(A a, B b) WITHIN 10 us", FEW.drop_columns(["id"]))
    with pytest.raises(TraceError, match="holds bool, not times"):
        measured("PATTERN SEQ(A a, B b) WITHIN 10 us", FEW.set_column(1, "ts", pa.array([True] * FEW.num_rows)))
    with pytest.raises(StatisticsError, match="at least one pair"):
        estimate_statistics(parse("PATTERN A a WITHIN 1 s"), columns_of(FEW), pairs=0)


# ---------------------------------------------------------------------- sampled
@pytest.mark.parametrize("operator", ["SEQ", "AND"])
def test_sampled_selectivities_are_within_their_standard_error(operator: str) -> None:
    query = parse(f"PATTERN {operator}(A a, B b) WHERE {AB.predicate('a', 'b')} WITHIN 500 ms")
    every = estimate_statistics(query, columns_of(TRACE), pairs=10**8).statistics.type_pairs[0]
    assert every.standard_error == 0
    off = []
    for seed in range(20):
        sampled = estimate_statistics(query, columns_of(TRACE), pairs=2_000, seed=seed).statistics.type_pairs[0]
        assert sampled.standard_error == pytest.approx(math.sqrt(0.1 * 0.9 / 2_000), rel=0.2)
        off.append((sampled.selectivity - every.selectivity) / sampled.standard_error)
    assert max(map(abs, off)) < 4
    assert 0.5 < float(np.std(off)) < 1.6


def test_the_same_seed_gives_the_same_statistics() -> None:
    query = parse(f"PATTERN SEQ(A a, KL(B b)) WHERE {AB.predicate('a', 'b')} AND b.x < b.x WITHIN 100 ms")
    first, again, other = (estimate_statistics(query, columns_of(TRACE), pairs=500, seed=seed) for seed in (1, 1, 2))
    assert first == again != other


# ----------------------------------------------------------------------- engine
@pytest.mark.parametrize(
    "pattern", ["SEQ(A a, B b)", "AND(A a, B b)", "SEQ(A a, B b, C c)", "AND(A a, B b, C c)", "SEQ(A a, AND(B b, C c))"]
)
def test_predicted_comparisons_and_matches_are_those_that_the_engine_counts(pattern: str) -> None:
    window_us = 30_000
    conditions = [AB.predicate("a", "b")] + ([BC.predicate("b", "c")] if "C c" in pattern else [])
    query = parse(f"PATTERN {pattern} WHERE {' AND '.join(conditions)} WITHIN {window_us} us")
    rates = QueryRates(query, estimate_statistics(query, columns_of(TRACE)).statistics, ENGINE)
    with interpreted():
        result = decopa.run_detailed(query, TRACE)
    times = TRACE.column("ts").to_numpy()
    windows = (times[-1] - times[0]) / window_us
    joined = list(itertools.accumulate(query.aliases))
    predicted = [rates.candidates(*inputs).at() for inputs in zip(joined, query.aliases[1:], strict=False)]
    assert [report.comparisons / windows for report in result.operators] == pytest.approx(predicted, rel=0.07)
    assert result.matches.num_rows / windows == pytest.approx(rates.rate(query.aliases), rel=0.1)


def _reversed(table: pa.Table) -> pa.Table:
    """Time runs backwards."""
    times = table.column("ts")
    return table.set_column(1, "ts", pa.array([40 - time.as_py() for time in times]))


# ------------------------------------------------------------------------ bursts


def bursts(shared: bool) -> pa.Table:
    """Events of A, B and C in every tenth of 200 windows only: all in the same ones, or A apart from the others."""
    rng = np.random.default_rng(7)
    rows = []
    for place, event_type in enumerate("ABC"):
        burst = rng.integers(0, 20, 2_000) * 100_000
        late = 0 if shared or event_type != "A" else 50_000
        rows += [(int(ts), event_type) for ts in burst + rng.integers(0, 10_000, 2_000) + late + place]
    rows.sort()
    return table_of([{"id": at, "ts": ts, "type": kind, "x": 0} for at, (ts, kind) in enumerate(rows)])


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("text", ["PATTERN SEQ(A a, B b) WITHIN 10 ms", "PATTERN AND(B b, C c) WITHIN 10 ms"])
def test_pairs_that_meet_in_bursts_are_foreseen(text: str, shared: bool) -> None:
    query = parse(text)
    known = measured(text, bursts(shared)).statistics
    with interpreted():
        result = decopa.run_detailed(
            query, bursts(shared), strategy="left-deep", planning=decopa.Planning(statistics=[known])
        )
    expected = QueryRates(query, known, ENGINE).rate(query.aliases) * result.span_us / query.window_us
    assert expected == pytest.approx(result.matches.num_rows, rel=0.15, abs=0.05 * len(bursts(shared)) * 20)
    even = QueryRates(query, replace(known, meetings={}), ENGINE).rate(query.aliases)
    assert not 0.3 < even * result.span_us / query.window_us / max(1, result.matches.num_rows) < 3


def test_a_burst_that_three_types_share_counts_for_each_further_type_once() -> None:
    query = parse("PATTERN SEQ(A a, B b, C c) WITHIN 10 ms")
    known = replace(measured(str(query), bursts(shared=True)).statistics, sub_queries=())
    even, uneven = (QueryRates(query, one, ENGINE) for one in (replace(known, meetings={}), known))
    times = uneven.rate(["a", "b", "c"]) / even.rate(["a", "b", "c"])
    pairs = sorted(known.meetings[pair] for pair in (("A", "B"), ("A", "C"), ("B", "C")))
    assert times == pytest.approx(pairs[-1] * pairs[-2])
    compared = uneven.candidates(["a", "b"], ["c"]).at() / even.candidates(["a", "b"], ["c"]).at()
    assert compared == pytest.approx(times)


def test_even_rates_meet_as_often_as_expected() -> None:
    known = measured("PATTERN SEQ(A a, B b, C c) WITHIN 50 ms", TRACE).statistics
    assert known.meetings.keys() == set(itertools.permutations("ABC", 2))
    assert list(known.meetings.values()) == pytest.approx([1] * 6, abs=0.05)


def test_few_pairs_say_little_about_how_often_types_meet() -> None:
    known = measured("PATTERN SEQ(A a, B b) WITHIN 25 us").statistics
    assert list(known.meetings.values()) == pytest.approx([1, 1], abs=0.25)


def test_an_answer_follows_its_request_but_not_the_other_way_round() -> None:
    asked = np.sort(np.random.default_rng(8).integers(0, 10_000_000, 300))
    rows = sorted([(int(ts), "A") for ts in asked] + [(int(ts) + 1_000, "B") for ts in asked])
    trace = table_of([{"id": at, "ts": ts, "type": kind, "x": 0} for at, (ts, kind) in enumerate(rows)])
    for text in ("PATTERN SEQ(A a, B b) WITHIN 10 ms", "PATTERN SEQ(B b, A a) WITHIN 10 ms"):
        query, known = parse(text), measured(text, trace).statistics
        with interpreted():
            result = decopa.run_detailed(
                query, trace, strategy="left-deep", planning=decopa.Planning(statistics=[known])
            )
        expected = QueryRates(query, known, ENGINE).rate(query.aliases) * result.span_us / query.window_us
        assert expected == pytest.approx(result.matches.num_rows, rel=0.4)


def test_types_that_avoid_each_other_do_so_whoever_else_is_there() -> None:
    query = parse("PATTERN AND(A a, B b, C c) WITHIN 10 ms")
    pairs = {("A", "B"): 0.001, ("B", "A"): 0.001, ("A", "C"): 1.2, ("C", "A"): 1.2}
    known = Statistics(10_000, {"A": 10, "B": 10, "C": 10}, meetings=pairs)
    even = QueryRates(query, replace(known, meetings={}), ENGINE)
    assert QueryRates(query, known, ENGINE).rate("abc") / even.rate("abc") == pytest.approx(0.0012)


@pytest.mark.parametrize("times", [1.0, 10.0, 100.0])
def test_plans_are_priced_with_what_meets(times: float) -> None:
    query = parse("PATTERN SEQ(A a, B b, C c) WITHIN 10 ms")
    known = Statistics(10_000, {"A": 10, "B": 10, "C": 10}, meetings={("A", "B"): times})
    plan = left_deep(query)
    compared = {one.operator.name: one.comparisons for one in price_plan(plan, known, Capacity(1e9, 1e9)).operators}
    even = price_plan(plan, replace(known, meetings={("A", "B"): 1.0}), Capacity(1e9, 1e9)).operators
    for one in even:
        assert compared[one.operator.name] == pytest.approx(times * one.comparisons)


def test_events_at_the_same_time_meet_in_any_order_but_not_in_a_sequence() -> None:
    rows = [(second * 1_000_000, kind) for second in range(2_000) for kind in "AB"]
    trace = table_of([{"id": at, "ts": ts, "type": kind, "x": 0} for at, (ts, kind) in enumerate(rows)])
    for text, matches in (("PATTERN AND(A a, B b) WITHIN 500 ms", 2_000), ("PATTERN SEQ(A a, B b) WITHIN 500 ms", 0)):
        query, known = parse(text), measured(text, trace).statistics
        expected = QueryRates(query, known, ENGINE).rate(query.aliases) * 2_000 / 0.5
        assert expected == pytest.approx(matches, rel=0.05, abs=30)


@pytest.mark.parametrize("sides", [("ab", "cd"), ("ab", "bcd"), ("abc", "bcd")])
def test_bursts_never_make_a_join_cheaper(sides: tuple[str, str]) -> None:
    query = parse("PATTERN SEQ(A a, B b, C c, D d) WITHIN 10 ms")
    pairs = dict.fromkeys(itertools.permutations("ABCD", 2), 10.0)
    known = Statistics(10_000, dict.fromkeys("ABCD", 100.0), meetings=pairs)
    met, even = (QueryRates(query, one, ENGINE).candidates(*sides).at() for one in (known, replace(known, meetings={})))
    assert met >= even * (1 - 1e-9)
