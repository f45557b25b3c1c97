"""Groups of a Kleene position: the printed sums, for any rate."""

from __future__ import annotations

import math
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.kleene import KleenePairs, log_groups
from costmodel.logarithms import LOG_MAX, LOG_ZERO, log_of
from tests.support.drawn import RATES, SHARES


def summed(count: int, member: float, pair: float, pairs: KleenePairs) -> float:
    """The printed sum, term by term, from 1."""

    def exponent(size: int) -> int:
        return size - 1 if pairs is KleenePairs.NEIGHBOURS else size * (size - 1) // 2

    return math.fsum(math.comb(count, size) * member**size * pair ** exponent(size) for size in range(1, count + 1))


def groups(events: float, member: float, pair: float, pairs: KleenePairs) -> float:
    return math.exp(log_groups(events, log_of(member), log_of(pair), pairs))


@given(st.integers(1, 300), st.floats(1e-6, 1), st.floats(0, 1), st.sampled_from(KleenePairs))
def test_whole_rates_give_the_printed_sum(count: int, member: float, pair: float, pairs: KleenePairs) -> None:
    assert groups(count, member, pair, pairs) == pytest.approx(summed(count, member, pair, pairs), rel=1e-9)


@pytest.mark.parametrize("pairs", KleenePairs)
def test_rates_between_two_counts_give_the_mean_of_both(pairs: KleenePairs) -> None:
    fewer, more = (summed(count, 0.5, 0.3, pairs) for count in (4, 5))
    assert groups(4.25, 0.5, 0.3, pairs) == pytest.approx(0.75 * fewer + 0.25 * more)


@pytest.mark.parametrize("pairs", KleenePairs)
def test_fewer_than_one_event_per_window_are_groups_of_one(pairs: KleenePairs) -> None:
    assert groups(0.2208, 0.07, 0.03, pairs) == pytest.approx(0.2208 * 0.07)


@pytest.mark.parametrize("pairs", KleenePairs)
def test_members_that_never_fit_each_other_are_groups_of_one(pairs: KleenePairs) -> None:
    assert groups(1_000, 0.1, 0.0, pairs) == pytest.approx(100)


@pytest.mark.parametrize("count", [70, 5_000, 10**6, 10**12])
def test_both_exponents_agree_where_members_always_fit(count: int) -> None:
    almost = log_groups(count, math.log(0.3), -1e-30, KleenePairs.ALL)
    assert almost == pytest.approx(log_groups(count, math.log(0.3), 0.0, KleenePairs.NEIGHBOURS), rel=1e-12)


def test_a_wide_hill_of_terms_is_summed_as_exactly_as_a_narrow_one() -> None:
    count, log_member, log_pair = 200_000, math.log(0.5), math.log(0.99999)
    terms = [
        math.lgamma(count + 1) - math.lgamma(size + 1) - math.lgamma(count - size + 1)
        + size * log_member + size * (size - 1) / 2 * log_pair
        for size in range(1, count + 1)
    ]  # fmt: skip
    top = max(terms)
    expected = top + math.log(math.fsum(math.exp(term - top) for term in terms))
    assert log_groups(count, log_member, log_pair, KleenePairs.ALL) == pytest.approx(expected, rel=1e-11)


@given(RATES, SHARES, SHARES, st.sampled_from(KleenePairs))
def test_no_rate_is_too_large_for_its_logarithm(rate: float, member: float, pair: float, pairs: KleenePairs) -> None:
    found = log_groups(rate, log_of(member), log_of(pair), pairs)
    assert LOG_ZERO <= found <= LOG_MAX


@given(RATES, st.floats(1, 10), SHARES, SHARES, st.sampled_from(KleenePairs))
def test_more_events_form_more_groups(
    rate: float, factor: float, member: float, pair: float, pairs: KleenePairs
) -> None:
    few, many = (log_groups(events, log_of(member), log_of(pair), pairs) for events in (rate, rate * factor))
    assert many >= few - 1e-9 * max(1.0, abs(few))


def test_huge_rates_take_no_longer_than_small_ones() -> None:
    started = time.perf_counter()
    for number in range(200):
        log_groups(1e9 + number, math.log(0.5), math.log(0.999), KleenePairs.ALL)
    assert time.perf_counter() - started < 2
