"""Processes die at any moment, the network keeps what they sent: no match is lost, none is published twice."""

from __future__ import annotations

import contextlib
from collections import Counter
from random import Random

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

import actors.node
from actors.columnar.jit import interpreted
from decopa.language.text.parser import parse
from decopa.planning.plan import Plan
from decopa.planning.spread import spread_units
from decopa.planning.strategies.left_deep import left_deep
from tests.property.test_matches import ATTRIBUTES
from tests.support.brute_force import brute_force, canonical
from tests.support.crashing import CrashingCluster, UnalignedInbox
from tests.support.engine import matches_of, table_of
from tests.support.examples import examples
from tests.support.plans import plans
from tests.support.strategies import queries, streams

#: DECOPA_EXAMPLES multiplies them: 30 makes 2,400.
SCHEDULES = 80
#: Two joins on several units: barriers of different senders come at different moments.
QUERY = parse("PATTERN SEQ(A a, B b, C c) WHERE a.k = b.k AND b.k = c.k WITHIN 30 us")
PLAN = Plan((spread_units(left_deep(QUERY), 4),))
KEYED_NEXT = "NEXT(A a, B b, C c) WHERE FILTER(b.k = a.k) AND FILTER(c.k = b.k)"
EVENTS = [{"id": n, "ts": n, "type": "ABC"[n * 7 % 3], "k": n % 2} for n in range(60)]


def test_crashes_lose_nothing_and_repeat_nothing() -> None:
    """Says how much was tried: `pytest -s` shows it."""
    tried: Counter[str] = Counter()

    @settings(max_examples=examples(SCHEDULES))
    @given(st.data())
    def schedule(data: st.DataObject) -> None:
        query = data.draw(queries())
        events = data.draw(streams(query))
        plan = data.draw(plans(query))
        note(f"{query}\n{plan.to_json()}")
        shufflers, seed = data.draw(st.integers(1, 3)), data.draw(st.integers(0, 2**16))
        with interpreted():
            cluster = CrashingCluster(
                plan, table_of(events, ATTRIBUTES), shufflers=shufflers, chaos=Random(seed), crashes=4
            )
            found = cluster.run([query])
        expected = list(map(canonical, brute_force(query, events)))
        assert sorted(map(canonical, matches_of(query, found))) == expected
        tried.update(schedules=1, crashes=cluster.recoveries, checkpoints=cluster.checkpoints, matches=len(expected))

    schedule()
    print(", ".join(f"{count:,} {what}" for what, count in tried.items()))
    assert tried["schedules"] >= examples(SCHEDULES)
    assert min(tried["crashes"], tried["checkpoints"]) >= tried["schedules"] // 4 and tried["matches"]  # not idle ones


def found_with(seed: int) -> list[object]:
    with interpreted():
        cluster = CrashingCluster(PLAN, table_of(EVENTS), shufflers=2, chaos=Random(seed), crashes=3)
        return sorted(map(canonical, matches_of(QUERY, cluster.run([QUERY]))))


@pytest.mark.parametrize(("text", "units"), [(KEYED_NEXT, 6), ("NEXT(A a, B b, C c)", 6), ("NEXT(A a, B b, C c)", 1)])
def test_twenty_crashes_change_no_match_of_a_next(text: str, units: int) -> None:
    """Both inputs hashed by a key, first events dealt out, and both steps gone through at once."""
    query = parse(f"PATTERN {text} WITHIN 40 us")
    plan = Plan((spread_units(left_deep(query), units),))
    expected = sorted(map(canonical, brute_force(query, EVENTS)))
    crashes = seed = 0
    with interpreted():
        while crashes < 20:
            cluster = CrashingCluster(plan, table_of(EVENTS), shufflers=2, chaos=Random(seed), crashes=5)
            assert sorted(map(canonical, matches_of(query, cluster.run([query])))) == expected
            crashes, seed = crashes + cluster.recoveries, seed + 1
    assert len(expected) >= 10


def test_a_barrier_that_does_not_align_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulation can fail: with broken barriers some schedule loses or repeats a match.

    In others a checkpoint never completes, which ends the simulation; that is no proof of lost matches.
    """
    expected = sorted(map(canonical, brute_force(QUERY, EVENTS)))
    assert all(found_with(seed) == expected for seed in range(6))
    monkeypatch.setattr(actors.node, "Inbox", UnalignedInbox)
    found = []
    for seed in range(12):
        with contextlib.suppress(AssertionError):
            found.append(found_with(seed))
    assert any(matches != expected for matches in found)
