"""NEXT finds exactly what the referee finds, under every plan that the rules accept."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from actors.columnar.jit import interpreted
from decopa.planning.validate import check_structure
from decopa.query.conditions.predicate import Attr, rewrite
from decopa.query.pattern import EventRef, Next, Not, Seq
from decopa.query.query import Query
from tests.property.test_matches import run
from tests.support.brute_force import brute_force, canonical
from tests.support.chains import chains_in_patterns, plain_chains
from tests.support.engine import expected_rows, matches_of, sortable
from tests.support.examples import examples
from tests.support.memory import poisoned_memory
from tests.support.plans import plans
from tests.support.strategies import streams


def check(data: st.DataObject, query: Query, max_events: int = 12, *, lasting: bool = False) -> None:
    events = data.draw(streams(query, max_events=max_events))
    if lasting:
        events = [{**event, "end": event["ts"] + data.draw(st.sampled_from((0, 0, 1, 2, 5)))} for event in events]
    plan = data.draw(plans(query))
    batch_size = data.draw(st.sampled_from((1, 2, 3, 5, None)))
    seed = data.draw(st.one_of(st.none(), st.integers(0, 2**16)))
    note(f"{query}\n{plan.to_json()}")
    check_structure(plan)
    with interpreted(), poisoned_memory():
        result = run(
            query,
            events,
            plan=plan,
            batch_size=batch_size,
            interleaving=None if seed is None else Random(seed),
            end="end" if lasting else None,
        )
    expected = brute_force(query, events)
    assert sorted(map(canonical, matches_of(query, result))) == list(map(canonical, expected))
    rows = expected_rows(query, events, expected)
    assert sorted(result.to_pylist(), key=sortable) == sorted(rows, key=sortable)


@settings(max_examples=examples(120))
@given(st.data())
def test_every_accepted_plan_of_a_chain_finds_exactly_its_matches(data: st.DataObject) -> None:
    check(data, data.draw(plain_chains()))


@settings(max_examples=examples(80))
@given(st.data())
def test_chains_inside_other_patterns_find_exactly_their_matches(data: st.DataObject) -> None:
    check(data, data.draw(chains_in_patterns()), max_events=10)


@settings(max_examples=examples(25))
@given(st.data())
def test_events_that_last_find_exactly_their_matches(data: st.DataObject) -> None:
    query = data.draw(st.one_of(plain_chains(), chains_in_patterns()))
    if not query.kleene_aliases:
        check(data, query, max_events=10, lasting=True)


@settings(max_examples=examples(25))
@given(st.data())
def test_timers_find_exactly_their_matches(data: st.DataObject) -> None:
    query = data.draw(plain_chains(max_positions=3))
    place = data.draw(st.integers(0, 1))
    children = list(query.pattern.children)  # type: ignore[union-attr]
    children[place] = replace(children[place], delay_us=data.draw(st.sampled_from((1, 2, 4))))
    check(data, replace(query, pattern=replace(query.pattern, children=tuple(children))), max_events=9)


@settings(max_examples=examples(40))
@given(st.data())
def test_on_single_moments_next_is_a_sequence_without_another_candidate_in_between(data: st.DataObject) -> None:
    query = data.draw(plain_chains(max_positions=3))
    if query.pattern.strict:  # type: ignore[union-attr]
        return
    events = data.draw(streams(query, max_events=9))
    as_sequence = brute_force(_with_not(query), events)
    assert [canonical(match) for match in brute_force(query, events)] == [canonical(match) for match in as_sequence]


def _with_not(query: Query) -> Query:
    """SEQ(A a, NOT(B b2), B b): FILTER conditions hold for b and b2, the others for b only."""
    pattern = query.pattern
    assert isinstance(pattern, Next)
    children: list[EventRef | Not] = []
    conditions = list(query.where)
    for place, event in enumerate(pattern.children):
        assert isinstance(event, EventRef)
        other = EventRef(event.type, f"{event.alias}2", event.others)
        if place:
            children.append(Not(other))
        children.append(event)
        for skip in query.skips:
            if query.branches[0].skipping_alias(skip) == event.alias:
                conditions.append(skip)
                if place:
                    conditions.append(rewrite(skip, lambda node, old=event.alias, new=other.alias: (
                        Attr(new, node.name) if isinstance(node, Attr) and node.alias == old else None
                    )))  # type: ignore[arg-type]  # fmt: skip
    return Query(Seq(tuple(children)), tuple(conditions), query.window_us, returns=query.returns)


@pytest.mark.slow
@settings(max_examples=examples(2_000))
@given(st.data())
def test_two_thousand_chains_find_exactly_their_matches(data: st.DataObject) -> None:
    query = data.draw(st.one_of(plain_chains(), chains_in_patterns()))
    check(data, query, max_events=10, lasting=not query.kleene_aliases and data.draw(st.booleans()))


@pytest.mark.slow
@settings(max_examples=examples(40))
@given(st.data())
def test_compiled_succession_finds_what_the_interpreted_one_finds(data: st.DataObject) -> None:
    query = data.draw(plain_chains(max_positions=3))
    events = data.draw(streams(query))
    plan = data.draw(plans(query))
    with interpreted(), poisoned_memory():
        expected = run(query, events, plan=plan)
    assert run(query, events, plan=plan).equals(expected)
