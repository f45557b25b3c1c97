"""Each construct that users of other engines expect: exactly what the referee finds, under every accepted plan.

The plain run tries a few cases of each, the slow one 500. `tests.property.test_outputs` has RETURN, ORDER BY and LIMIT,
`tests.property.test_timeouts` partial matches that timed out.
"""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from actors.columnar.jit import interpreted
from decopa.language.text.parser import parse
from tests.property.test_matches import run
from tests.property.test_next import check
from tests.support.brute_force import brute_force, canonical
from tests.support.engine import matches_of
from tests.support.examples import examples
from tests.support.memory import poisoned_memory
from tests.support.plans import plans
from tests.support.strategies import streams

CASES = 500

#: Queries without their window; one is drawn for each case.
CONSTRUCTS: dict[str, tuple[str, ...]] = {
    "NOT directly in AND": (
        "AND(A a, NOT(C c))",
        "AND(A a, B b, NOT(C c))",
        "AND(A a, B b, NOT(C c)) WHERE c.k = a.k",
        "AND(A a, NOT(SEQ(B b, C c))) WHERE b.x < c.x",
        "AND(NOT(A a), B b, NOT(C c)) WHERE b.x > 0 AND c.n = b.n",
        "SEQ(AND(A a, NOT(B b)), C c)",
        "AND(A a, KL(B b), NOT(C c)) WHERE c.k != a.k",
    ),
    "several types for one alias": (
        "SEQ((A|B) a, C c)",
        "AND((A|B) a, (B|C) b) WHERE a.k = b.k",
        "SEQ(A a, NOT((B|C) x), C c)",
        "NEXT(A a, (B|C) x) WHERE FILTER(x.k = a.k)",
        "SEQ(KL((A|B) a), C c) WHERE a.x < c.x",
        "STRICT((A|C) a, (B|C) b)",
    ),
    "an event of any type": (
        "SEQ(A a, * e, C c)",
        "AND(* e, B b) WHERE e.x < b.x",
        "NEXT(A a, * e) WHERE FILTER(e.k = a.k)",
        "SEQ(A a, NOT(* e), B b)",
        "SEQ(A a, KL(* e)) WHERE e.x > a.x",
    ),
    "sizes of groups": (
        "KL(B b){2}",
        "KL(B b){2,3}",
        "SEQ(A a, KL(B b){2,}) WHERE b.x > a.x",
        "SEQ(KL(A a){1,2}, KL(B b){2,3})",
        "SEQ(A a, ITER(B b){2,3}, C c)",
        "NEXT(ITER(A a){2,}, B b) WHERE FILTER(b.k = 1)",
        "AND(A a, KL(B b){2}) WHERE b.k = a.k",
    ),
    "KL over several events": (
        "KL(SEQ(A a, B b))",
        "KL(SEQ(A a, B b)) WHERE a.x < b.x",
        "KL(SEQ(A a, A b)){2,3}",
        "KL(AND(A a, B b)){1,2}",
        "SEQ(C c, KL(SEQ(A a, B b))) WHERE a.k = c.k",
        "SEQ(KL(SEQ(A a, B b)), C c) WHERE a.k = b.k AND b.x < c.x",
        "AND(C c, KL(SEQ(A a, B b)){2,}) WHERE b.n > c.n",
        "SEQ(KL(SEQ(A a, B b)), KL(C c))",
        "SEQ(A d, KL(SEQ(A a, AND(B b, C c)))) WHERE b.x < c.x",
        "SEQ(KL(SEQ(A a, B b)), NOT(C c), A d)",
        "KL(SEQ(A a, B b)) UNTIL(C c)",
        "SEQ(C d, KL(SEQ(A a, B b)) UNTIL(C c)) WHERE c.k = d.k",
        "KL(SEQ(A a, B b)) WHERE b.x > PREV(b.x)",
        "KL(SEQ(A a, B b)) WHERE a.x < a.x AND b.k = a.k",
        "SEQ(KL(SEQ(A a, B b)), C c) WHERE count(a) > 1 AND sum(b.x) < c.x",
        "NEXT(KL(SEQ(A a, B b)), C c) WHERE FILTER(c.k = 1)",
        "SEQ(A d, NOT(KL(SEQ(A a, B b))), C c)",
        "SEQ(A d, NOT(KL(SEQ(A a, B b)){2}), C c) WHERE a.x < b.x",
        "OR(SEQ(KL(SEQ(A a, B b)), C c), SEQ(C d, A e))",
    ),
    "UNTIL": (
        "KL(B b) UNTIL(C c)",
        "SEQ(A a, KL(B b) UNTIL(C c)) WHERE c.k = a.k",
        "KL(B b){2,} UNTIL(C c) WHERE c.x > 0",
        "SEQ(KL(B b) UNTIL(C c), A a)",
        "ITER(B b) UNTIL(C c)",
        "KL(B b) UNTIL(OR(A a, C c))",
    ),
    "PREV": (
        "KL(B b) WHERE b.x > PREV(b.x)",
        "ITER(B b) WHERE b.x >= PREV(b.x) AND FILTER(b.k = PREV(b.k))",
        "SEQ(A a, KL(B b)) WHERE b.n != PREV(b.n) AND b.k = a.k",
        "SEQ(KL(B b){2,}, C c) WHERE b.x - PREV(b.x) < 1",
        "NEXT(ITER(B b), A a) WHERE b.ts - PREV(b.ts) <= 2",
    ),
    "aggregates over members": (
        "KL(B b) WHERE sum(b.x) > 1",
        "SEQ(A a, KL(B b)) WHERE max(b.x) - min(b.x) > a.x",
        "SEQ(A a, KL(B b), C c) WHERE count(b) = 2 AND avg(b.n) < c.n",
        "ITER(B b) WHERE first(b.k) = last(b.k) AND count(b) > 1",
        "SEQ(KL(A a), KL(B b)) WHERE sum(a.n) <= sum(b.n)",
        "NEXT(KL(B b), C c) WHERE sum(b.k) = c.k OR count(b) > 2",
    ),
    "IS NULL, BETWEEN, IN and LIKE": (
        "SEQ(A a, B b) WHERE a.x IS NULL OR b.x IS NOT NULL",
        "SEQ(A a, B b) WHERE b.x BETWEEN a.x AND a.x + 1",
        "SEQ(A a, B b) WHERE a.n NOT BETWEEN -1 AND 2 AND b.k IN (0, 2)",
        "AND(A a, B b) WHERE a.s LIKE 'o%' OR b.s NOT LIKE '_'",
        "SEQ(A a, KL(B b)) WHERE b.s IS NOT NULL AND b.x BETWEEN -1.5 AND 0.5",
        "NEXT(A a, B b) WHERE FILTER(b.s LIKE '%') AND b.x IS NOT NULL",
    ),
    "functions": (
        "SEQ(A a, B b) WHERE floor(a.x) <= ceil(b.y) AND round(b.x) != 1",
        "SEQ(A a, B b) WHERE log(a.y) < exp(b.x)",
        "AND(A a, B b) WHERE pow(a.x, 2) > b.y OR mod(b.n, 2) = 0",
        "SEQ(A a, B b) WHERE hour(a.ts) = hour(b.ts) AND weekday(a.ts) >= 0",
        "SEQ(A a, B b) WHERE lower(a.s) = 'p' OR length(b.s) > 1",
        "SEQ(A a, KL(B b)) WHERE abs(b.x - a.x) < sqrt(a.y + 1) AND b.x / a.k > 0",
    ),
}  # fmt: skip

#: (an optional position, the same with it, the same without it)
OPTIONAL = (
    ("SEQ(A a, OPT(B b), C c)", "SEQ(A a, B b, C c)", "SEQ(A a, C c)"),
    ("AND(A a, OPT(KL(B b)))", "AND(A a, KL(B b))", "A a"),
    ("SEQ(OPT(A a), B b, NOT(C c)) WHERE c.k = b.k", "SEQ(A a, B b, NOT(C c)) WHERE c.k = b.k",
     "SEQ(B b, NOT(C c)) WHERE c.k = b.k"),
    ("SEQ(A a, OPT(SEQ(B b, B d)), C c) WHERE a.x < c.x", "SEQ(A a, B b, B d, C c) WHERE a.x < c.x",
     "SEQ(A a, C c) WHERE a.x < c.x"),
)  # fmt: skip
#: Patterns with PARTITION BY: the referee looks at the events of one value at a time.
PARTITIONED = (
    "SEQ(A a, B b, C c)",
    "SEQ(A a, KL(B b))",
    "SEQ(A a, NOT(B b), C c)",
    "NEXT(A a, B b, C c)",
    "NEXT(ITER(A a), B b)",
    "AND(A a, B b, NOT(C c))",
    "STRICT(A a, B b)",
)


def check_construct(data: st.DataObject, name: str) -> None:
    text = data.draw(st.sampled_from(CONSTRUCTS[name]))
    check(data, parse(f"PATTERN {text} WITHIN {data.draw(st.sampled_from((3, 8, 20)))} us"), max_events=9)


def check_optional(data: st.DataObject) -> None:
    text, *forms = data.draw(st.sampled_from(OPTIONAL))
    window = data.draw(st.sampled_from((3, 8, 20)))
    query = parse(f"PATTERN {text} WITHIN {window} us")
    events = data.draw(streams(query, max_events=9))
    expected = [match for form in forms for match in brute_force(parse(f"PATTERN {form} WITHIN {window} us"), events)]
    compare(data, text, window, events, expected)


def check_partitioned(data: st.DataObject) -> None:
    pattern, window = data.draw(st.sampled_from(PARTITIONED)), data.draw(st.sampled_from((3, 8, 20)))
    text = f"{pattern} PARTITION BY k"
    events = data.draw(streams(parse(f"PATTERN {text} WITHIN {window} us"), max_events=9))
    plain = parse(f"PATTERN {pattern} WITHIN {window} us")
    parts = ([event for event in events if event.get("k") == value] for value in (0, 1, 2))
    compare(data, text, window, events, [match for part in parts for match in brute_force(plain, part)])


def compare(data: st.DataObject, text: str, window: int, events: list, expected: list) -> None:  # type: ignore[type-arg]
    query = parse(f"PATTERN {text} WITHIN {window} us")
    plan = data.draw(plans(query))
    note(f"{query}\n{plan.to_json()}")
    with interpreted(), poisoned_memory():
        found = run(query, events, plan=plan, batch_size=data.draw(st.sampled_from((1, 3, None))),
                    interleaving=Random(data.draw(st.integers(0, 99))))  # fmt: skip
    assert sorted(map(canonical, matches_of(query, found))) == sorted(map(canonical, expected))


@pytest.mark.parametrize("name", CONSTRUCTS)
@settings(max_examples=examples(6))
@given(st.data())
def test_a_construct_finds_exactly_its_matches(name: str, data: st.DataObject) -> None:
    check_construct(data, name)


@settings(max_examples=examples(6))
@given(st.data())
def test_optional_positions_are_there_or_not(data: st.DataObject) -> None:
    check_optional(data)


@settings(max_examples=examples(6))
@given(st.data())
def test_partitions_have_nothing_to_do_with_each_other(data: st.DataObject) -> None:
    check_partitioned(data)


@pytest.mark.slow
@pytest.mark.parametrize("name", CONSTRUCTS)
@settings(max_examples=examples(CASES))
@given(st.data())
def test_five_hundred_cases_of_a_construct(name: str, data: st.DataObject) -> None:
    check_construct(data, name)


@pytest.mark.slow
@settings(max_examples=examples(CASES))
@given(st.data())
def test_five_hundred_optional_positions(data: st.DataObject) -> None:
    check_optional(data)


@pytest.mark.slow
@settings(max_examples=examples(CASES))
@given(st.data())
def test_five_hundred_partitioned_queries(data: st.DataObject) -> None:
    check_partitioned(data)
