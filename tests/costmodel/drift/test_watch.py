"""The watch over a run's counters: quiet on stationary input, quick on changes, exact about what has changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pytest

from costmodel.drift.readings import Counts, Reading
from costmodel.drift.watch import Suspicion, Watch, WatchRules
from decopa.errors import StatisticsError

WINDOW_US = 5_000_000
JOIN = (0, "o3")
FEEDING = {JOIN: ((0, "a"), (0, "b"))}


def poisson_looks(
    rng: np.random.Generator, phases: Sequence[tuple[int, Mapping[str, float]]], *, speed: float = 1.0
) -> Iterator[Reading]:
    """Looks a second apart at random events; `phases` are (seconds, events per second by type). The join of A and B
    compares every B with the As of the last window and finds one of a hundred pairs."""
    totals: dict[str, int] = {}
    counts, a_times, now_us = Counts(), np.empty(0), 0.0
    yield Reading(0.0, 0, {})
    look = 0
    for seconds, rates in phases:
        for _ in range(seconds):
            look += 1
            span_us = speed * 1e6
            drawn = {name: int(rng.poisson(rate * speed)) for name, rate in rates.items()}
            a_new = np.sort(now_us + rng.random(drawn.get("A", 0)) * span_us)
            b_new = np.sort(now_us + rng.random(drawn.get("B", 0)) * span_us)
            a_times = np.concatenate([a_times, a_new])
            pairs = int((np.searchsorted(a_times, b_new) - np.searchsorted(a_times, b_new - WINDOW_US)).sum())
            matches = int(rng.binomial(pairs, 0.01))
            counts += Counts(len(a_new) + len(b_new), pairs, matches)
            now_us += span_us
            a_times = a_times[a_times > now_us - WINDOW_US]
            totals = {name: totals.get(name, 0) + count for name, count in drawn.items()}
            leaves = {(0, "a"): totals.get("A", 0), (0, "b"): totals.get("B", 0)}
            yield Reading(float(look), round(now_us), dict(totals), leaves, {JOIN: counts})


def watched(readings: Iterator[Reading], rules: WatchRules | None = None) -> list[Suspicion]:
    watch = Watch(WINDOW_US, FEEDING, rules)
    return [found for reading in readings if (found := watch.look(reading)) is not None]


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("rates", [{"A": 500, "B": 700}, {"A": 6, "B": 300}, {"A": 0.3, "B": 2.0}])
def test_stationary_random_events_raise_no_suspicion(seed: int, rates: dict[str, float]) -> None:
    assert watched(poisson_looks(np.random.default_rng(seed), [(500, rates)])) == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_hours_of_stationary_random_events_raise_no_suspicion(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rates = {"A": float(10 ** rng.uniform(-1, 2.5)), "B": float(10 ** rng.uniform(-1, 2.5))}
    assert watched(poisson_looks(rng, [(10_000, rates)])) == []


@pytest.mark.parametrize("factor", [2.0, 0.5])
def test_a_rate_that_doubles_or_halves_is_found_within_three_looks(factor: float) -> None:
    for seed in range(5):
        before, after = {"A": 300, "B": 700}, {"A": 300, "B": 700 * factor}
        found = watched(poisson_looks(np.random.default_rng(seed), [(60, before), (20, after)]))
        assert found
        assert 61 <= found[0].at_s <= 63
        assert found[0].findings[0].what == "rate of B"
        assert found[0].findings[0].deviation.ratio == pytest.approx(factor, rel=0.15)
        assert found[0].rates["B"] == pytest.approx(5 * 700 * factor, rel=0.15)
        assert found[0].rates["A"] == pytest.approx(5 * 300, rel=0.15)


def test_rates_that_change_together_are_told_together() -> None:
    """C falls a little after A has risen, so that its own alarm comes a look later."""
    for seed in range(5):
        rng = np.random.default_rng(seed)
        before = {"A": 30.0, "B": 70.0, "C": 200.0}
        found = watched(
            poisson_looks(rng, [(60, before), (1, {**before, "A": 300.0}), (20, {"A": 300.0, "B": 70.0, "C": 2.0})])
        )
        assert found[0].at_s == 62.0 and "rate of C" not in [one.what for one in found[0].findings]
        assert found[0].rates["A"] == pytest.approx(5 * 300, rel=0.2)
        assert found[0].rates["B"] == pytest.approx(5 * 70, rel=0.2)
        assert found[0].rates["C"] < 5 * 8


def test_a_small_change_is_found_once_enough_events_have_come() -> None:
    found = watched(poisson_looks(np.random.default_rng(1), [(100, {"A": 5, "B": 20}), (200, {"A": 5, "B": 30})]))
    assert found
    assert found[0].at_s > 103
    assert found[0].findings[0].what in ("rate of B", "comparisons per row of o3")


def test_a_change_below_the_ratio_is_no_drift() -> None:
    assert (
        watched(poisson_looks(np.random.default_rng(1), [(60, {"A": 900, "B": 900}), (200, {"A": 900, "B": 1_050})]))
        == []
    )


def test_a_faster_replay_is_load_and_no_drift() -> None:
    rng = np.random.default_rng(1)
    slow = list(poisson_looks(rng, [(60, {"A": 100, "B": 100})]))
    last = slow[-1]
    fast = [
        Reading(
            60 + one.at_s,
            last.ts_us + one.ts_us,
            {name: last.types[name] + count for name, count in one.types.items()},
        )
        for one in poisson_looks(rng, [(60, {"A": 100, "B": 100})], speed=7.0)
        if one.at_s
    ]
    assert watched(iter([*slow, *fast])) == []


def test_selectivities_that_change_alone_are_found_by_the_operators_matches() -> None:
    readings = []
    for reading in poisson_looks(np.random.default_rng(2), [(120, {"A": 100, "B": 200})]):
        if reading.operators:
            counts = reading.operators[JOIN]
            extra = max(0, reading.at_s - 60) * 1_000  # matches on top, with the same rates
            more = Counts(counts.ingested, counts.comparisons, counts.emitted + int(extra))
            readings.append(Reading(reading.at_s, reading.ts_us, reading.types, reading.leaves, {JOIN: more}))
    found = watched(iter(readings))
    assert found
    assert found[0].findings[0].what == "matches per row of o3"
    assert found[0].at_s <= 70


def test_filling_stores_at_the_start_are_no_drift() -> None:
    watch = Watch(60_000_000, FEEDING)
    found = [watch.look(reading) for reading in poisson_looks(np.random.default_rng(3), [(400, {"A": 50, "B": 50})])]
    assert found == [None] * len(found)


def test_after_a_new_reference_the_same_rates_are_usual() -> None:
    watch, seen = Watch(WINDOW_US, FEEDING), []
    for reading in poisson_looks(np.random.default_rng(4), [(30, {"A": 200, "B": 200}), (300, {"A": 200, "B": 600})]):
        found = watch.look(reading)
        if found is not None:
            seen.append(found.at_s)
            watch.rebase()
    assert 1 <= len(seen) <= 3, seen
    assert max(seen) <= 60


def test_a_new_type_is_a_change() -> None:
    quiet, loud = {"A": 100.0, "B": 100.0}, {"A": 100.0, "B": 100.0, "C": 50.0}
    found = watched(poisson_looks(np.random.default_rng(5), [(60, quiet), (60, loud)]))
    assert found
    assert found[0].findings[0].what == "rate of C"


def test_an_overload_is_urgent_at_once() -> None:
    watch = Watch(WINDOW_US, FEEDING)
    seen = []
    for look in range(40):
        over = max(0, look - 20)
        found = watch.look(
            Reading(float(look), look * 1_000_000, {"A": 100 * look}, busy_s={"u": 0.5 * look + 0.5 * over},
                    delay_s=0.01 + 0.3 * over)
        )  # fmt: skip
        if found is not None and found.urgent:
            seen.append(look)
    assert seen[0] <= 25


def test_a_busy_unit_that_keeps_up_is_no_overload() -> None:
    watch = Watch(WINDOW_US, FEEDING)
    readings = [Reading(float(n), n * 1_000_000, {"A": n}, busy_s={"u": 0.99 * n}, delay_s=0.1) for n in range(40)]
    assert all(watch.look(reading) is None for reading in readings)


def test_rules_that_make_no_sense_are_refused() -> None:
    with pytest.raises(StatisticsError, match="above 1"):
        WatchRules(ratio=1.0)
    with pytest.raises(StatisticsError, match="at least one violation"):
        WatchRules(patience=0)
