"""Rates of queries beyond the paper's own examples (those are in tests/golden)."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from costmodel.kleene import KleenePairs
from costmodel.logarithms import LOG_MAX, LOG_ZERO, MAX_VALUE
from costmodel.rates import ENGINE, PAPER, QueryRates, RateModel, is_rate_reducing, log_rate, rate, selectivity
from costmodel.statistics import PairSelectivity, Statistics, SubQuerySelectivity
from costmodel.time_order import TimeOrder
from decopa.errors import StatisticsError
from decopa.language.text.parser import parse
from decopa.query.query import Query
from tests.support.drawn import BRANCHES, statistics

RATES = {"A": 4.0, "B": 3.0, "C": 5.0, "D": 2.0}
MINUTE_US = 60_000_000
COUNTED = RateModel(time_order=TimeOrder.COUNTED)


def query_of(pattern: str, where: str = "") -> Query:
    return parse(f"PATTERN {pattern} {'WHERE ' + where if where else ''} WITHIN 1 min")


def known(**selectivities: float) -> Statistics:
    """`known(AB=0.5)`: the rates above and these selectivities between types."""
    return Statistics.of(MINUTE_US, RATES, {(pair[0], pair[1]): value for pair, value in selectivities.items()})


# ------------------------------------------------------------------------ paper
def test_negated_parts_do_not_change_the_rate() -> None:
    with_not = query_of("SEQ(A a, NOT(SEQ(B b, D d)), C c)", "a.x < b.x AND a.x < c.x")
    assert rate(with_not, known(AB=0.1, AC=0.5, BD=0.1)) == pytest.approx(4 * 5 * 0.5)


def test_the_negated_part_has_a_rate_of_its_own() -> None:
    rates = QueryRates(query_of("SEQ(A a, NOT(SEQ(B b, D d)), C c)"), known(BD=0.5))
    assert rates.rate({"b", "d"}) == pytest.approx(3 * 2 * 0.5)


def test_the_selectivity_between_two_kleene_positions_counts_once() -> None:
    query = query_of("SEQ(KL(A a), KL(B b))")
    statistics = known(AB=0.5)
    # Of the more frequent one: each of up to 4 events A must fit, while the groups of 3 events B are free.
    assert rate(query, statistics) == pytest.approx(((1 + 0.5) ** 4 - 1) * (2**3 - 1))


def test_conditions_on_one_event_lower_its_rate() -> None:
    query = query_of("SEQ(A a, B b)", "a.x < 3")
    assert rate(query, replace(known(), filter_shares={"a": 0.25})) == pytest.approx(0.25 * 4 * 3)


def test_a_measured_selectivity_replaces_the_product_of_pairs() -> None:
    query = query_of("SEQ(A a, AND(B b, C c), D d)")
    measured = replace(known(AB=0.5, CD=0.5), sub_queries=(SubQuerySelectivity("SEQ( A a,AND(B b, C c))", 0.01),))
    rates = QueryRates(query, measured)
    assert rates.rate({"a", "b", "c"}) == pytest.approx(4 * 2 * 3 * 5 * 0.01)
    assert rates.rate(query.aliases) == pytest.approx(4 * 2 * 3 * 5 * 2 * 0.25)


def test_a_measured_selectivity_serves_the_rest_of_a_kleene_query() -> None:
    query = query_of("SEQ(A a, KL(B b), C c)")
    measured = replace(known(AC=0.5), sub_queries=(SubQuerySelectivity("SEQ(A a, C c)", 0.1),))
    assert rate(query, measured) == pytest.approx(4 * 5 * 0.1 * 7)


def test_an_open_kleene_position_stands_for_single_events() -> None:
    rates = QueryRates(query_of("SEQ(A a, KL(B b))"), known(AB=0.5, BB=0.1))
    assert rates.rate({"a", "b"}, closed=()) == pytest.approx(4 * 3 * 0.5)
    assert rates.rate({"a", "b"}, closed={"b"}) == pytest.approx(4 * ((1 + 0.05) ** 3 - 1) / 0.1)


def test_a_pair_of_aliases_overrides_the_pair_of_their_types() -> None:
    query = query_of("SEQ(A a1, A a2, B b)")
    special = replace(known(AB=0.5), alias_pairs=(PairSelectivity("b", "a2", 0.1),))
    assert selectivity(query, special) == pytest.approx(0.5 * 0.1)


def test_a_sub_query_that_is_none_is_refused() -> None:
    rates = QueryRates(query_of("SEQ(A a, B b)"), known())
    with pytest.raises(StatisticsError, match="do not form a sub-query"):
        rates.rate({"x"})


def test_rate_reducing_sub_queries_compare_with_their_own_events() -> None:
    query, statistics = query_of("SEQ(A a, B b, C c)"), known(AB=0.1, BC=0.3)
    rates = QueryRates(query, statistics)
    assert rates.is_rate_reducing({"a", "b"})
    assert rates.is_rate_reducing({"b", "c"}) == is_rate_reducing(query.project({"b", "c"}), statistics) is True
    assert not rates.is_rate_reducing({"a", "c"})
    assert not is_rate_reducing(query.project({"a", "c"}), statistics, within=query)


# ------------------------------------------------------------------- time order
@pytest.mark.parametrize(
    ("pattern", "factor"),
    [
        ("SEQ(A a, B b)", 1),
        ("AND(A a, B b)", 2),
        ("AND(A a, B b, C c)", 3),
        ("AND(A a, AND(B b, C c))", 3),
        ("SEQ(A a, B b, C c)", 1 / 2),
        ("SEQ(A a, B b, C c, D d)", 1 / 6),
        ("SEQ(A a, AND(B b, C c))", 1),
        ("AND(A a, SEQ(B b, C c))", 3 / 2),
        ("SEQ(A a, NOT(D d), B b)", 1),
    ],
)
def test_counted_orders_are_the_share_of_time_that_a_pattern_fills(pattern: str, factor: float) -> None:
    query = query_of(pattern)
    product = math.prod(RATES[position.type] for position in query.positions if not position.scope)
    assert rate(query, known(), COUNTED) == pytest.approx(factor * product)


# Counted: of the seven groups of three events three have one member, three two and one three, beside two other events.
@pytest.mark.parametrize(
    ("reading", "factor"),
    [(TimeOrder.PAPER, 2), (TimeOrder.TOOL, 3), (TimeOrder.COUNTED, (3 * 3 + 3 * 4 + 1 * 5) / 7)],
)
def test_a_group_under_and_is_one_of_its_children_only_in_some_readings(reading: TimeOrder, factor: float) -> None:
    query = query_of("AND(A a, KL(B b), C c)")
    assert rate(query, known(), RateModel(time_order=reading)) == pytest.approx(factor * 4 * 5 * 7)


def test_candidates_of_two_events_are_those_in_order_and_in_the_window() -> None:
    for pattern, factor in (("SEQ(A a, B b)", 1), ("AND(A a, B b)", 2)):
        rates = QueryRates(query_of(pattern), known(AB=0.1))
        assert rates.candidates({"a"}, {"b"}).at() == pytest.approx(factor * 4 * 3)


@pytest.mark.parametrize("model", [PAPER, COUNTED, ENGINE])
def test_candidates_agree_on_shared_positions(model: RateModel) -> None:
    rates = QueryRates(query_of("SEQ(A a, B b, C c)"), known(AC=0.5, BC=0.1, AB=0.2), model)
    candidates = rates.candidates({"a", "c"}, {"b", "c"})
    assert candidates.at() == pytest.approx(4 * 3 * 5 / 2 * 0.5 * 0.1)
    assert candidates.positions == 3


def test_candidates_do_not_depend_on_which_input_comes_first() -> None:
    rates = QueryRates(query_of("AND(A a, SEQ(B b, KL(C c)), D d)"), known(AC=0.5, BC=0.1))
    left, right = {"a", "c"}, {"b", "d"}
    assert rates.candidates(left, right).log_at() == pytest.approx(rates.candidates(right, left).log_at())


# ------------------------------------------------------------------- properties
#: Logarithm of a rate that is 0 for all purposes. Farther down a logarithm is the sum of terms near LOG_ZERO and others
#: that are lost in its rounding.
NOTHING = LOG_ZERO * 1e-3


@given(st.data())
def test_no_rate_is_infinite_or_undefined(data: st.DataObject) -> None:
    query = data.draw(BRANCHES)
    known = data.draw(statistics(query))
    for model in (PAPER, ENGINE):
        assert LOG_ZERO <= log_rate(query, known, model) <= LOG_MAX
        assert 0 <= rate(query, known, model) <= MAX_VALUE


@given(st.data())
def test_rates_grow_with_the_rates_of_events(data: st.DataObject) -> None:
    query = data.draw(BRANCHES)
    known = data.draw(statistics(query))
    name, factor = data.draw(st.sampled_from(query.event_types)), data.draw(st.floats(1, 100))
    more = replace(known, rates={**known.rates, name: min(known.rates[name] * factor, 1e15)})
    # A condition between two Kleene positions counts at the more frequent one (5.3.1), so a change of places is a jump.
    groups = [query.position(alias).type for alias in query.kleene_aliases]
    assume(sorted(groups, key=known.rates.__getitem__) == sorted(groups, key=more.rates.__getitem__))
    for model in (PAPER, ENGINE):
        before, after = log_rate(query, known, model), log_rate(query, more, model)
        if before < NOTHING:
            continue
        assert after >= before - 1e-9 * max(1.0, abs(before))


@given(st.data())
def test_a_formula_at_c_is_the_rate_of_scaled_statistics(data: st.DataObject) -> None:
    query = data.draw(BRANCHES)
    known = data.draw(statistics(query))
    scaling_factor = data.draw(st.floats(0.01, 1))
    formula = QueryRates(query, known).formula(query.aliases)
    expected = log_rate(query, known.scaled(scaling_factor))
    # Near a whole number of events, rounding decides between two counts, whose groups may differ in size by far.
    assert formula.log_at(math.log(scaling_factor)) == pytest.approx(expected, rel=1e-6, abs=1e-6)


@given(st.data())
def test_sub_queries_have_the_rate_of_their_own_query(data: st.DataObject) -> None:
    query = data.draw(BRANCHES)
    positive = sorted(query.positive_aliases)
    aliases = data.draw(st.sets(st.sampled_from(positive), min_size=1))
    known = data.draw(statistics(query))
    found = QueryRates(query, known).log_rate(aliases)
    if len(aliases) < len(query.aliases):  # a projection of everything merges an AND inside an AND
        assert found == pytest.approx(log_rate(query.project(aliases), known))


@given(st.data())
def test_all_pairs_of_members_fit_no_more_often_than_neighbours(data: st.DataObject) -> None:
    query = data.draw(BRANCHES)
    known = data.draw(statistics(query))
    every, neighbours = (log_rate(query, known, RateModel(kleene_pairs=pairs)) for pairs in reversed(KleenePairs))
    assert every <= neighbours + 1e-9 * max(1.0, abs(neighbours))
