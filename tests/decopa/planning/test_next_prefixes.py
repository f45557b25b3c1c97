"""NEXT queries that begin alike are continued from one fragment; those that choose otherwise are not."""

from __future__ import annotations

import pytest

from costmodel.capacity import Capacity
from costmodel.statistics import Statistics
from decopa.language.text.parser import parse
from decopa.planning.plan import Plan
from decopa.planning.planner import plan_workload
from decopa.query.canonical import cover_problems
from decopa.report.sharing import shared_fragments


def planned(*texts: str) -> Plan:
    queries = [parse(f"QUERY q{number} PATTERN {text}") for number, text in enumerate(texts)]
    known = [Statistics(one.window_us, dict.fromkeys("ABCD", 5.0), default_selectivity=0.5) for one in queries]
    return plan_workload(queries, known, Capacity(1000, 10_000), units=2, strategy="shared").plan


def fragments(plan: Plan) -> list[tuple[str, tuple[str, ...]]]:
    return [(one.sub_query, one.queries) for one in shared_fragments(plan)]


def test_a_beginning_is_found_once_with_the_longest_window() -> None:
    plan = planned("NEXT(A a, B b, C c) WITHIN 5 s", "NEXT(A x, B y, D z) WHERE y.x > x.x WITHIN 9 s")
    assert fragments(plan) == [("NEXT(A,B)", ("q0", "q1"))]
    assert plan.parts[0].query.window_us == 9_000_000


def test_a_longer_beginning_continues_a_shorter_one() -> None:
    first = "NEXT(A a, B b, C c, D d) WITHIN 5 s"
    plan = planned(first, first.replace("D d", "A d"), "NEXT(A a, B b, D d) WITHIN 5 s")
    assert fragments(plan) == [("NEXT(A,B)", ("q0", "q1", "q2")), ("NEXT(A,B,C)", ("q0", "q1"))]
    assert plan.parts[1].views, "NEXT(A,B,C) is a view of NEXT(A,B) and a join"


def test_conditions_that_all_users_make_are_decided_in_the_fragment() -> None:
    plan = planned(
        "NEXT(A a, B b, C c) WHERE a.x < 1 AND b.x > 2 WITHIN 5 s", "NEXT(A a, B b, D d) WHERE a.x < 1 WITHIN 5 s"
    )
    assert [str(one) for one in plan.parts[0].query.where] == ["p0.x < 1"]


@pytest.mark.parametrize(
    "other",
    [
        "NEXT(A a, B b, C c) WHERE FILTER(b.k = a.k) WITHIN 5 s",
        "STRICT(A a, B b, C c) WITHIN 5 s",
        "NEXT(A a, C c, B b) WITHIN 5 s",
        "SEQ(A a, B b, C c) WITHIN 5 s",
    ],
)
def test_what_may_choose_other_events_is_not_shared(other: str) -> None:
    assert not fragments(planned("NEXT(A a, B b, C c) WITHIN 5 s", other))


@pytest.mark.parametrize(
    ("fragment", "query", "problem"),
    [
        ("NEXT(A p, B q)", "SEQ(A a, B b, C c)", "not those that a NEXT of the query begins with"),
        ("SEQ(A p, B q)", "NEXT(A a, B b, C c)", "the other operator has others"),
        ("NEXT(A p, B q) WHERE FILTER(q.k = p.k)", "NEXT(A a, B b, C c)", "FILTER conditions are others"),
        ("NEXT(A p, B q) WHERE q.x > 1", "NEXT(A a, B b, C c)", "demands q.x > 1"),
    ],
)
def test_a_view_of_something_else_is_refused_by_name(fragment: str, query: str, problem: str) -> None:
    found = cover_problems(
        parse(f"PATTERN {fragment} WITHIN 5 s"), {"p", "q"}, parse(f"PATTERN {query} WITHIN 5 s"), {"a": "p", "b": "q"}
    )
    assert any(problem in one for one in found), found
