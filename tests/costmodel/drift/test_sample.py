"""Statistics from a thinned sample: shares survive, rates are those that were counted."""

from __future__ import annotations

import numpy as np
import pytest

import decopa
from costmodel.drift.sample import statistics_now, thinned
from costmodel.sampling.estimate import estimate_statistics
from costmodel.sampling.events import EventColumns
from decopa.errors import StatisticsError
from decopa.query.schema import Column, Kind

QUERY = decopa.parse("PATTERN SEQ(A a, B b) WHERE a.k = b.k WITHIN 1 s")


def events(count: int, names: tuple[str, ...] = ("A", "B"), seed: int = 1) -> EventColumns:
    rng = np.random.default_rng(seed)
    times = np.sort(rng.integers(0, 10_000_000, count))
    codes = rng.integers(0, len(names), count)
    return EventColumns(times, codes, names, {"k": rng.integers(0, 20, count)}, {"k": Column(Kind.INT)})


def test_a_thinned_sample_has_so_many_events_of_each_type_in_time_order() -> None:
    all_of_them = events(50_000)
    sample = thinned(all_of_them, 500, np.random.default_rng(1))
    assert np.bincount(sample.type_codes).tolist() == [500, 500]
    assert (np.diff(sample.ts) >= 0).all()
    assert set(zip(sample.ts.tolist(), sample.columns["k"].tolist(), strict=True)) <= set(
        zip(all_of_them.ts.tolist(), all_of_them.columns["k"].tolist(), strict=True)
    )
    whole = thinned(all_of_them, 500, np.random.default_rng(1), whole=("B",))
    assert np.bincount(whole.type_codes).tolist() == [500, int((all_of_them.type_codes == 1).sum())]
    few = events(300)
    assert thinned(few, 500, np.random.default_rng(1)) is few


def test_selectivities_survive_thinning_and_rates_are_those_counted() -> None:
    found = statistics_now(QUERY, events(50_000), {"A": 7.0, "B": 2_500.0})
    (pair,) = [one for one in (*found.alias_pairs, *found.type_pairs) if one.first != one.second]
    low, high = pair.interval
    assert low <= 0.05 <= high
    assert found.rates == {"A": 7.0, "B": 2_500.0}


def test_types_below_not_and_kl_are_not_thinned() -> None:
    query = decopa.parse("PATTERN SEQ(A a, NOT(N n), B b) WITHIN 1 s")
    stream = events(30_000, ("A", "N", "B"))
    found = statistics_now(query, stream, {"A": 1_000.0, "N": 1_000.0, "B": 1_000.0}, per_type=300)
    exact = estimate_statistics(query, stream).statistics
    (thin,), (full,) = found.negations, exact.negations
    assert thin.blocked == pytest.approx(full.blocked, abs=0.05)


def test_a_type_that_has_stopped_keeps_a_small_rate() -> None:
    assert 0 < statistics_now(QUERY, events(5_000), {"A": 0.0, "B": 100.0}).rates["A"] < 0.01


def test_events_that_cannot_show_it_are_refused() -> None:
    with pytest.raises(StatisticsError):
        statistics_now(QUERY, events(5_000, ("A", "X")), {"A": 1.0, "B": 1.0})
