"""Small runs whose matches can be counted by hand; each plan and batch size below once gave a wrong answer or is the
shortest way to say what a rule means.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pyarrow as pa
import pytest

import decopa
from actors.columnar.jit import interpreted
from actors.sinks.sink import MatchSink
from cluster.local import LocalRuntime
from decopa.language.text.parser import parse
from decopa.planning.plan import Plan, PlanOperator, QueryPlan, View
from decopa.planning.strategies.left_deep import left_deep
from decopa.planning.subquery import SubQuery
from shuffler.source.trace import open_trace
from tests.support.brute_force import Match, brute_force, canonical
from tests.support.engine import matches_of, table_of
from tests.support.memory import poisoned_memory
from tests.support.plan_text import leaves, operator, plan_of

A, B, C = leaves("a", "b", "c")


def stream(text: str) -> list[dict[str, object]]:
    """`A0 B3`: an A event at 0 us, then a B event at 3 us; ids count from 0."""
    return [{"id": number, "ts": int(word[1:]), "type": word[0]} for number, word in enumerate(text.split())]


def found(text: str, events: str) -> list[Match]:
    with interpreted(), poisoned_memory():
        return matches_of(
            parse(text), decopa.run(text, table_of(stream(events)), trace=decopa.TraceOptions(batch_size=1))
        )


def assert_exact(plan: QueryPlan, events: str, batch_sizes: Sequence[int | None] = (None, 1, 2)) -> None:
    expected = list(map(canonical, brute_force(plan.query, stream(events))))
    for batch_size in batch_sizes:
        with interpreted(), poisoned_memory():
            result = decopa.run(
                plan.query,
                table_of(stream(events)),
                planning=decopa.Planning(plan=Plan((plan,))),
                trace=decopa.TraceOptions(batch_size=batch_size),
            )
        assert sorted(map(canonical, matches_of(plan.query, result))) == expected


# ------------------------------------------------------------------- negation
@pytest.mark.parametrize(
    ("events", "matches"),
    [
        ("A0 B3 C5", 0),
        ("A0 B5 C5", 1),  # not strictly before c
        ("A0 B0 C5", 1),  # not strictly after a
        ("A0 C5 B6", 1),
        ("A0 C5 B4", 0),  # arrives last, lies inside
    ],
)
def test_not_in_the_middle_blocks_strictly_between_its_neighbours(events: str, matches: int) -> None:
    assert len(found("PATTERN SEQ(A a, NOT(B b), C c) WITHIN 10 us", events)) == matches


@pytest.mark.parametrize(
    ("events", "matches"),
    [
        ("A0 B1", 1),
        ("A0 B1 C1", 1),
        ("A0 B1 C2", 0),
        ("A0 B1 C10", 0),  # exactly at the end of the window of the match
        ("A0 B1 A10 C10", 0),  # the same, when the stream has already reached that moment
        ("A0 B1 C11", 1),
        ("A0 B1 C11 A20", 1),  # reported before the stream has ended
    ],
)
def test_not_at_the_end_blocks_until_the_window_of_the_match_has_passed(events: str, matches: int) -> None:
    assert len(found("PATTERN SEQ(A a, B b, NOT(C c)) WITHIN 10 us", events)) == matches


@pytest.mark.parametrize(
    ("events", "matches"),
    [
        ("C0 A5 B11", 1),
        ("C1 A5 B11", 0),
        ("C1 A5 A11 B11", 0),  # the same, when the stream has already reached the end of the match
        ("C4 A5 B11", 0),
        ("C5 A5 B11", 1),
    ],
)
def test_not_at_the_start_blocks_within_one_window_before_the_end(events: str, matches: int) -> None:
    assert len(found("PATTERN SEQ(NOT(C c), A a, B b) WITHIN 10 us", events)) == matches


def test_a_negated_sequence_blocks_only_as_a_whole() -> None:
    text = "PATTERN SEQ(A a, NOT(SEQ(B b, D d)), C c) WITHIN 10 us"
    assert len(found(text, "A0 D1 B2 C5")) == 1
    assert len(found(text, "A0 B1 D2 C5")) == 0


def test_not_inside_not_takes_the_block_away() -> None:
    text = "PATTERN SEQ(A a, NOT(SEQ(B b, NOT(D d), E e)), C c) WITHIN 20 us"
    assert len(found(text, "A0 B1 E3 C5")) == 0
    assert len(found(text, "A0 B1 D2 E3 C5")) == 1


def test_a_negated_event_may_be_one_that_the_match_binds() -> None:
    assert found("PATTERN AND(SEQ(A a, NOT(B n), C c), B b) WITHIN 9 us", "A0 B1 C2") == []


def test_returning_a_time_survives_a_negation() -> None:
    text = "PATTERN SEQ(AND(A a, B b), NOT(C c)) WITHIN 6 us RETURN a.ts"
    with interpreted():
        result = decopa.run(text, table_of(stream("A0 B1")))
    assert result.column("a.ts").to_pylist() == [0]


# --------------------------------------------------------------------- Kleene
def test_a_group_that_both_inputs_have_formed_is_the_same_group() -> None:
    plan = plan_of(
        "AND(KL(A a), B b, C c)",
        *(A, B, C),
        operator("ab", "a* b", "a b"),
        operator("ca", "a* c", "c a"),
        operator("q", "a* b c", "ab ca"),
    )
    assert_exact(plan, "B0 A1 A2 C3 A4")
    assert_exact(plan, "C0 B1 A2 A3 C4")


def test_members_of_a_group_come_in_time_order_with_ties_in_stream_order() -> None:
    events = [
        {"id": 7, "ts": 1, "type": "B"},
        {"id": 3, "ts": 1, "type": "B"},
        {"id": 9, "ts": 0, "type": "B"},
    ]
    events.sort(key=lambda event: int(str(event["ts"])))
    with interpreted(), poisoned_memory():
        result = decopa.run("PATTERN KL(B b) WITHIN 5 us", table_of(events), trace=decopa.TraceOptions(batch_size=1))
    assert sorted(result.column("b").to_pylist()) == [[3], [7], [7, 3], [9], [9, 3], [9, 7], [9, 7, 3]]


# --------------------------------------------------------------------- window
@pytest.mark.parametrize(
    ("pattern", "events", "matches"),
    [
        ("SEQ(A a, B b)", "A0 C10 B10", 1),
        ("SEQ(A a, B b)", "A0 C10 B11", 0),
        ("AND(A a, B b)", "B0 C10 A10", 1),
        ("AND(A a, B b, C c)", "B0 C1 C10 A10", 2),
        ("SEQ(A a, KL(B b))", "A0 B1 C10 B10", 3),
        ("SEQ(A a, KL(B b))", "A0 B1 C10 B11", 1),
        ("AND(A a, KL(B b))", "B0 C10 A10 B10", 3),
        ("KL(B b)", "B0 C10 B10", 3),
    ],
)
def test_events_exactly_one_window_apart_match_even_if_others_of_that_moment_came_first(
    pattern: str, events: str, matches: int
) -> None:
    assert len(found(f"PATTERN {pattern} WITHIN 10 us", events)) == matches


def test_a_group_grows_until_the_window_of_its_first_event_is_over() -> None:
    unary = plan_of("SEQ(A a, KL(B b))", A, B, operator("strip", "a b", "a b"), operator("q", "a b*", "strip"))
    assert_exact(replace(unary, query=replace(unary.query, window_us=10)), "A0 B1 C10 B10 B10 B11")


# ------------------------------------------------------------------------- OR
def test_an_alternative_without_matches_does_not_disturb_the_others() -> None:
    text = "PATTERN OR(SEQ(KL(A a), B b), SEQ(B b, KL(A a))) WITHIN 6 us"
    assert found(text, "A0 B1") == [{"a": (0,), "b": (1,)}]


def test_a_match_of_two_alternatives_appears_once() -> None:
    assert found("PATTERN OR(SEQ(A a, B b), AND(B b, A a)) WITHIN 6 us", "A0 B1") == [{"a": (0,), "b": (1,)}]


# --------------------------------------------------------------------- result
def test_the_columns_of_a_result_do_not_depend_on_whether_there_are_matches() -> None:
    text = "PATTERN SEQ(A a, KL(B b)) WITHIN 5 us RETURN a.ts, b.ts, b.id"
    with interpreted():
        some = decopa.run(text, table_of(stream("A0 B1")))
        none = decopa.run(text, table_of(stream("B0 A1")))
    assert none.num_rows == 0
    assert none.schema == some.schema


def test_matches_of_another_part_are_compared_no_more_often_than_ones_own() -> None:
    query = parse("QUERY q PATTERN SEQ(A a, B b, C c) WHERE a.x < b.x WITHIN 40 us")
    pair, third, whole = (SubQuery(frozenset(names)) for names in ("ab", "c", "abc"))
    fragment = left_deep(parse("QUERY f PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 40 us"))
    view = PlanOperator("o1", pair, view=View("f", fragment.root.name, (("a", "a"), ("b", "b"))))
    user = QueryPlan(query, (view, PlanOperator("o2", third), PlanOperator("o3", whole, ("o1", "o2"))))
    draw = Random(1)
    events = pa.table(
        {
            "id": range(300),
            "ts": sorted(draw.randrange(3_000) for _ in range(300)),
            "type": [draw.choice("ABC") for _ in range(300)],
            "x": [draw.random() for _ in range(300)],
        }
    )
    compared = []
    for plan in (Plan((left_deep(query),)), Plan((replace(fragment, key="f", fragment=True), user))):
        with interpreted():
            runtime = LocalRuntime(plan, open_trace(events))
            runtime.run()
        compared.append(sum(report.comparisons for report in runtime.reports()))
    assert compared[0] == compared[1] > 0


def test_matches_leave_memory_with_the_result() -> None:
    """Units refer to each other in circles; the matches must not wait for Python to find those."""
    events = pa.table({"id": range(2_000), "ts": range(2_000), "type": ["A", "B"] * 1_000})
    query = "PATTERN SEQ(A a, B b) WITHIN 1 ms"
    decopa.run(query, events)
    gc.collect()
    gc.disable()
    try:
        seen = weakref.WeakSet(sink for sink in gc.get_objects() if isinstance(sink, MatchSink))
        matches = decopa.run(query, events)
        assert matches.num_rows > 100_000
        held = [sink for sink in gc.get_objects() if isinstance(sink, MatchSink) and sink not in seen]
        assert not held
    finally:
        gc.enable()
