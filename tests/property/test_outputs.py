"""RETURN with expressions and aggregates, ORDER BY and LIMIT: what the book says of each match of the referee."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from hypothesis import given, note, settings
from hypothesis import strategies as st

from actors.columnar.jit import interpreted
from decopa.query.conditions.predicate import Arithmetic, Attr, Call, Expr, Literal, Negative, Over
from decopa.query.output import Output, Ranking, needed_attributes
from decopa.query.query import Query
from tests.property.test_matches import run
from tests.support.brute_force import brute_force
from tests.support.evaluate import Event, is_missing, value_of
from tests.support.examples import examples
from tests.support.fulfilment import with_figures
from tests.support.groups import group_queries
from tests.support.plans import plans
from tests.support.strategies import streams


@st.composite
def outputs(draw: st.DrawFn, query: Query) -> tuple[Output, ...]:
    """A few columns: attributes, figures of groups, and arithmetic over both."""
    singles = [alias for alias in query.positive_aliases if alias not in query.kleene_aliases]
    numbers: list[Expr] = [Literal(2), Literal(0.5)]
    numbers += [Attr(alias, name) for alias in singles for name in ("x", "n", "ts")]
    for alias in sorted(query.kleene_aliases & set(query.positive_aliases)):
        numbers.append(Over("count", Attr(alias, "id")))
        numbers += [
            Over(function, Attr(alias, name))
            for function in ("sum", "avg", "min", "max", "first", "last")
            for name in ("x", "n")
        ]
    named = [one for one in numbers if not isinstance(one, Literal)]
    found: list[Expr] = []
    for _ in range(draw(st.integers(1, 3))):
        first, second = draw(st.sampled_from(named)), draw(st.sampled_from(numbers))
        shapes: list[Expr] = [first, Arithmetic(draw(st.sampled_from("+-*/")), first, second), Negative(first)]
        shapes += [Call("max", (first, second)), Call("abs", (first,))]
        found.append(draw(st.sampled_from(shapes)))
    return tuple(Output(expr, f"out{place}") for place, expr in enumerate(found))


@settings(max_examples=examples(120))
@given(st.data())
def test_columns_of_return_are_worth_what_the_book_says(data: st.DataObject) -> None:
    query = data.draw(group_queries())
    wanted = data.draw(outputs(query))
    query = replace(query, output=wanted, returns=needed_attributes(wanted))
    events = data.draw(streams(query, max_events=8))
    plan = data.draw(plans(query))
    note(str(query))
    with interpreted():
        rows = run(query, events, plan=plan).to_pylist()
    matches = brute_force(query, events)
    assert len(rows) == len(matches)
    by_ids = {_key(query, row): row for row in rows}
    for match in matches:
        row = by_ids[tuple(tuple(match[alias]) for alias in query.positive_aliases)]
        for one in wanted:
            assert _same(row[one.column], _expected(one.expr, match, events)), (one, row)


@settings(max_examples=examples(60))
@given(st.data())
def test_order_by_and_limit_keep_the_first_of_the_whole_result(data: st.DataObject) -> None:
    query = data.draw(group_queries())
    wanted = data.draw(outputs(query))
    query = replace(query, output=wanted, returns=needed_attributes(wanted))
    keys = tuple((one.column, data.draw(st.booleans())) for one in wanted)
    limit = data.draw(st.one_of(st.none(), st.integers(1, 4)))
    events = data.draw(streams(query, max_events=8))
    with interpreted():
        whole = run(query, events).to_pylist()
        found = run(replace(query, ranking=Ranking(keys, limit)), events).to_pylist()
    for name, descending in reversed(keys):  # stable, missing values last
        known = [row for row in whole if row[name] is not None]
        known.sort(key=lambda row: row[name], reverse=False) if not descending else known.sort(
            key=lambda row: -row[name]
        )
        whole = known + [row for row in whole if row[name] is None]
    assert found == whole[:limit]


def _key(query: Query, row: dict[str, Any]) -> tuple[tuple[Any, ...], ...]:
    ids = (row[alias] for alias in query.positive_aliases)
    return tuple(tuple(one) if isinstance(one, list) else (one,) for one in ids)


def _expected(expr: Expr, match: dict[str, tuple[Any, ...]], events: list[Event]) -> Any:
    event_of = {event["id"]: event for event in events}
    binding = {alias: tuple(event_of[one] for one in ids) for alias, ids in match.items()}
    plain = with_figures(expr, binding)
    return value_of(plain, {alias: group[0] for alias, group in binding.items()})


def _same(found: Any, expected: Any) -> bool:
    if is_missing(expected):
        return found is None
    return found is not None and math.isclose(found, expected, rel_tol=1e-9, abs_tol=1e-9)
