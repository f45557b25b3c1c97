"""The choice among candidates: good over the whole interval of what is known, not best at its middle."""

from __future__ import annotations

import itertools
import time
from dataclasses import replace

import numpy as np
import pytest

from costmodel.capacity import Capacity
from costmodel.formulas import ENGINE
from costmodel.rates import QueryRates
from costmodel.statistics import Statistics
from costmodel.sub_queries import GroupRate, SubQuerySelectivity
from decopa.choices import COST_BASED
from decopa.language.text.parser import parse
from decopa.planning.planner import plan_workload
from decopa.planning.split import SplitSpace
from decopa.planning.strategies.choose import ranked

CAPACITY = Capacity(1e6, 1e8)
MEETINGS = {(one, other): 1.0 for one in "ABCDEFGH" for other in "ABCDEFGH" if one != other}


def known(**rates: float) -> Statistics:
    return Statistics(60_000_000, rates, meetings=MEETINGS)


def space(text: str, statistics: Statistics) -> SplitSpace:
    query = parse(text)
    return SplitSpace(query, QueryRates(query, statistics, ENGINE))


def test_groups_that_are_many_in_busy_windows_are_formed_last() -> None:
    text = "PATTERN AND(A a, KL(B b), C c) WITHIN 1 min"
    busy = replace(
        known(A=10, B=5, C=1_000),
        groups=(GroupRate("KL(B b)", 1e9), GroupRate("AND(A a, KL(B b))", 1e6), GroupRate("AND(KL(B b), C c)", 1e9),
                GroupRate("AND(A a, KL(B b), C c)", 2e6)),
    )  # fmt: skip
    plan = plan_workload([parse(text)], busy, CAPACITY, units=2).plan.parts[0]
    assert plan.root.sub_query.closed == {"b"}
    assert all(not one.sub_query.closed for one in plan.operators if one is not plan.root)


def test_a_doubtful_estimate_is_not_trusted_at_its_middle() -> None:
    """AND(A, B) looks a little better than AND(B, C) first, but nobody knows; the other is known well."""
    text = "PATTERN AND(A a, B b, C c) WHERE a.x < b.x AND b.x < c.x WITHIN 1 min"
    statistics = Statistics.of(60_000_000, {"A": 100, "B": 100, "C": 100}, {("A", "B"): 0.010, ("B", "C"): 0.011})
    statistics = replace(statistics, meetings=MEETINGS)
    first, second = (replace(one, standard_error=error) for one, error in zip(
        statistics.type_pairs, (0.05, 0.0), strict=True))  # fmt: skip
    sure = ranked(space(text, statistics), 2, CAPACITY)[0]
    doubtful = ranked(space(text, replace(statistics, type_pairs=(first, second))), 2, CAPACITY)[0]
    assert sure.candidate.assignment.split[0].sub_query.aliases == {"a", "b"}
    assert doubtful.candidate.assignment.split[0].sub_query.aliases == {"b", "c"}


def test_units_that_share_a_processor_are_planned_for_least_work() -> None:
    text = "PATTERN AND(A a, B b, C c, D d) WITHIN 1 min"
    statistics = known(A=10, B=50, C=200, D=1_000)
    for processors in (1, None):
        best, *others = ranked(space(text, statistics), 6, CAPACITY, processors=processors)
        assert best.worst_regret <= min(one.worst_regret for one in others) * 1.05


def test_in_one_process_every_split_may_run_on_one_unit() -> None:
    four = space("PATTERN AND(A a, B b, C c, D d) WITHIN 1 min", known(A=10, B=50, C=200, D=1_000))
    found = [one.candidate for one in ranked(four, 6, CAPACITY, processors=1)]
    apart, together = ({one.assignment.split for one in found if one.together is on_one} for on_one in (False, True))
    assert apart <= together
    assert found[0].together


def test_dependent_conditions_change_the_plan() -> None:
    text = "PATTERN AND(A a, B b, C c, D d) WHERE a.x < b.x AND b.x < c.x AND c.x < d.x WITHIN 1 min"
    pairs = {("A", "B"): 0.01, ("B", "C"): 0.01, ("C", "D"): 0.012}
    statistics = replace(Statistics.of(60_000_000, dict.fromkeys("ABCD", 100.0), pairs), meetings=MEETINGS)
    never = SubQuerySelectivity("AND(B b, C c, D d)", 1e-9)
    plan = plan_workload([parse(text)], replace(statistics, sub_queries=(never,)), CAPACITY, units=3).plan.parts[0]
    assert any(one.sub_query.aliases == {"b", "c", "d"} for one in plan.operators)


def test_drawn_statistics_lie_where_the_errors_say() -> None:
    statistics = replace(known(A=1, B=1), groups=(GroupRate("AND(A a, KL(B b))", 100.0, 20.0),))
    rng = np.random.default_rng(5)
    drawn = [statistics.drawn(rng).groups[0].per_window for _ in range(400)]
    low, high = statistics.groups[0].interval
    assert 0.9 < np.mean([low <= one <= high for one in drawn]) < 0.99


@pytest.mark.parametrize("strategy", [one for one in COST_BASED if one != "exhaustive"])
def test_no_strategy_takes_long_to_plan_eight_positions(strategy: str) -> None:
    aliases = "abcdefgh"
    conditions = " AND ".join(f"{one}.x < {other}.x" for one, other in itertools.pairwise(aliases))
    positions = ", ".join(f"{one.upper()} {one}" for one in aliases[:7])
    text = f"PATTERN AND({positions}, KL(H h)) WHERE {conditions} WITHIN 1 min"
    pairs = {(one.upper(), other.upper()): 0.1 for one, other in itertools.pairwise(aliases)}
    rates = {one.upper(): 10.0 * (at + 1) for at, one in enumerate(aliases)}
    statistics = replace(Statistics.of(60_000_000, rates, pairs), meetings=MEETINGS)
    groups = (GroupRate("KL(H h)", 1e9, 1e8), GroupRate("AND(G g, KL(H h))", 1e8, 3e7))
    begun = time.process_time()
    plan_workload([parse(text)], replace(statistics, groups=groups), CAPACITY, units=10, strategy=strategy)
    assert time.process_time() - begun < 2
