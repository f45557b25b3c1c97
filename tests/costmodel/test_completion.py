"""How often a NEXT completes within its window, against simulation and against closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest

from costmodel.completion import completion, log_completion
from costmodel.rates import ENGINE, rate
from costmodel.statistics import Statistics
from decopa.language.text.parser import parse


def test_one_follower_comes_after_an_exponential_time() -> None:
    for events in (1e-9, 0.1, 1.0, 30.0):
        assert completion([events]) == pytest.approx(1 - math.exp(-events), rel=1e-9)


def test_equal_followers_take_an_erlang_time() -> None:
    for events in (0.5, 2.0, 40.0):
        erlang = 1 - sum(math.exp(-events) * events**k / math.factorial(k) for k in range(3))
        assert completion([events] * 3) == pytest.approx(erlang, rel=1e-9)


def test_followers_of_different_rates_take_the_sum_of_their_times() -> None:
    one, other = 0.7, 3.0
    closed_form = 1 - (other * math.exp(-one) - one * math.exp(-other)) / (other - one)
    assert completion([one, other]) == pytest.approx(closed_form, rel=1e-9)
    assert completion([other, one]) == pytest.approx(closed_form, rel=1e-9)


def test_rare_and_frequent_followers_stay_within_range() -> None:
    assert completion([1e9, 1e12]) == 1.0
    rare_first = math.log(1 - (1 - math.exp(-math.exp(2))) / math.exp(2))
    assert log_completion([-700.0, 2.0]) == pytest.approx(-700.0 + rare_first, abs=1e-3)
    assert completion([1e-200]) == pytest.approx(1e-200)


@pytest.mark.parametrize("rates", [(4.0, 1.0, 2.0), (1.0, 5.0, 3.0), (3.0, 0.6, 2.5)])
def test_the_predicted_match_rate_is_that_of_a_simulated_stream(rates: tuple[float, ...]) -> None:
    rng = np.random.default_rng(7)
    windows = 40_000
    first, second, third = (np.sort(rng.uniform(0, windows, rng.poisson(one * windows))) for one in rates)
    second_at = np.append(second, np.inf)[np.searchsorted(second, first, side="right")]
    third_at = np.append(third, np.inf)[np.searchsorted(third, second_at, side="right")]
    found = np.count_nonzero(third_at - first <= 1) / windows
    statistics = Statistics.of(1_000_000, dict(zip("ABC", rates, strict=True)), {})
    assert rate(parse("PATTERN NEXT(A a, B b, C c) WITHIN 1 s"), statistics, ENGINE) == pytest.approx(found, rel=0.02)
