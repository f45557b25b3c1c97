"""Our referee against the papers' one: without this, a property that compares with ours proves little."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.brute_force import brute_force, canonical, combinations
from tests.support.examples import examples
from tests.support.golden_form import events_of, parsed, query_of
from tests.support.shared import golden_oracle, needs_golden, semantics_cases

pytestmark = needs_golden
ATTRIBUTES = ("x", "k")
AFFORDABLE = 3_000


@pytest.mark.parametrize("case", semantics_cases(), ids=lambda case: case["id"])
def test_brute_force_finds_the_golden_matches(case: dict[str, Any]) -> None:
    found = brute_force(query_of(case["query"]), events_of(case["events"]))
    assert list(map(canonical, found)) == sorted(map(canonical, case["matches"]))


@pytest.mark.parametrize("case", semantics_cases(), ids=lambda case: case["id"])
def test_golden_queries_mean_the_same_typed_as_built(case: dict[str, Any]) -> None:
    assert parsed(case["query"]) == query_of(case["query"])


Place = tuple[str, tuple[int, ...]]


@st.composite
def golden_queries(draw: st.DrawFn) -> dict[str, Any]:
    """Queries in golden form; their places are (alias, the NSEQs it is negated in)."""
    names, numbers = iter("abcde"), iter(range(5))
    places: list[Place] = []

    def subtree(size: int, scope: tuple[int, ...]) -> Any:
        if size == 1:
            alias = next(names)
            places.append((alias, scope))
            leaf = f"{draw(st.sampled_from('AAB'))} {alias}"
            return ["KL", leaf] if draw(st.integers(0, 4)) == 4 else leaf
        operator = draw(st.sampled_from(("SEQ", "AND", "OR", "NSEQ") if size > 2 else ("SEQ", "AND", "OR")))
        if operator == "NSEQ":
            middle = draw(st.integers(1, size - 2))
            before = draw(st.integers(1, size - middle - 1))
            inner = (*scope, next(numbers))
            return [operator, subtree(before, scope), subtree(middle, inner), subtree(size - middle - before, scope)]
        first = draw(st.integers(1, size - 1))
        return [operator, subtree(first, scope), subtree(size - first, scope)]

    pattern = subtree(draw(st.integers(1, 5)), ())
    where = draw(st.lists(st.sampled_from(list(comparisons(places))), max_size=3))
    operators = st.sampled_from(("<", "<=", ">", ">=", "==", "!="))
    return {
        "pattern": pattern,
        "where": [{"left": left, "op": draw(operators), "right": right} for left, right in where],
        "within": draw(st.sampled_from((None, 0, 1, 2, 4, 0.5))),
    }


def comparisons(places: list[Place]) -> Iterator[tuple[list[str], Any]]:
    """What may be compared: attributes of places in one scope, or of a negated place and one around it."""
    for alias, scope in places:
        yield [alias, "x"], 1
        for other, other_scope in places:
            if scope == other_scope or scope[:-1] == other_scope:
                yield [alias, "x"], [other, "x"]
                yield [alias, "x"], [other, "k"]


golden_events = st.lists(
    st.fixed_dictionaries(
        {"type": st.sampled_from("AAB"), "t": st.sampled_from((0, 1, 1.5, 2, 3, 4, 6))},
        optional={name: st.integers(0, 2) for name in ATTRIBUTES},
    ),
    max_size=7,
)


@settings(max_examples=examples(600))
@given(golden_queries(), golden_events)
def test_brute_force_agrees_with_the_papers_oracle(query: dict[str, Any], stream: list[dict[str, Any]]) -> None:
    stream = [{"id": f"e{number}", **event} for number, event in enumerate(stream)]
    ours = query_of(query)
    while combinations(ours, events_of(stream)) > AFFORDABLE:
        stream.pop()
    expected = golden_oracle().find_matches(query, stream)
    assert list(map(canonical, brute_force(ours, events_of(stream)))) == list(map(canonical, expected))
