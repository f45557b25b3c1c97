"""stats.json and capacity.json: what is written is read back, and what is wrong is said."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.capacity import Capacity
from costmodel.statistics import PairSelectivity, RateProfile, Statistics, SubQuerySelectivity
from costmodel.stats_file import from_json, to_json
from decopa.errors import StatisticsError
from decopa.query.query import MAX_WINDOW_US
from tests.support.drawn import BRANCHES, CAPACITIES, statistics

FULL = Statistics(
    window_us=60_000_000,
    rates={"A": 1000.0, "två ord": 0.5},
    type_pairs=(PairSelectivity("A", "två ord", 0.01, 0.0004), PairSelectivity("A", "A", 1e-12)),
    alias_pairs=(PairSelectivity("a1", "b", 0.02),),
    sub_queries=(SubQuerySelectivity('SEQ(A a, "två ord" b)', 0.008, 0.001),),
    filter_shares={"a1": 0.5},
    default_selectivity=1.0,
    measured_for=("QUERY q\nPATTERN A a\nWITHIN 1 s",),
    profiles={"A": RateProfile(peak_rate=3_000.0, variation=0.8, share=0.99)},
    meetings={("A", "B"): 1.3, ("B", "A"): 0.9},
)


def edited(**changes: Any) -> str:
    """The file of FULL with fields changed; None takes a field away."""
    document = json.loads(to_json(FULL)) | changes
    return json.dumps({key: value for key, value in document.items() if value is not None})


def message(text: str) -> str:
    with pytest.raises(StatisticsError) as refused:
        from_json(text, "s.json")
    assert "\n" not in str(refused.value)
    return str(refused.value)


def test_everything_is_read_back() -> None:
    assert from_json(to_json(FULL)) == FULL


def test_what_is_optional_may_be_left_out() -> None:
    text = '{"format": "decopa-stats", "version": 1, "window_us": 5, "rates": {"A": 1}, "selectivities": []}'
    assert from_json(text) == Statistics(5, {"A": 1.0})


@given(st.data())
def test_random_statistics_are_read_back(data: st.DataObject) -> None:
    known = data.draw(statistics(data.draw(BRANCHES)))
    assert from_json(to_json(known)) == known


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "s.json is not JSON"),
        ("[" * 100_000, "s.json is not JSON"),
        ("[]", 'no "format": "decopa-stats"; run `decopa stats`'),
        (edited(format="decopa-plan"), 'no "format": "decopa-stats"'),
        (edited(version=2), "has version 2, this decopa reads version 1"),
        (edited(rates=None), "s.json: 'rates' is missing"),
        (edited(rate={}), "unknown field 'rate'; did you mean 'rates'?"),
        (edited(rates=[]), "'rates' must be an object, got a list"),
        (edited(rates={"A": "many"}), "s.json: rates: 'A' must be a number, got a text"),
        (edited(rates={"A": True}), "must be a number, got true or false"),
        (edited(rates={"A": 10**400}), "'A' is too large a number"),
        (edited(rates={"A": 0}), "the rate of 'A' in s.json must be above 0"),
        (edited(rates={"A": float("nan")}), "got nan"),
        (edited(window_us=1.5), "'window_us' must be a whole number, got a number"),
        (edited(window_us=-1), "window of s.json"),
        (edited(selectivities=[3]), "selectivities[0]: must be an object"),
        (edited(selectivities=[{"selectivity": 1}]), 'selectivities[0]: needs one of "types", "aliases"'),
        (edited(selectivities=[{"types": ["A", "B"]}]), "selectivities[0]: 'selectivity' is missing"),
        (edited(selectivities=[{"types": ["A"], "selectivity": 1}]), "'types' must be two names, got 1"),
        (edited(selectivities=[{"types": [1, 2], "selectivity": 1}]), "'types' must be a list of texts"),
        (
            edited(selectivities=[{"types": ["A", "B"], "selectivity": 7}]),
            "selectivities[0]: the selectivity of (A, B)",
        ),
        (edited(selectivities=[{"sub_query": "SEQ(", "selectivity": 1}]), "selectivities[0]: the sub-query 'SEQ('"),
        (edited(filter_shares={"a": 2}), "s.json: the share of events"),
        (edited(default_selectivity="1"), "'default_selectivity' must be a number"),
        (edited(measured_for="all"), "'measured_for' must be a list"),
        (edited(profiles=[]), "'profiles' must be an object, got a list"),
        (edited(meetings=[{"types": ["A", "B"]}]), "meetings[0]: 'times' is missing"),
        (edited(meetings=[{"types": ["A"], "times": 1}]), "meetings[0]: 'types' must be two names, got 1"),
        (edited(meetings=[{"types": ["A", "B"], "times": 0}]), "how often B follows A must be a positive number"),
        (
            edited(meetings=[{"types": ["A", "B"], "times": 1}, {"types": ["A", "B"], "times": 2}]),
            "meetings[1]: B after A is there twice, with different numbers",
        ),
        (edited(profiles={"A": {"peak_rate": 1}}), "profiles: 'A': 'variation' is missing"),
        (
            edited(profiles={"A": {"peak_rate": 1, "variation": -1, "share": 1}}),
            "s.json: profiles: 'A': the variation of a rate must be 0 or more",
        ),
        (to_json(FULL).replace('"två ord": 0.5', '"A": 0.5'), "s.json: 'A' is given twice"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(text: str, problem: str) -> None:
    assert problem in message(text)


def test_profiles_follow_the_scale_but_not_another_window() -> None:
    assert FULL.scaled(2.0).profiles == {"A": RateProfile(6_000.0, 0.8, 0.99)}
    assert FULL.rescaled(FULL.window_us * 2).profiles == {}


def test_how_often_types_meet_follows_the_scale_but_not_another_window() -> None:
    assert FULL.scaled(2.0).meetings == FULL.meetings
    assert FULL.rescaled(FULL.window_us * 2).meetings == {}


def test_an_interval_stays_within_what_a_share_can_be() -> None:
    assert PairSelectivity("A", "B", 0.5, 0.1).interval == pytest.approx((0.304, 0.696))
    assert PairSelectivity("A", "B", 0.01, 0.1).interval == pytest.approx((0.0, 0.206))


# ----------------------------------------------------------------------- capacity
@given(CAPACITIES, st.none() | st.integers(1, MAX_WINDOW_US))
def test_a_capacity_is_read_back(capacity: Capacity, window_us: int | None) -> None:
    known = replace(capacity, window_us=window_us)
    assert Capacity.from_json(known.to_json()) == known


def test_a_capacity_follows_the_window() -> None:
    assert Capacity.per_second(100, 1e6).for_window(60_000_000) == Capacity(6_000, 6e7, 60_000_000)
    assert Capacity(100, 1e6).for_window(5) == Capacity(100, 1e6)


def test_a_capacity_reads_like_a_sentence() -> None:
    assert str(Capacity(6_000, 6e7, 60_000_000)) == "6000 events and 6e+07 comparisons per 1 min"
    assert str(Capacity(1, 2)) == "1 events and 2 comparisons per window"


@pytest.mark.parametrize("limit", [0.0, -1.0, float("nan"), float("inf")])
def test_a_limit_that_is_none_is_refused(limit: float) -> None:
    with pytest.raises(StatisticsError, match=r"ingestion \(iota\).*1e18 for no limit"):
        Capacity(limit, 1.0)
    with pytest.raises(StatisticsError, match=r"comparisons \(kappa\)"):
        Capacity(1.0, limit)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"format": "decopa-stats"}, 'no "format": "decopa-capacity"; run `decopa calibrate`'),
        ({"max_ingestion": "9"}, "c.json: 'max_ingestion' must be a number, got a text"),
        ({"max_comparisons": 0}, "c.json: the largest comparisons"),
        ({"window_us": 0}, "c.json: the window of a capacity"),
        ({"kappa": 1}, "unknown field 'kappa'"),
    ],
)
def test_a_wrong_capacity_file_is_refused(changes: dict[str, Any], problem: str) -> None:
    text = json.dumps(json.loads(Capacity(1, 2).to_json()) | changes)
    with pytest.raises(StatisticsError) as refused:
        Capacity.from_json(text, "c.json")
    assert problem in str(refused.value)
