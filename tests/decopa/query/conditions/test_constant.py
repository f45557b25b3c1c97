"""Conditions that events cannot change anything about."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given

import decopa
from decopa.language.text.parser import parse
from decopa.query.conditions.constant import constant_notices, constant_truth
from decopa.query.conditions.predicate import aliases_of
from tests.support.brute_force import brute_force
from tests.support.evaluate import holds, is_missing, value_of
from tests.support.strategies import queries, streams


def notices(where: str, pattern: str = "SEQ(A a, B b)") -> tuple[str, ...]:
    return constant_notices(parse(f"PATTERN {pattern} WHERE {where} WITHIN 10 us"))


@pytest.mark.parametrize(
    "where",
    [
        "a.x < a.x",
        "dist_km(a.lat, a.lon, a.lat, a.lon) >= 4",
        "dist_km(a.lat, a.lon, b.lat, b.lon) > 30000",
        "abs(a.x) < 0",
        "a.x - a.x > 1",
        "sqrt(a.x) + 1 < 0.5",
        "abs(a.x) IN (-1, -2)",
    ],
)
def test_a_condition_that_can_never_hold_is_pointed_out(where: str) -> None:
    (line,) = notices(where)
    assert line.endswith("can never hold; so the query finds nothing")


@pytest.mark.parametrize("where", ["a.x <= a.x", "abs(a.x) >= 0", "dist_km(a.lat, a.lon, b.lat, b.lon) > -1"])
def test_a_condition_that_always_holds_is_pointed_out(where: str) -> None:
    (line,) = notices(where)
    assert "always holds" in line


@pytest.mark.parametrize(
    "where",
    ["a.x > 5 AND a.x < 3", "a.x = 3 AND 3 < a.x", "a.x < b.x AND b.x <= a.x", "a.x = b.x AND a.x != b.x"],
)
def test_two_conditions_that_contradict_each_other_are_pointed_out(where: str) -> None:
    (line,) = notices(where)
    assert "can never hold together" in line


@pytest.mark.parametrize(
    "where", ["a.x >= 3 AND a.x <= 3", "a.x < b.x AND a.y > b.y", "a.s = 'x'", "a.x < b.x + 1", "a.x / b.x > 2"]
)
def test_a_condition_that_events_decide_is_not(where: str) -> None:
    assert notices(where) == ()


def test_what_follows_depends_on_where_the_condition_stands() -> None:
    (inside,) = notices("b.x < b.x", "SEQ(A a, NOT(B b), C c)")
    assert inside.endswith("so the NOT that it belongs to never blocks a match")
    (between,) = notices("abs(b.x - b.x) < 0", "SEQ(A a, KL(B b))")
    assert between.endswith("so groups of 'b' have one member")
    (neighbours,) = notices("b.x > PREV(b.x) AND b.x < PREV(b.x)", "SEQ(A a, KL(B b))")
    assert neighbours.endswith("so groups of 'b' have one member")
    (skipped,) = notices("FILTER(b.x < b.x)", "NEXT(A a, B b)")
    assert skipped.endswith("so the query finds nothing")


def test_a_run_tells_of_a_condition_that_can_never_hold() -> None:
    trace = pa.table({"id": [1, 2], "ts": [0, 5], "type": ["A", "B"], "x": [1, 2]})
    found = decopa.run_detailed("PATTERN SEQ(A a, B b) WHERE a.x > 2 AND a.x < 1 WITHIN 9 us", trace)
    assert any("can never hold together" in line for line in found.notices)


@given(queries().flatmap(lambda query: streams(query).map(lambda events: (query, events))))
def test_conditions_called_constant_are_so_on_every_stream(drawn: tuple[Any, list[dict[str, Any]]]) -> None:
    query, events = drawn
    for predicate in query.where:
        truth = constant_truth(predicate)
        named = aliases_of(predicate)
        if truth is None or named & query.kleene_aliases:
            continue
        for event in events:
            bound = dict.fromkeys(named, event)
            if truth and any(is_missing(value_of(part, bound)) for part in _values(predicate)):
                continue
            assert holds(predicate, bound) is truth
    if (
        any(line.endswith("so the query finds nothing") for line in constant_notices(query))
        and len(query.branches) == 1
    ):
        assert not brute_force(query, events)


def _values(node: Any) -> list[Any]:
    from decopa.query.conditions.predicate import Compare, children

    if isinstance(node, Compare):
        return [node.left, node.right]
    return [value for child in children(node) for value in _values(child)]
