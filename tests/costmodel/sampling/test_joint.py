"""What is measured of whole sub-queries: exact where all is looked at, within the error that is told elsewhere."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.formulas import ENGINE
from costmodel.rates import QueryRates
from costmodel.sampling.blocking import measure_negation
from costmodel.sampling.estimate import estimate_statistics
from costmodel.sampling.groups import count_groups
from costmodel.sampling.joins import JoinSpace, position_sets
from costmodel.stats_file import from_json, to_json
from decopa.language.text.parser import parse
from decopa.query.binding import bind
from decopa.query.query import Query
from tests.support.brute_force import brute_force, brute_force_by_window
from tests.support.columns import columns_of

SEED = 3


def stream(count: int, span: int, kinds: str = "ABC", seed: int = SEED) -> list[dict[str, Any]]:
    rng = np.random.default_rng(seed)
    times = np.sort(rng.integers(0, span, count))
    return [
        {
            "id": at,
            "ts": int(ts),
            "type": kinds[rng.integers(0, len(kinds))],
            "x": float(np.round(rng.random(), 2)),
            "k": int(rng.integers(0, 3)),
        }
        for at, ts in enumerate(times)
    ]


def space_of(query: Query, events: list[dict[str, Any]], draws: int = 10**7, seed: int = SEED) -> JoinSpace:
    columns = columns_of(pa.Table.from_pylist(events))
    (branch,) = query.branches
    rows = {position.alias: columns.rows_of(position.type) for position in branch.positions}
    everything = np.ones(len(columns), dtype=np.bool_)
    rng = np.random.default_rng(seed)
    return JoinSpace(bind(branch, columns.schema), columns, columns.ts, rows, rows.__getitem__, everything, rng, draws)


TEXTS = [
    "PATTERN SEQ(A a, B b, C c) WHERE a.x < c.x AND a.x + b.x < 1.2 WITHIN 9 us",
    "PATTERN AND(A a, SEQ(B b, C c)) WHERE a.x < b.x AND b.k = c.k WITHIN 12 us",
    "PATTERN AND(A a1, A a2, B b) WHERE a1.x < a2.x AND a1.x + a2.x < b.x WITHIN 9 us",
]


@pytest.mark.parametrize("text", TEXTS)
def test_a_join_that_looks_at_everything_counts_the_matches(text: str) -> None:
    query, events = parse(text), stream(40, 60)
    space = space_of(query, events)
    for aliases in position_sets(query.aliases, least=1, most=3):
        found = space.matches(aliases)
        assert found.complete and found.relative_error == 0
        assert found.total == len(brute_force_by_window(query.project(aliases), events))


def test_a_sampled_join_is_within_the_error_that_it_tells() -> None:
    query, events = parse(TEXTS[1]), stream(3_000, 6_000)
    exact = space_of(query, events).matches("abc").total
    off = []
    for seed in range(60):
        found = space_of(query, events, draws=500, seed=seed).matches("abc")
        assert not found.complete
        off.append((found.total - exact) / (found.total * found.relative_error))
    assert np.mean(np.abs(off) < 1.96) >= 0.88
    assert abs(np.mean(off)) < 0.6


@pytest.mark.parametrize(
    ("text", "partners"),
    [
        ("PATTERN AND(A a, KL(B b), C c) WHERE a.x < b.x AND b.x + c.x < 1.4 WITHIN 9 us", ("", "a", "c", "ac")),
        ("PATTERN SEQ(A a, KL(B b), C c) WHERE a.x < b.x WITHIN 12 us", ("", "a", "c", "ac")),
        ("PATTERN SEQ(KL(B b), A a) WITHIN 9 us", ("", "a")),
        ("PATTERN AND(A a, KL(B b){2,3}) WITHIN 9 us", ("", "a")),
        ("PATTERN SEQ(KL(B b){2,}, A a) WHERE a.x < b.x WITHIN 12 us", ("", "a")),
        ("PATTERN AND(A a, KL(B b){1,2}) WHERE a.x < b.x WITHIN 9 us", ("", "a")),
    ],
)
def test_groups_limited_by_the_window_are_counted_exactly(text: str, partners: tuple[str, ...]) -> None:
    query, events = parse(text), stream(45, 60)
    space = space_of(query, events)
    for others in partners:
        found = count_groups(space, "b", space.matches(others) if others else None)
        assert found.groups == pytest.approx(len(brute_force_by_window(query.project({"b", *others}), events)))
        assert found.standard_error == 0


@pytest.mark.parametrize(
    "text",
    [
        "PATTERN AND(A a, KL(B b)) WHERE a.x < b.x AND abs(b.x - b.x) > 0.2 WITHIN 14 us",
        "PATTERN AND(A a, KL(B b){2,3}) WHERE a.x < b.x AND abs(b.x - b.x) > 0.1 WITHIN 14 us",
        "PATTERN AND(A a, KL(B b)) WHERE a.x < b.x AND b.x > PREV(b.x) WITHIN 14 us",
    ],
)
def test_groups_whose_members_must_fit_each_other_are_within_the_error(text: str) -> None:
    query = parse(text)
    events = stream(34, 70, "ABB")
    for others in ("", "a"):
        exact = len(brute_force_by_window(query.project({"b", *others}), events))
        found = []
        for seed in range(20):
            space = space_of(query, events, seed=seed)
            found.append(count_groups(space, "b", space.matches(others) if others else None))
        assert np.mean([one.groups for one in found]) == pytest.approx(exact, rel=0.1)
        assert sum(abs(one.groups - exact) <= 1.96 * one.standard_error for one in found) >= 17


def test_runs_are_counted() -> None:
    query, events = parse("PATTERN ITER(B b) WITHIN 9 us"), stream(60, 400)
    found = estimate_statistics(query, columns_of(pa.Table.from_pylist(events))).statistics
    windows = (events[-1]["ts"] - events[0]["ts"]) / 9
    exact = len(brute_force_by_window(query, events))
    assert QueryRates(query, found, ENGINE).rate("b") * windows == pytest.approx(exact, rel=0.1)  # ties tell more


def test_busy_windows_are_not_missed_when_matches_are_drawn() -> None:
    """Nearly all groups are in one window of many; the mean rate knows nothing of it."""
    events = [{"id": n, "ts": 100 * n, "type": "AB"[n % 2], "x": 0.0, "k": 0} for n in range(20_000)]
    busy = [{"id": 10**6 + n, "ts": 50_000 + n, "type": "B", "x": 0.0, "k": 0} for n in range(15)]
    events = sorted(events + busy, key=lambda event: event["ts"])
    query = parse("PATTERN AND(A a, KL(B b)) WITHIN 150 us")
    found = estimate_statistics(query, columns_of(pa.Table.from_pylist(events))).statistics
    rates = QueryRates(query, found, ENGINE)
    windows = (events[-1]["ts"] - events[0]["ts"]) / 150
    exact = count_groups(space_of(query, events), "b", space_of(query, events).matches("a")).groups
    assert exact > 2**15
    assert rates.rate("ab") * windows == pytest.approx(exact, rel=0.05)
    even = QueryRates(
        query, estimate_statistics(query, columns_of(pa.Table.from_pylist(events[::2]))).statistics, ENGINE
    )
    assert even.rate("ab") < rates.rate("ab")


@pytest.mark.parametrize(
    "text",
    [
        "PATTERN SEQ(A a, NOT(B b), C c) WHERE b.k = a.k WITHIN 9 us",
        "PATTERN SEQ(A a, C c, NOT(B b)) WHERE b.x > a.x WITHIN 6 us",
        "PATTERN SEQ(NOT(B b), A a, C c) WITHIN 5 us",
        "PATTERN SEQ(A a, NOT(SEQ(B b, C d)), C c) WHERE b.x < d.x WITHIN 12 us",
    ],
)
def test_the_share_that_a_not_blocks_is_counted(text: str) -> None:
    query, events = parse(text), stream(150, 260)
    space = space_of(query, events)
    (negation,) = query.negations
    positive = space.matches("ac")
    found = measure_negation(space, negation, positive)
    assert found is not None and found.standard_error == 0
    left = len(brute_force_by_window(query, events))
    assert (1 - found.share) * positive.total == pytest.approx(left)
    assert 0 < left < positive.total
    assert (found.waiting > 0) == (not negation.before)


def test_measured_statistics_predict_the_matches_of_dependent_conditions() -> None:
    """a.x < b.x, b.x < c.x and a.x < c.x: the third follows from the others, which pairs do not know."""
    query = parse("PATTERN AND(A a, B b, C c) WHERE a.x < b.x AND b.x < c.x AND a.x < c.x WITHIN 40 us")
    events = stream(400, 2_000)
    found = estimate_statistics(query, columns_of(pa.Table.from_pylist(events))).statistics
    (known,) = found.sub_queries
    assert known.selectivity == pytest.approx(1 / 6, rel=0.1)  # not 1/8
    expected = QueryRates(query, found, ENGINE).rate("abc") * (events[-1]["ts"] - events[0]["ts"]) / 40
    assert expected == pytest.approx(len(brute_force_by_window(query, events)), rel=0.05)


def test_what_was_measured_is_the_same_after_a_file() -> None:
    query = parse("PATTERN SEQ(A a, KL(B b), NOT(C d), C c) WHERE a.x < b.x AND d.k = a.k AND a.k = c.k WITHIN 20 us")
    found = estimate_statistics(query, columns_of(pa.Table.from_pylist(stream(300, 900)))).statistics
    assert found.sub_queries and found.groups and found.negations
    assert from_json(to_json(found), "the statistics") == found


@given(st.integers(0, 10**6))
def test_joins_of_random_small_streams_count_what_the_referee_finds(seed: int) -> None:
    query, events = parse(TEXTS[seed % len(TEXTS)]), stream(14, 30, seed=seed)
    space = space_of(query, events)
    if all(len(rows) for rows in space.rows.values()):
        assert space.matches(query.aliases).total == len(brute_force(query, events))
