"""Matches that stay on the host that found them, and inputs that are hashed by a key: nothing is missed or found twice.

Conditions tie events by different attributes, and streams are dense, so that a row on the wrong unit is noticed.
"""

from __future__ import annotations

from random import Random

from hypothesis import given, note, settings
from hypothesis import strategies as st

from actors.columnar.jit import interpreted
from decopa.language.text.parser import parse
from decopa.planning.plan import Plan
from tests.property.test_restore import rescaling, run_in_pieces
from tests.support.brute_force import brute_force, canonical
from tests.support.engine import matches_of, table_of
from tests.support.examples import examples
from tests.support.plans import random_plan, side_by_side
from tests.support.resuming import ResumableRun

PATTERNS = (
    "SEQ(A a, B b, C c) WHERE a.k = b.k AND b.k = c.k",
    "SEQ(A a, B b, C c) WHERE a.k = b.k AND b.j = c.j",
    "AND(A a, B b, C c) WHERE a.k = b.k AND a.j = c.j",
    "SEQ(A a, B b, C c, A d) WHERE a.k = b.k AND b.j = c.j AND c.j = d.j",
    "SEQ(A a, NOT(B b), C c) WHERE a.k = b.k AND b.k = c.k",
    "SEQ(A a, NOT(B b), C c) WHERE a.k = c.k AND b.j = c.j",
    "SEQ(A a, KL(B b)) WHERE a.j = b.j",
    "SEQ(A a, KL(B b), C c) WHERE a.k = c.k",
    "NEXT(A a, B b, C c) WHERE FILTER(b.k = a.k) AND FILTER(c.k = b.k)",
    "NEXT(A a, B b, C c) WHERE FILTER(b.k = a.k) AND FILTER(c.j = b.j)",
)


@settings(max_examples=examples(75))
@given(st.data())
def test_what_stays_meets_all_that_it_must(data: st.DataObject) -> None:
    query = parse(f"PATTERN {data.draw(st.sampled_from(PATTERNS))} WITHIN 5 us")
    plan = Plan((side_by_side(data.draw, random_plan(data.draw, query)),))
    note(plan.to_json())
    chaos = Random(data.draw(st.integers(0, 2**16)))
    ts, events = 0, []
    for number in range(20):
        ts += chaos.choice((0, 1, 1))
        event = {"id": number, "ts": ts, "type": chaos.choice("ABC"), "k": chaos.choice("pq"), "j": chaos.randrange(2)}
        events.append(event)
    table = table_of(events, {"k": str, "j": int})
    cuts = data.draw(st.sampled_from(([], [10])))
    with interpreted():
        first = ResumableRun(plan, table, chaos, shufflers=2)
        then = rescaling(data, plan, table, chaos)
        found, _ = run_in_pieces(query, first, cuts, len(events), data.draw(st.sampled_from((1, 4, 100))), then)
    assert sorted(map(canonical, matches_of(query, found))) == list(map(canonical, brute_force(query, events)))
