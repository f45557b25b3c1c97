"""Counts the matches of a query by running it, bounded; and explains a run from its trace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace

import numpy as np

from actors.columnar.jit import interpreted
from actors.group import Limits
from decopa.errors import DecoPaError, LimitError, QueryError, StatisticsError
from decopa.planning.plan import Plan
from decopa.planning.strategies.left_deep import left_deep
from decopa.query.binding import missing_types
from decopa.query.conditions.predicate import attributes
from decopa.query.pattern import ANY_TYPE, leaves
from decopa.query.query import Query
from decopa.query.schema import Kind
from decopa.runs.preparation.measure import event_columns
from decopa.runs.spec import Planning, RunSpec
from decopa.runs.why.explain import MOST_CANDIDATES, explain_matches
from decopa.runs.why.parts import Why
from shuffler.source.trace import TraceSource

#: Matches that are counted for one change of a query, and seconds that this may take.
MOST_MATCHES = 1_000_000
MOST_SECONDS = 60.0
#: Traces up to this length are run without compiling anything.
_SHORT = 300


def explain_run(
    queries: Sequence[Query], source: TraceSource, *, most_candidates: int = MOST_CANDIDATES
) -> tuple[Why, ...]:
    """An explanation for each query; reads the trace once into memory, and once for every change that is tried."""
    if source.schema.intervals or any(one.delay_us for query in queries for one in leaves(query.pattern)):
        raise DecoPaError("what lasts cannot be explained: leave out --end and timers (@) to ask why")
    if source.row_count is None:
        raise DecoPaError("a live stream is gone once it was read; write it to a file to ask why")
    needed = {attr.name for query in queries for one in query.conditions for attr in attributes(one)} - {"ts"}
    source.require(needed)
    try:
        events = event_columns(source, sorted(needed))
    except StatisticsError as err:
        raise QueryError("the trace has no events, so there is nothing to explain") from err
    ids = trace_ids(source, len(events))
    frequency = {name: len(events.rows_of(name)) for name in (*events.type_names, ANY_TYPE)}

    def count(query: Query) -> int | None:
        if any(missing_types(branch, source.schema) for branch in query.branches) and len(query.branches) == 1:
            missing = set(missing_types(query, source.schema))
            if any(set(query.position(alias).types) <= missing for alias in query.positive_aliases):
                return 0
        return count_matches(query, source, frequency)

    return tuple(explain_matches(query, events, ids, count, most_candidates=most_candidates) for query in queries)


def count_matches(query: Query, source: TraceSource, frequency: Mapping[str, int]) -> int | None:
    """The number of matches; None if there are more than MOST_MATCHES, or it takes too long to find them.

    Positions are joined rare types first, as `frequency` has them.
    """
    from decopa.runs.execute import run_spec

    def rare_first(branch: Query) -> list[str]:
        return sorted(
            branch.aliases, key=lambda alias: sum(frequency.get(name, 0) for name in branch.position(alias).types)
        )

    plan = Plan(tuple(left_deep(branch, rare_first(branch)) for branch in query.branches))
    limits = Limits(max_matches=MOST_MATCHES, max_groups=MOST_MATCHES, max_seconds=MOST_SECONDS)
    # Short traces are not worth compiling loops for.
    with interpreted() if (source.row_count or 0) <= _SHORT else nullcontext():
        try:
            spec = RunSpec(planning=Planning(plan=plan), limits=limits, runtime="local")
            return int(run_spec(spec, [replace(query, ranking=None)], source).matches.num_rows)
        except LimitError:
            return None


def trace_ids(source: TraceSource, count: int) -> list[object]:
    """The ids of the first events, as the user knows them."""
    found: list[object] = []
    for batch in source.batches(["id"], 65_536):
        values = np.asarray(batch.columns["id"])
        texts = source.schema.attributes["id"].kind is Kind.STRING
        found += source.strings.decode(values.astype(np.int64)).to_pylist() if texts else values.tolist()
        if len(found) >= count:
            break
    return found[:count]
