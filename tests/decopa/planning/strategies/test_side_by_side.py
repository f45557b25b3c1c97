"""Plans that run all operators on every unit: where they exist, and that no partial match travels in them."""

from __future__ import annotations

import pytest

from costmodel.capacity import Capacity
from costmodel.formulas import ENGINE
from costmodel.rates import QueryRates
from costmodel.statistics import Statistics
from decopa.language.text.parser import parse
from decopa.planning.plan import Plan, PlanOperator, QueryPlan
from decopa.planning.planner import plan_workload
from decopa.planning.price import plan_units
from decopa.planning.roles import BOTH
from decopa.planning.split import Split, SplitSpace, Step, split_of
from decopa.planning.strategies.side_by_side import staying_sides
from decopa.planning.subquery import SubQuery
from shuffler.routing.topology import Topology

KEYED = "PATTERN SEQ(A a, B b, C c, D d) WHERE a.k = b.k AND b.k = c.k AND c.k = d.k WITHIN 1 min"
BY_ORDER = "PATTERN SEQ(A a, B b, C c, D d) WHERE a.x < b.x AND b.x < c.x AND c.x < d.x WITHIN 1 min"
PAIRS = [(one, other) for one in "ABCD" for other in "ABCD" if one != other]
KNOWN = Statistics(
    60_000_000, dict.fromkeys("ABCD", 2_000.0), default_selectivity=0.01, meetings=dict.fromkeys(PAIRS, 1.0)
)


def sub(text: str) -> SubQuery:
    """'ab' binds a and b; an upper-case letter is a closed KL position."""
    return SubQuery(frozenset(text.lower()), frozenset(one.lower() for one in text if one.isupper()))


def split(*steps: str) -> Split:
    """'ab = a b': a sub-query and its inputs."""
    parts = [one.replace("=", " ").split() for one in steps]
    return split_of(Step(sub(target), tuple(map(sub, inputs))) for target, *inputs in parts)


def sides(text: str, *steps: str) -> tuple[int, ...] | None:
    query = parse(text)
    return staying_sides(SplitSpace(query, QueryRates(query, KNOWN, ENGINE)), split(*steps))


def test_with_one_key_everything_is_dealt_out_by_it() -> None:
    assert sides(KEYED, "ab = a b", "abc = ab c", "abcd = abc d") == (BOTH, BOTH, BOTH)
    assert sides(KEYED, "ab = a b", "cd = c d", "abcd = ab cd") == (BOTH, BOTH, BOTH)


def test_without_a_key_what_is_found_is_dealt_out_and_the_rest_broadcast() -> None:
    found = sides(BY_ORDER, "cd = c d", "bcd = b cd", "abcd = a bcd")
    assert found is not None and found[1:] == (1, 1)


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        (BY_ORDER, ("ab = a b", "cd = c d", "abcd = ab cd")),  # one of two parts would be broadcast
        (BY_ORDER, ("ab = a b", "bc = b c", "abc = ab bc", "abcd = abc d")),  # b goes two ways
        ("PATTERN SEQ(A a, KL(B b)) WITHIN 1 min", ("ab = a b", "aB = ab")),  # a group may come from several units
    ],
)
def test_splits_whose_matches_must_travel_have_no_such_plan(text: str, steps: tuple[str, ...]) -> None:
    assert sides(text, *steps) is None


def test_a_key_of_other_events_is_not_where_matches_lie() -> None:
    text = "PATTERN SEQ(A a, B b, C c) WHERE a.k = b.k AND b.other = c.other WITHIN 1 min"
    assert sides(text, "ab = a b", "abc = ab c") == (BOTH, 0)


def between_hosts(plan: Plan) -> set[tuple[str, str]]:
    return {ends for ends in Topology(plan).channels if all("/host/" in end for end in ends)}


@pytest.mark.parametrize("units", [2, 3, 8])
def test_fewer_units_than_operators_share_the_work_by_key(units: int) -> None:
    found = plan_workload([parse(KEYED)], KNOWN, Capacity(1e6, 1e8), units=units)
    assert plan_units(found.plan) == len(Topology(found.plan).units) == units
    assert not between_hosts(found.plan)
    assert not any("all run on one unit" in notice for notice in found.notices)
    part = found.plan.parts[0]
    assert [part.stays(one) for one in part.operators if one.inputs] == [True, True, False]
    assert Plan.from_json(found.plan.to_json()) == found.plan


def test_one_unit_still_runs_all_operators() -> None:
    found = plan_workload([parse(KEYED)], KNOWN, Capacity(1e6, 1e8), units=1)
    assert plan_units(found.plan) == 1 and any("all run on one unit" in notice for notice in found.notices)


def test_rows_of_groups_do_not_stay() -> None:
    """Events of b are dealt out, so members of one group are found on several hosts; the closure needs all of them."""
    query = parse("PATTERN SEQ(A a, KL(B b)) WITHIN 1 min")
    hosts = (0, 1)
    plan = QueryPlan(
        query,
        (
            PlanOperator("a", sub("a")),
            PlanOperator("b", sub("b"), partitioned=True),
            PlanOperator("rows", sub("ab"), ("a", "b"), 2, partitioned=True, hosts=hosts),
            PlanOperator("groups", sub("aB"), ("rows",), 2, hosts=hosts),
        ),
    )
    assert not plan.stays(plan.operator("rows"))
