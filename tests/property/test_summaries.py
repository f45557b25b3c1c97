"""Figures over matches: what a person would compute from the matches themselves, under any plan."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from random import Random
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

import decopa
from actors.columnar.jit import interpreted
from decopa.planning.plan import Plan
from decopa.query.conditions.predicate import Attr
from decopa.query.query import Query
from decopa.query.summary import Aggregate, Summary
from decopa.runs.execute import execute
from decopa.runs.preparation.prepare import prepare
from decopa.runs.spec import Planning, RunSpec, TraceOptions
from tests.property.test_matches import ATTRIBUTES
from tests.support.engine import table_of
from tests.support.examples import examples
from tests.support.memory import poisoned_memory
from tests.support.plans import plans
from tests.support.strategies import queries, streams


def by_hand(rows: Sequence[dict[str, Any]], summary: Summary) -> list[dict[str, Any]]:
    """The figures from the matches, one by one."""
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        period = () if summary.every_us is None else (row["end_ts"] // summary.every_us * summary.every_us,)
        groups.setdefault((*period, *(row[str(attr)] for attr in summary.group_by)), []).append(row)
    if not summary.group_by and summary.every_us is None:
        groups.setdefault((), [])
    result = []
    for key in sorted(groups, key=lambda key: [(value is None, 0 if value is None else value) for value in key]):
        shown = {} if summary.every_us is None else {"from_ts": key[0]}
        shown |= {str(attr): value for attr, value in zip(summary.group_by, key[len(shown) :], strict=True)}
        shown |= {str(one): figure(one, groups[key]) for one in summary.aggregates}
        result.append(shown)
    return result


def figure(aggregate: Aggregate, rows: Sequence[dict[str, Any]]) -> Any:
    if aggregate.of is None:
        return len(rows)
    values = [row[str(aggregate.of)] for row in rows if row[str(aggregate.of)] is not None]
    if not values:
        return None
    total = sum(map(Fraction, values), Fraction(0))
    whole = all(isinstance(value, int) for value in values)
    return {
        "min": min(values),
        "max": max(values),
        "sum": int(total) if whole else float(total),
        "avg": float(total / len(values)),
    }[aggregate.function]


def found_by(
    query: Query,
    events: pa.Table,
    *,
    plan: Plan | None = None,
    batch_size: int | None = None,
    interleaving: Random | None = None,
    count: bool = False,
) -> pa.Table:
    planning = Planning(plan=plan, strategy="left-deep")
    spec = RunSpec(TraceOptions(batch_size=batch_size), planning, runtime="local", count=count)
    return execute(prepare(spec, [query], events), interleaving=interleaving).matches


@st.composite
def summaries(draw: st.DrawFn, query: Query) -> Summary:
    plain = [alias for alias in query.positive_aliases if alias not in query.kleene_aliases]
    group_by: list[Attr] = []
    aggregates = [Aggregate("count")]
    if plain:
        attrs = st.builds(Attr, st.sampled_from(plain), st.sampled_from(sorted(ATTRIBUTES)))
        numbers = st.builds(Attr, st.sampled_from(plain), st.sampled_from(["x", "y", "k"]))
        group_by = draw(st.lists(attrs, max_size=2, unique=True))
        functions = st.sampled_from(["min", "max", "sum", "avg"])
        aggregates += draw(st.lists(st.builds(Aggregate, functions, numbers), max_size=3, unique=True))
    every_us = draw(st.one_of(st.none(), st.integers(1, 30)))
    return Summary((*group_by, *aggregates), tuple(group_by), every_us)


@settings(max_examples=examples(80))
@given(st.data())
def test_figures_are_those_of_the_matches_under_any_plan(data: st.DataObject) -> None:
    query = data.draw(queries(max_positions=4).filter(lambda one: len(one.branches) == 1))
    summary = data.draw(summaries(query))
    events = table_of(data.draw(streams(query)), ATTRIBUTES)
    rows = Query(query.pattern, query.where, query.window_us, query.name, summary.attributes)
    figures = Query(query.pattern, query.where, query.window_us, query.name, summary.attributes, summary)
    assert decopa.parse(str(figures)) == figures
    plan = data.draw(plans(figures))
    interleaving = Random(data.draw(st.integers(0, 2**16)))
    with interpreted(), poisoned_memory():
        expected = by_hand(found_by(rows, events).to_pylist(), summary)
        found = found_by(figures, events, plan=plan, batch_size=2, interleaving=interleaving)
    assert [{name: row[name] for name in row if name != "query"} for row in found.to_pylist()] == expected


@settings(max_examples=examples(80))
@given(st.data())
def test_counting_without_matches_counts_them_all(data: st.DataObject) -> None:
    query = data.draw(queries(max_positions=4).filter(lambda one: len(one.branches) == 1))
    events = table_of(data.draw(streams(query)), ATTRIBUTES)
    plan = data.draw(plans(query))
    with interpreted(), poisoned_memory():
        expected = found_by(query, events).num_rows
        found = found_by(query, events, plan=plan, batch_size=3, count=True)
    assert found.column("count(*)").to_pylist() == [expected]


def test_subsets_of_a_group_are_counted_beyond_64_bits() -> None:
    types = ["A", *["B"] * 100, "C"]
    trace = {"id": list(range(102)), "ts": list(range(102)), "type": types}
    with interpreted():
        query = decopa.parse("PATTERN SEQ(A a, KL(B b), C c) WITHIN 1 s RETURN count(*)")
        found = found_by(query, pa.table(trace))
    assert found.column("count(*)").to_pylist() == [2**100 - 1]


def test_sums_do_not_depend_on_the_order_of_matches() -> None:
    values = [1e16, 1.0, -1e16, 1e-3] * 5
    trace = {"id": list(range(20)), "ts": list(range(20)), "type": ["A"] * 20, "x": values}
    with interpreted():
        query = decopa.parse("PATTERN A a WITHIN 1 s RETURN sum(a.x), avg(a.x)")
        found = found_by(query, pa.table(trace)).to_pylist()
    assert found[0]["sum(a.x)"] == math.fsum(values)
    assert found[0]["avg(a.x)"] == float(sum(map(Fraction, values)) / 20)
