"""Partial matches that timed out: those that nothing continued within their window, by the referee's own count."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from actors.columnar.jit import interpreted
from decopa.errors import QueryError
from decopa.language.text.parser import parse
from decopa.query.conditions.predicate import aliases_of
from decopa.query.pattern import EventRef, Next, Seq
from decopa.query.query import Query
from decopa.query.rewrite.timeouts import timed_out
from tests.property.test_matches import run
from tests.support.brute_force import brute_force, canonical
from tests.support.chains import plain_chains
from tests.support.engine import matches_of
from tests.support.examples import examples
from tests.support.strategies import streams


def prefix(query: Query, count: int, *, decided: bool) -> Query:
    """The first events of a chain; without `decided` only FILTER says whether the last one is there."""
    children = query.pattern.children[:count]  # type: ignore[union-attr]
    last = children[-1].alias
    kept = {child.alias for child in children}
    where = [one for one in query.where if aliases_of(one) <= kept and (decided or last not in aliases_of(one))]
    skips = [one for one in query.skips if aliases_of(one) <= kept]
    if count == 1:
        return Query(children[0], (*where, *skips), query.window_us)
    return replace(
        query, pattern=replace(query.pattern, children=children), where=tuple(where), skips=tuple(skips), returns=()
    )


@settings(max_examples=examples(80))
@given(st.data())
def test_what_nothing_continued_has_timed_out(data: st.DataObject) -> None:
    query = data.draw(plain_chains(max_positions=3))
    if isinstance(query.pattern, Next) and not query.pattern.strict and data.draw(st.booleans()):
        query = replace(query, pattern=Seq(query.pattern.children), where=(*query.where, *query.skips), skips=())
    events = data.draw(streams(query, max_events=9))
    for place, waiting in enumerate(timed_out(query), start=1):
        note(str(waiting))
        begun = brute_force(prefix(query, place, decided=True), events)
        is_seq = isinstance(query.pattern, Seq)
        longer = prefix(query, place + 1, decided=is_seq)
        if isinstance(query.pattern, Next) and query.pattern.strict:
            *kept, last = longer.pattern.children  # type: ignore[union-attr]
            chain = replace(query.pattern, children=(*kept, EventRef("*", last.alias)))
            longer = replace(longer, pattern=chain)
        continued = (
            [{a: ids for a, ids in match.items() if a in begun[0]} for match in brute_force(longer, events)]
            if begun
            else []
        )
        expected = [match for match in begun if match not in continued]
        with interpreted():
            found = matches_of(waiting, run(waiting, events))
        assert sorted(map(canonical, found)) == sorted(map(canonical, expected))


def test_queries_of_timeouts_are_named_after_what_did_not_come() -> None:
    query = parse("QUERY pay PATTERN SEQ(Order o, Payment p, Parcel s) WHERE p.id = o.id AND s.x > p.x WITHIN 1 h")
    first, second = timed_out(query)
    assert str(first.pattern) == "SEQ(Order o, NOT(Payment p))" and first.name == "pay without p"
    assert str(second.pattern) == "SEQ(Order o, Payment p, NOT(Parcel s))" and second.name == "pay without s"
    assert len(first.where) == 1 and len(second.where) == 2


@pytest.mark.parametrize(
    "text",
    [
        "PATTERN AND(A a, B b) WITHIN 1 s",
        "PATTERN SEQ(A a, NOT(B b), C c) WITHIN 1 s",
        "PATTERN SEQ(A a, OR(B b, C c)) WITHIN 1 s",
        "PATTERN SEQ(A a, KL(B b)) WHERE count(b) > 2 WITHIN 1 s",
    ],
)
def test_patterns_without_a_clear_next_step_are_refused(text: str) -> None:
    with pytest.raises(QueryError):
        timed_out(parse(text))
