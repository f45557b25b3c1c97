"""NEXT, STRICT, EXCEPT, FILTER and STRATEGY as a user writes them, with tiny streams and their matches."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import decopa
from actors.columnar.jit import interpreted
from decopa.errors import PlanError, QueryError
from decopa.language.builder import event, except_, next_, query, seq, strict
from decopa.language.text.parser import parse
from decopa.planning.plan import Plan, PlanOperator, QueryPlan
from decopa.planning.subquery import SubQuery
from decopa.planning.validate import check_structure, violations
from decopa.runs.spec import Planning


def matches(text: str, stream: str, **columns: list[Any]) -> list[str]:
    """Matches as words: the events of `a1 b2 c5` are of type A at time 1, and so on."""
    names = stream.split()
    table = pa.table(
        {
            "id": names,
            "ts": [int(name.strip("abcdefgh'")) for name in names],
            "type": [name[0].upper() for name in names],
            **columns,
        }
    )
    parsed = parse(text)
    with interpreted():
        rows = decopa.run(parsed, table).to_pylist()
    return sorted(" ".join(row[alias] for alias in parsed.positive_aliases) for row in rows)


def test_next_takes_the_first_event_that_follows_where_seq_takes_every_one() -> None:
    stream = "a1 b2 b3 b4 c5"
    assert matches("PATTERN NEXT(A a, B b, C c) WITHIN 1 s", stream) == ["a1 b2 c5"]
    assert len(matches("PATTERN SEQ(A a, B b, C c) WITHIN 1 s", stream)) == 3


def test_several_successors_at_one_time_are_all_successors() -> None:
    assert matches("PATTERN NEXT(A a, B b) WITHIN 1 s", "a1 b1 b2 b2' b3") == ["a1 b2", "a1 b2'"]


def test_a_filter_skips_an_event_and_a_plain_condition_ends_the_match() -> None:
    x = {"x": [1, 0, 5]}
    assert matches("PATTERN NEXT(A a, B b) WHERE FILTER(b.x > 1) WITHIN 1 s", "a1 b2 b3", **x) == ["a1 b3"]
    assert matches("PATTERN NEXT(A a, B b) WHERE b.x > 1 WITHIN 1 s", "a1 b2 b3", **x) == []


def test_a_missing_value_is_skipped_by_filter_and_ends_the_match_without() -> None:
    x = {"x": [1, None, 5]}
    assert matches("PATTERN NEXT(A a, B b) WHERE FILTER(b.x > a.x) WITHIN 1 s", "a1 b2 b3", **x) == ["a1 b3"]
    assert matches("PATTERN NEXT(A a, B b) WHERE b.x > a.x WITHIN 1 s", "a1 b2 b3", **x) == []


def test_strict_lets_no_event_of_any_type_in_between() -> None:
    assert matches("PATTERN STRICT(A a, B b) WITHIN 1 s", "a1 e2 b3 a4 b5") == ["a4 b5"]
    assert matches("PATTERN NEXT(A a, B b) WITHIN 1 s", "a1 e2 b3 a4 b5") == ["a1 b3", "a4 b5"]


def test_one_position_may_be_of_several_types() -> None:
    assert matches("PATTERN NEXT(A a, (B|C) x) WITHIN 1 s", "a1 b2 c3") == ["a1 b2"]
    assert matches("PATTERN NEXT(A a, * x) WITHIN 1 s", "a1 e2 c3") == ["a1 e2"]
    assert matches("PATTERN SEQ((A|C) a, B b) WITHIN 1 s", "a1 c2 b3") == ["a1 b3", "c2 b3"]


def test_an_alternative_may_come_first() -> None:
    rows = decopa.run(
        "PATTERN NEXT(OR(A a, B b), C c) WITHIN 1 s",
        pa.table({"id": [1, 2, 3], "ts": [1, 2, 3], "type": ["A", "B", "C"]}),
    ).to_pylist()
    assert [(row["a"], row["b"], row["c"]) for row in rows] == [(1, None, 3), (None, 2, 3)]


def test_an_exception_looks_from_the_first_to_the_last_event_also_at_times_of_middle_ones() -> None:
    text = "PATTERN EXCEPT(NEXT(A a, B b, C c), E e) WITHIN 1 s"
    assert matches(text, "a1 b2 c3") == ["a1 b2 c3"]
    assert matches(text, "a1 b2 e2 c3") == []
    assert matches(text, "a1 e1 b2 c3 e3") == ["a1 b2 c3"]
    assert matches("PATTERN NEXT(A a, NOT(E e), B b, NOT(E e2), C c) WITHIN 1 s", "a1 b2 e2 c3") == ["a1 b2 c3"]


def test_an_exception_to_the_right_begins_with_the_event_before_it() -> None:
    text = "PATTERN NEXT(SEQ(A a, B b), EXCEPT(C c, E e)) WITHIN 1 s"
    assert matches(text, "a1 e2 b3 c4") == ["a1 b3 c4"]  # an E inside the first pattern does no harm (trap 4)
    assert matches("PATTERN EXCEPT(NEXT(SEQ(A a, B b), C c), E e) WITHIN 1 s", "a1 e2 b3 c4") == []


def test_next_with_several_types_takes_one_of_them_not_one_of_each() -> None:
    assert matches("PATTERN NEXT(A a, (B|C) x) WITHIN 1 s", "a1 b2 c3") == ["a1 b2"]  # trap 5: one, not two


@pytest.mark.parametrize(
    ("strategy", "found"),
    [("any", ["a1 b2", "a1 b4"]), ("next", ["a1 b4"]), ("contiguous", []), ("contiguous BY k", ["a1 b4"])],
)
def test_a_strategy_reads_a_sequence(strategy: str, found: list[str]) -> None:
    condition = {"any": "b.x >= 0", "next": "b.x = 1", "contiguous": "b.x >= 0", "contiguous BY k": "b.x >= 0"}
    text = f"PATTERN SEQ(A a, B b) STRATEGY {strategy} WHERE {condition[strategy]} WITHIN 1 s"
    stream = "a1 b2 b4" if strategy in ("any", "next") else "a1 e2 b4"
    columns = {"x": [0, 0, 1], "k": [7, 8, 7]}
    assert matches(text, stream, **columns) == found


def test_the_text_of_a_query_is_read_back_as_the_same_query() -> None:
    for text in (
        "PATTERN NEXT(A a, B b, (C|D) c) WHERE FILTER(b.k = a.k) AND FILTER(c.x > 1) AND c.x > a.x WITHIN 1 s",
        "PATTERN NEXT(STRICT(A a, B b), NOT(E e), * c) WITHIN 1 s",
        "PATTERN EXCEPT(NEXT(KL(A a), B b), OR(E e, D d)) WITHIN 1 s",
        "PATTERN SEQ(next a, filter b, strict c) WITHIN 1 s",
    ):
        parsed = parse(text)
        assert parse(str(parsed)) == parsed


def test_nested_next_is_one_chain() -> None:
    flat = parse("PATTERN NEXT(A a, B b, C c) WITHIN 1 s")
    assert parse("PATTERN NEXT(A a, NEXT(B b, C c)) WITHIN 1 s") == flat
    assert parse("PATTERN NEXT(NEXT(A a, B b), C c) WITHIN 1 s") == flat


def test_the_builder_makes_what_the_text_says() -> None:
    a, b, c = event("A", "a"), event(["B", "C"], "b"), event("*", "c")
    built = query(next_(a, b, c), where=c.x > a.x, filters=[b.k == a.k], within="1 s")
    text = "PATTERN NEXT(A a, (B|C) b, * c) WHERE FILTER(b.k = a.k) AND c.x > a.x WITHIN 1 s"
    assert built == parse(text)
    assert query(except_(strict(a, b), c), within="1 s") == parse(
        "PATTERN EXCEPT(STRICT(A a, (B|C) b), * c) WITHIN 1 s"
    )
    by = query(seq(a, b), where=b.x > 1, within="1 s", strategy="contiguous", by="k")
    assert by == parse("PATTERN SEQ(A a, (B|C) b) STRATEGY contiguous BY k WHERE b.x > 1 WITHIN 1 s")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("PATTERN NEXT(A a, OR(B b, C c)) WITHIN 1 s", "line 1, column 9: OR(B b, C c) stands to the right in NEXT"),
        ("PATTERN NEXT(A a, KL(B b)) WITHIN 1 s", "put KL first"),
        ("PATTERN NEXT(A a, SEQ(B b, C c)) WITHIN 1 s", "takes single events after its first pattern"),
        ("PATTERN NEXT(A a, NOT(B b)) WITHIN 1 s", "a NOT at an end of NEXT"),
        ("PATTERN SEQ(A a, B b) WHERE FILTER(b.x = a.x) WITHIN 1 s", "line 1, column 36: FILTER(b.x = a.x) skips"),
        ("PATTERN NEXT(A a, B b) WHERE NOT FILTER(b.x = 1) WITHIN 1 s", "column 34: FILTER stands inside another"),
        ("PATTERN NEXT(A a, B b) WHERE a.x = 1 OR FILTER(b.x = 1) WITHIN 1 s", "FILTER stands inside another"),
        ("PATTERN NEXT(A a, (B|B) b) WITHIN 1 s", "the type 'B' is listed twice"),
        ("PATTERN NEXT(A a, (B|C)) WITHIN 1 s", "(B|C) needs an alias"),
        ("PATTERN AND(A a, B b) STRATEGY next WITHIN 1 s", "column 23: STRATEGY next reads a SEQ"),
        ("PATTERN SEQ(A a, B b) STRATEGY next BY k WITHIN 1 s", "write STRATEGY contiguous BY k"),
        ("PATTERN EXCEPT(AND(A a, B b), C c) WITHIN 1 s", "EXCEPT takes events in order"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_what_to_write(text: str, said: str) -> None:
    with pytest.raises(QueryError) as caught:
        parse(text)
    assert said in str(caught.value)


# ------------------------------------------------------------------ plan shapes
def shaped(text: str, shape: Any, *dealt: str) -> QueryPlan:
    """A plan of nested pairs: (("a", "b"), "c"); names in `dealt` are partitioned."""
    operators: dict[str, PlanOperator] = {}

    def add(node: Any) -> PlanOperator:
        if isinstance(node, str):
            found = PlanOperator(node, SubQuery(frozenset(node)), partitioned=node in dealt)
        else:
            inputs = [add(child) for child in node]
            aliases = frozenset().union(*(one.sub_query.aliases for one in inputs))
            name = "".join(sorted(aliases))
            found = PlanOperator(
                name, SubQuery(aliases), tuple(one.name for one in inputs), 2 if dealt else 1, name in dealt
            )
        return operators.setdefault(found.name, found)

    add(shape)
    return QueryPlan(parse(text).branches[0], tuple(operators.values()))


LEFT, RIGHT, OVERLAP = (("a", "b"), "c"), ("a", ("b", "c")), (("a", "b"), ("b", "c"))
PLAIN = "PATTERN NEXT(A a, B b, C c) WITHIN 1 s"
KEYED = "PATTERN NEXT(A a, B b, C c) WHERE FILTER(b.k = a.k) AND FILTER(c.k = b.k) WITHIN 1 s"


def rules(text: str, shape: Any, *dealt: str) -> set[str]:
    return {violation.rule for violation in violations(shaped(text, shape, *dealt))}


def test_without_conditions_every_tree_is_exact() -> None:
    assert not rules(PLAIN, LEFT) and not rules(PLAIN, RIGHT) and not rules(PLAIN, OVERLAP)


def test_a_deciding_condition_inside_the_second_input_is_refused_by_name() -> None:
    text = "PATTERN NEXT(A a, B b, C c) WHERE b.x < c.x WITHIN 1 s"
    assert not rules(text, LEFT) and not rules(text, OVERLAP)
    assert rules(text, RIGHT) == {"next-deciding-condition"}
    assert rules("PATTERN STRICT(A a, B b, C c) WITHIN 1 s", RIGHT) == {"next-deciding-condition"}
    assert rules("PATTERN NEXT(A a, B b, C c) WHERE b.x < 1 WITHIN 1 s", RIGHT) == {"next-deciding-condition"}


def test_the_stream_of_trap_1_has_no_match_under_any_accepted_plan() -> None:
    text = "PATTERN NEXT(A a, B b, C c) WHERE b.x < c.x WITHIN 1 s"
    table = pa.table({"id": [1, 2, 3, 4], "ts": [3, 4, 6, 8], "type": list("ABBC"), "x": [0, 3, 2, 3]})
    with interpreted():
        for shape in (LEFT, OVERLAP):
            plan = Plan((shaped(text, shape),))
            assert decopa.run(text, table, planning=Planning(plan=plan)).num_rows == 0
    with pytest.raises(PlanError, match="next-deciding-condition"):
        check_structure(shaped(text, RIGHT))


def test_a_filter_inside_the_second_input_must_be_a_key_that_the_first_fixes() -> None:
    assert not rules(KEYED, RIGHT)
    only_inside = "PATTERN NEXT(A a, B b, C c) WHERE FILTER(c.k = b.k) WITHIN 1 s"
    assert rules(only_inside, RIGHT) == {"next-filter-inside"} and not rules(only_inside, OVERLAP)
    other_key = "PATTERN NEXT(A a, B b, C c) WHERE FILTER(b.k = a.k) AND FILTER(c.x = b.x) WITHIN 1 s"
    assert rules(other_key, RIGHT) == {"next-filter-inside"}
    assert rules("PATTERN NEXT(A a, B b, C c) WHERE FILTER(c.x > b.x) WITHIN 1 s", RIGHT) == {"next-filter-inside"}


def test_a_filter_on_an_event_further_back_needs_that_event() -> None:
    text = "PATTERN NEXT(A a, B b, C c) WHERE FILTER(c.k = a.k) WITHIN 1 s"
    assert not rules(text, LEFT)
    assert rules(text, OVERLAP) == {"next-filter-outside"}
    assert "next-filter-outside" in rules(text, RIGHT)


def test_events_of_a_next_are_not_joined_with_others_before_it_is_complete() -> None:
    text = "PATTERN AND(NEXT(A a, B b), C c) WITHIN 1 s"
    assert not rules(text, (("a", "b"), "c"))
    assert "next-torn" in rules(text, ("a", ("b", "c")))
    assert "next-torn" in rules(PLAIN, (("a", "c"), "b"))


def test_the_input_that_follows_is_broadcast_unless_both_are_hashed_by_a_key() -> None:
    assert not rules(PLAIN, LEFT, "a", "ab")
    assert rules(PLAIN, LEFT, "b") == {"next-input-partitioned"}
    assert rules(PLAIN, LEFT, "a", "b") == {"next-input-partitioned"}
    assert not rules(KEYED, LEFT, "a", "b", "ab", "c")
    assert rules(KEYED, LEFT, "b") == {"next-input-partitioned"}


def test_groups_are_formed_before_what_follows_them() -> None:
    parsed = parse("PATTERN NEXT(KL(A a), B b) WITHIN 1 s").branches[0]
    a, b = PlanOperator("a", SubQuery(frozenset("a"))), PlanOperator("b", SubQuery(frozenset("b")))
    late = PlanOperator("ab", SubQuery(frozenset("ab"), frozenset("a")), ("b", "a"))
    assert "next-open-kleene" in {one.rule for one in violations(QueryPlan(parsed, (a, b, late)))}
