"""Statistics as values: what is refused, what is looked up where, and what fits a query."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.rates import QueryRates
from costmodel.statistics import (
    PairSelectivity,
    Statistics,
    SubQuerySelectivity,
    connected_pairs,
    query_text,
)
from decopa.errors import StatisticsError
from decopa.language.text.parser import parse
from decopa.query.query import Query
from tests.support.drawn import BRANCHES, statistics

MINUTE_US = 60_000_000
KNOWN = Statistics.of(MINUTE_US, {"A": 10.0, "B": 20.0}, {("A", "B"): 0.1})
QUERY = parse("PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 1 min")


def message(wrong: object) -> str:
    """The one line that refuses what the call makes."""
    with pytest.raises(StatisticsError) as refused:
        wrong()  # type: ignore[operator]
    text = str(refused.value)
    assert "\n" not in text
    return text


# ------------------------------------------------------------------- wrong values
@pytest.mark.parametrize("rate", [0.0, -1.0, math.nan, math.inf, 1e16])
def test_a_rate_that_is_no_positive_number_is_refused(rate: float) -> None:
    found = message(lambda: replace(KNOWN, rates={"A": rate, "B": 1.0}))
    assert found.startswith("the rate of 'A' in the statistics must be above 0")


@pytest.mark.parametrize("share", [-0.1, 1.1, math.nan, math.inf])
def test_a_selectivity_that_is_no_share_is_refused(share: float) -> None:
    found = message(lambda: PairSelectivity("A", "B", share))
    assert found.startswith("the selectivity of (A, B) must be between 0 and 1")
    assert "default" in message(lambda: replace(KNOWN, default_selectivity=share))
    assert "'a'" in message(lambda: replace(KNOWN, filter_shares={"a": share}))


def test_a_position_that_no_event_passes_is_refused() -> None:
    assert "no event passes the conditions on 'a'" in message(lambda: replace(KNOWN, filter_shares={"a": 0.0}))


@pytest.mark.parametrize("window_us", [0, -1, 2**63])
def test_a_window_that_is_none_is_refused(window_us: int) -> None:
    assert "window" in message(lambda: replace(KNOWN, window_us=window_us))


def test_two_selectivities_for_one_pair_are_refused_whatever_their_order() -> None:
    found = message(lambda: Statistics.of(MINUTE_US, {}, {("I", "B"): 1.0, ("B", "I"): 0.07}))
    assert "two selectivities for the types B and I, 1 and 0.07" in found


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [("SEQ(A a, ", "cannot be read"), ("SEQ(A a, KL(B b))", "without KL and NOT"), ("OR(A a, B b)", "SEQ and AND")],
)
def test_a_measured_sub_query_must_be_a_plain_pattern(pattern: str, problem: str) -> None:
    assert problem in message(lambda: SubQuerySelectivity(pattern, 0.1))


def test_two_measurements_of_one_sub_query_are_refused() -> None:
    twice = (SubQuerySelectivity("SEQ(A a, B b)", 0.1), SubQuerySelectivity("SEQ(A a,B b)", 0.2))
    assert "the sub-query SEQ(A a, B b)" in message(lambda: replace(KNOWN, sub_queries=twice))


# ------------------------------------------------------------------ fit to a query
def test_complete_statistics_fit_without_notice() -> None:
    assert KNOWN.check_fits(QUERY) == ()


def test_a_missing_rate_is_named() -> None:
    found = message(lambda: replace(KNOWN, rates={"A": 1.0, "Bee": 2.0}).check_fits(QUERY))
    assert found.startswith("no rate for event type 'B' in the statistics")
    assert "decopa stats" in found


def test_a_missing_selectivity_is_named_with_the_aliases_that_need_it() -> None:
    found = message(lambda: replace(KNOWN, type_pairs=(), name="stats.json").check_fits(QUERY))
    assert found.startswith("no selectivity for (A, B) in stats.json, which a condition between 'a' and 'b' needs")


def test_types_that_no_condition_connects_have_selectivity_1() -> None:
    query = parse("PATTERN SEQ(A a1, A a2, B b) WHERE a1.x < b.x WITHIN 1 min")
    known = Statistics(MINUTE_US, {"A": 10.0, "B": 20.0}, alias_pairs=(PairSelectivity("a1", "b", 0.1),))
    assert known.check_fits(query) == ()
    assert QueryRates(query, known).rate(query.aliases) == pytest.approx(10 * 10 * 20 * 0.1)


def test_a_default_stands_in_only_with_a_notice() -> None:
    query = parse("PATTERN SEQ(A a, B b, B b2) WHERE a.x < b.x AND b.x < b2.x WITHIN 1 min")
    assumed = replace(KNOWN, default_selectivity=0.5)
    assert assumed.check_fits(query) == ("no selectivity for (B, B) in the statistics: assumed its default, 0.5",)


def test_members_of_a_kleene_group_need_a_selectivity_if_compared() -> None:
    free = parse("PATTERN SEQ(A a, KL(B b)) WHERE a.x < b.x WITHIN 1 min")
    compared = parse("PATTERN SEQ(A a, KL(B b)) WHERE a.x < b.x AND b.x < b.x WITHIN 1 min")
    assert KNOWN.check_fits(free) == ()
    assert "(B, B)" in message(lambda: KNOWN.check_fits(compared))


def test_another_window_is_refused() -> None:
    longer = replace(QUERY, window_us=2 * MINUTE_US)
    assert "counts events per 1 min, but the query's window is 2 min" in message(lambda: KNOWN.check_fits(longer))
    assert KNOWN.rescaled(2 * MINUTE_US).check_fits(longer) == ()
    assert KNOWN.rescaled(2 * MINUTE_US).rates == {"A": 20.0, "B": 40.0}


def test_statistics_of_another_query_are_refused() -> None:
    measured = replace(KNOWN, measured_for=(query_text(QUERY),))
    other = parse("PATTERN SEQ(A a, B b) WHERE a.x < 2 * b.x WITHIN 1 min")
    assert measured.check_fits(replace(QUERY, name="another name")) == ()
    assert "was measured for another query, QUERY q PATTERN SEQ(A a, B b)" in message(
        lambda: measured.check_fits(other)
    )


def test_every_alternative_of_a_query_must_be_covered() -> None:
    query = parse("PATTERN OR(SEQ(A a, B b), SEQ(A a, C c)) WHERE a.x < b.x WITHIN 1 min")
    assert "'C'" in message(lambda: KNOWN.check_fits(query))
    assert replace(KNOWN, rates={"A": 1.0, "B": 1.0, "C": 1.0}).check_fits(query) == ()


# -------------------------------------------------------------------------- pairs
def test_conditions_connect_two_events_or_the_members_of_a_group() -> None:
    query = parse(
        "PATTERN SEQ(A a, KL(B b), C c, D d) "
        "WHERE a.x < 1 AND b.x < a.x AND b.x < b.y AND b.x < 2 AND a.x + c.x < d.x WITHIN 1 s"
    )
    assert connected_pairs(query) == {("a", "b"), ("b", "b")}


@given(st.data())
def test_statistics_that_name_every_pair_fit(data: st.DataObject) -> None:
    query: Query = data.draw(BRANCHES)
    assert data.draw(statistics(query)).check_fits(query) == ()
