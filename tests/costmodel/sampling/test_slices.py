"""Selectivities from drawn windows: all windows give what the whole trace gives, some give nearly that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from costmodel.sampling.estimate import Estimate, estimate_statistics
from costmodel.sampling.slices import SlicedEvents, SliceSample, between_slices, estimate_on_slices
from costmodel.statistics import PairSelectivity, Statistics
from decopa.errors import StatisticsError
from decopa.language.text.parser import parse
from decopa.traces.synthetic import PairSelectivity as Wanted
from decopa.traces.synthetic import SyntheticSpec
from tests.support.columns import columns_of

AB, BB, BC = Wanted("A", "B", 0.1), Wanted("B", "B", 0.4), Wanted("B", "C", 0.3)
TRACE = SyntheticSpec(events=6_000, rate_per_s=1_000, types=3, zipf=0.5, pairs=(AB, BB, BC), seed=5).table()


RATES = {"A": 1.0, "B": 1.0, "C": 1.0}


def sliced(trace: pa.Table, window_us: int, chosen: Sequence[int] | None = None) -> SlicedEvents:
    """The slices that are chosen, for all types; all of them if none is."""
    events = columns_of(trace)
    window = (events.ts - events.ts[0]) // window_us
    numbers = np.arange(int(window[-1]) + 1) if chosen is None else np.array(chosen)
    rows = np.concatenate([np.flatnonzero((window == number) | (window == number + 1)) for number in numbers])
    slice_of = np.concatenate(
        [np.full(np.count_nonzero((window == number) | (window == number + 1)), number) for number in numbers]
    )
    some = replace(
        events,
        ts=events.ts[rows],
        type_codes=events.type_codes[rows],
        columns={name: values[rows] for name, values in events.columns.items()},
    )
    sample = SliceSample(numbers, chosen is None)
    return SlicedEvents.of(
        some,
        slice_of,
        origin_us=int(events.ts[0]),
        window_us=window_us,
        drawn=dict.fromkeys(events.type_names, sample),
    )


def measured(text: str, chosen: Sequence[int] | None = None, pairs: int = 10**8) -> tuple[Statistics, Statistics]:
    """From slices, and from the whole trace."""
    query = parse(text)
    whole = estimate_statistics(query, columns_of(TRACE), pairs=10**8).statistics
    some, span_us = sliced(TRACE, query.window_us, chosen), pc.max(TRACE["ts"]).as_py() - pc.min(TRACE["ts"]).as_py()
    found: Estimate = estimate_on_slices(query, some, whole.rates, span_us=span_us, pairs=pairs)
    assert found.notices == ()
    return found.statistics, whole


@pytest.mark.parametrize(
    "text",
    [
        f"PATTERN SEQ(A a, B b, C c) WHERE {AB.predicate('a', 'b')} AND {BC.predicate('b', 'c')} AND a.x < 0.3 "
        "WITHIN 40 ms",
        "PATTERN AND(A a, B b) WHERE a.s = b.s WITHIN 40 ms",
        f"PATTERN SEQ(A a, KL(B b)) WHERE {AB.predicate('a', 'b')} AND b.x < b.x WITHIN 20 ms",
        "PATTERN SEQ(A a, B b) WHERE a.ts + 5 ms < b.ts AND a.ts > 1 s AND a.x < b.x WITHIN 30 ms",
        "PATTERN SEQ(B b1, B b2) WHERE b1.x < b2.x WITHIN 17 ms",
        "PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 1 min",
    ],
)
def test_all_slices_give_the_same_as_the_whole_trace(text: str) -> None:
    found, whole = measured(text)
    for one, other in zip(found.groups, whole.groups, strict=True):  # conditions between members make them random walks
        assert one.per_window == pytest.approx(other.per_window, abs=4 * (one.standard_error + other.standard_error))
    assert replace(found, groups=()) == replace(whole, meetings={}, groups=())  # meetings are counted elsewhere


def test_some_slices_are_within_the_error_that_they_tell() -> None:
    # The share of such pairs differs from window to window, since x drifts with time.
    drifting = TRACE.set_column(3, "x", pc.add(TRACE.column("x"), pc.divide(TRACE.column("ts"), 3e6)))
    query = parse("PATTERN SEQ(A a, B b) WHERE a.x + b.x > 2 WITHIN 50 ms")
    (exact,) = estimate_statistics(query, columns_of(drifting), pairs=10**8).statistics.type_pairs
    rng, off, naive = np.random.default_rng(1), [], []
    for seed in range(40):
        chosen = sorted(rng.choice(119, 24, replace=False).tolist())
        found = estimate_on_slices(
            query, sliced(drifting, 50_000, chosen), RATES, span_us=6_000_000, pairs=10**8, seed=seed
        )
        (one,) = found.statistics.type_pairs
        off.append((one.selectivity - exact.selectivity) / one.standard_error)
        naive.append(one.standard_error)
    assert abs(float(np.mean(off))) < 0.5
    assert 0.5 < float(np.std(off)) < 1.6
    # Counting pairs as independent would have claimed far less.
    assert min(naive) > 0.02


def test_pairs_drawn_from_slices_are_near_what_all_pairs_give() -> None:
    found, whole = measured(
        f"PATTERN SEQ(A a, B b) WHERE {AB.predicate('a', 'b')} WITHIN 100 ms", range(0, 60, 2), 3_000
    )
    (one,), (exact,) = found.type_pairs, whole.type_pairs
    assert 0 < one.standard_error < 0.03
    assert abs(one.selectivity - exact.selectivity) < 4 * one.standard_error


def test_filter_shares_count_every_event_once() -> None:
    found, whole = measured("PATTERN SEQ(A a, B b) WHERE a.x < 0.3 AND a.x < b.x WITHIN 50 ms", range(0, 119, 3))
    assert found.filter_shares["a"] == pytest.approx(whole.filter_shares["a"], abs=0.04)


def test_a_pair_is_measured_in_the_slices_of_the_rarer_type() -> None:
    trace = pa.table(
        {
            "id": range(12),
            "ts": [0, 1, 10, 11, 20, 21, 30, 31, 40, 41, 42, 49],
            "type": ["A"] * 10 + ["B", "A"],
            "x": range(12),
        }
    )
    query = parse("PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 10 us")
    everything = sliced(trace, 10)
    for_a, for_b = SliceSample(np.array([0, 1]), False), SliceSample(np.array([3, 4]), True)
    some = replace(everything, drawn={"A": for_a, "B": for_b})
    found = estimate_on_slices(query, some, {"A": 2.2, "B": 0.2}, span_us=49)
    assert found.statistics.type_pairs == (PairSelectivity("A", "B", 1.0),)
    assert found.notices == ()


def test_events_that_never_meet_are_measured_from_afar() -> None:
    trace = pa.table({"id": range(4), "ts": [0, 1000, 2000, 3000], "type": list("AABB"), "x": range(4)})
    query = parse("PATTERN SEQ(B b, A a) WHERE a.x < b.x WITHIN 10 us")
    found = estimate_on_slices(query, sliced(trace, 10), {"A": 1.0, "B": 1.0}, span_us=3000)
    assert found.statistics.type_pairs[0].selectivity == 1.0
    assert "pairs farther apart were measured" in found.notices[0]
    query = parse("PATTERN AND(A a1, A a2) WHERE a1.x < a2.x WITHIN 10 us")
    with pytest.raises(StatisticsError, match="no two events for 'A a1' and 'A a2' are in the sample"):
        estimate_on_slices(query, sliced(trace.slice(1), 10), {"A": 1.0}, span_us=2000)


def test_the_error_between_slices_is_that_of_a_ratio() -> None:
    same = between_slices(np.array([0, 0, 1, 1]), np.array([True, False, True, False]), 2)
    assert same == 0
    # One slice with all, one without any: shares 1 and 0, mean 0.5, standard deviation of the mean 0.5.
    assert between_slices(np.array([7, 7, 9, 9]), np.array([True, True, False, False]), 2) == pytest.approx(0.5)
    assert between_slices(np.array([7, 7]), np.array([True, False]), 1) == 0
