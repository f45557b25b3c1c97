"""Graphs as data: violations by name, covers, normal forms."""

from __future__ import annotations

from dataclasses import replace

import pytest

from decopa.errors import PlanError
from decopa.language.text.parser import parse
from decopa.planning.network.graphs.cover import Cover
from decopa.planning.network.graphs.graph import NetworkPlan, Vertex
from decopa.planning.network.graphs.normal_form import are_equivalent, collapsed, unfolded
from decopa.planning.network.graphs.validate import check_network_plan, violations
from decopa.planning.subquery import SubQuery

QUERY = parse("PATTERN SEQ(A a, B b, C c) WITHIN 1 min")


def leaf(alias: str, node: str) -> Vertex:
    return Vertex(f"{alias}@{node}", 0, SubQuery(frozenset(alias)), node)


def vertex(name: str, aliases: str, node: str, *inputs: str) -> Vertex:
    return Vertex(name, 0, SubQuery(frozenset(aliases)), node, inputs)


def plan_of(*vertices: Vertex) -> NetworkPlan:
    """A at nodes 1 and 2, B at 2, C at 3."""
    producers = {"A": ("1", "2"), "B": ("2",), "C": ("3",)}
    leaves = (leaf("a", "1"), leaf("a", "2"), leaf("b", "2"), leaf("c", "3"))
    return NetworkPlan((QUERY,), ("1", "2", "3"), producers, (*leaves, *vertices))


GOOD = plan_of(vertex("ab", "ab", "2", "a@1", "a@2", "b@2"), vertex("q", "abc", "3", "ab", "c@3"))


def rules(plan: NetworkPlan) -> list[str]:
    return [one.rule for one in violations(plan)]


def test_a_good_plan_has_no_violation() -> None:
    check_network_plan(GOOD)


@pytest.mark.parametrize(
    ("plan", "rule"),
    [
        (plan_of(vertex("q", "abc", "3", "a@1", "a@2", "c@3")), "cover"),
        (plan_of(vertex("q", "abc", "3", "a@1", "b@2", "c@3")), "incomplete"),
        (plan_of(vertex("q", "abc", "3", "a@1", "a@2", "b@2", "c@3"), vertex("r", "abc", "2", "a@1", "b@2", "c@3")),
         "two-sinks"),
        (plan_of(vertex("x", "ab", "1", "a@1", "b@2"), vertex("y", "ab", "2", "a@1", "a@2", "b@2"),
                 vertex("q", "abc", "3", "x", "y", "c@3")), "twice"),
        (plan_of(vertex("ab", "ab", "2", "a@1", "a@2", "b@2"), vertex("q", "abc", "3", "a@1", "a@2", "b@2", "c@3")),
         "unused"),
        (plan_of(leaf("c", "1"), vertex("q", "abc", "3", "a@1", "a@2", "b@2", "c@3")), "not-produced"),
        (plan_of(vertex("x", "ab", "1", "a@1", "b@2"), vertex("y", "ac", "2", "a@2", "c@3"),
                 vertex("q", "abc", "3", "x", "y")), "nothing"),
    ],
)  # fmt: skip
def test_every_violation_has_its_name(plan: NetworkPlan, rule: str) -> None:
    assert rule in rules(plan)
    with pytest.raises(PlanError, match=r"vertex .*: .* \["):
        check_network_plan(plan)


def test_negations_see_every_origin() -> None:
    query = parse("PATTERN SEQ(A a, NOT(B b), C c) WITHIN 1 min")
    leaves = (leaf("a", "1"), leaf("b", "1"), leaf("b", "2"), leaf("c", "2"))
    producers = {"A": ("1",), "B": ("1", "2"), "C": ("2",)}
    bad = NetworkPlan((query,), ("1", "2"), producers, (*leaves, vertex("q", "abc", "1", "a@1", "b@1", "c@2")))
    assert "all-origins" in rules(bad)
    good = NetworkPlan((query,), ("1", "2"), producers, (*leaves, vertex("q", "abc", "1", "a@1", "b@1", "b@2", "c@2")))
    assert rules(good) == []
    torn = vertex("x", "ab", "1", "a@1", "b@1", "b@2")
    part = NetworkPlan((query,), ("1", "2"), producers, (*leaves, torn, vertex("q", "abc", "1", "x", "c@2")))
    assert "negation-closed" in rules(part)


def test_a_circle_is_no_plan() -> None:
    with pytest.raises(PlanError, match="feed each other in a circle"):
        plan_of(vertex("x", "ab", "1", "y"), vertex("y", "ab", "2", "x"))


def test_a_vertex_that_only_its_own_node_reads_is_collapsed() -> None:
    """Example 12: (p, n) goes and its inputs are read by its successor."""
    local = plan_of(vertex("ab", "ab", "3", "a@1", "a@2", "b@2"), vertex("q", "abc", "3", "ab", "c@3"))
    small = collapsed(local)
    assert [one.name for one in small.vertices if one.inputs] == ["q"]
    assert set(small.vertex("q").inputs) == {"a@1", "a@2", "b@2", "c@3"}
    assert are_equivalent(local, small)
    assert not are_equivalent(local, GOOD)
    assert collapsed(GOOD) == GOOD


def test_a_collapsed_graph_unfolds_along_its_combination() -> None:
    """Example 15."""
    combination = {
        frozenset("abc"): (frozenset("ab"), frozenset("c")),
        frozenset("ab"): (frozenset("a"), frozenset("b")),
    }
    local = plan_of(vertex("a+b@3", "ab", "3", "a@1", "a@2", "b@2"), vertex("q", "abc", "3", "a+b@3", "c@3"))
    assert are_equivalent(unfolded(collapsed(local), combination), local)
    assert {one.name for one in unfolded(collapsed(local), combination).vertices} == {
        one.name for one in local.vertices
    }


def test_covers_are_cut_and_joined() -> None:
    everything = Cover.of({"a": "12", "b": "12"})
    part = Cover.of({"a": "1", "b": "2"})
    rest = everything.without(part)
    assert len(rest) == 3
    assert rest.overlap(part) is None
    assert len(rest.united(part)) == 4
    assert rest.united(part).without(everything).boxes == ()
    assert part.joined(Cover.of({"b": "23", "c": "9"})).boxes == (
        {"a": frozenset("1"), "b": frozenset("2"), "c": frozenset("9")},
    )


def test_a_plan_with_an_unknown_field_or_version_is_refused() -> None:
    text = GOOD.to_json()
    with pytest.raises(PlanError, match="is not JSON"):
        NetworkPlan.from_json(text[:-20])
    with pytest.raises(PlanError, match="version 9"):
        NetworkPlan.from_json(text.replace('"version": 1', '"version": 9'))
    with pytest.raises(PlanError, match="lacks a field"):
        NetworkPlan.from_json(text.replace('"positions"', '"place"'))
    with pytest.raises(PlanError, match="no node '7'"):
        replace(GOOD, vertices=(*GOOD.vertices, vertex("x", "a", "7", "a@1")))
