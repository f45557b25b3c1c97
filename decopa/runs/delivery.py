"""delivered: what a run found -> what its spec asked for: a table, figures, or a folder that is published whole."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from actors.sinks.outlet import Outcome, OutletSpec
from actors.sinks.parts import FolderSpec
from actors.sinks.summary import Groups
from decopa.choices import Order
from decopa.runs.folder import published, publishing
from decopa.runs.preparation.prepare import Prepared
from decopa.runs.result import RunResult, combined, query_tables
from decopa.runs.spec import RunSpec

#: Until matches are collected, and where they were written to a folder instead.
NO_MATCHES = pa.table({})


@dataclass(frozen=True)
class Found:
    """A run without its matches, and what became of those of each part of the plan."""

    result: RunResult
    outcomes: Sequence[Outcome]


def outlet_of(spec: RunSpec) -> OutletSpec:
    """What becomes of the matches of a run without checkpoints."""
    order = Order.CANONICAL if spec.order is None else Order(spec.order)
    if spec.output is None or not spec.output.is_folder:
        return OutletSpec(order, spec.count)
    return OutletSpec(order, folder=FolderSpec(Path(spec.output.path).absolute(), spec.output.max_bytes))


def delivered(prepared: Prepared, run: Callable[[OutletSpec], Found]) -> RunResult:
    """Runs, and collects or publishes the matches; after a failure nothing of a folder is left."""
    spec = prepared.spec
    outlet = outlet_of(spec)
    if outlet.folder is not None:
        with publishing(outlet.folder) as publication:
            found = run(outlet)
            parts = [part for outcome in found.outcomes if isinstance(outcome, list) for part in outcome]
            return replace(found.result, folder=published(publication, parts))
    found = run(outlet)
    tables = [outcome for outcome in found.outcomes if not isinstance(outcome, list)]
    each = query_tables(prepared.queries, tables, prepared.source.format, count=spec.count)
    by_query = {query.name: table for query, table in zip(prepared.queries, each, strict=True)}
    result = replace(found.result, matches=combined(each), by_query=by_query)
    if any(outlet.summary(query) is not None for query in prepared.queries):
        return replace(result, counted=sum(map(_matches, tables)))
    return result


def _matches(outcome: pa.Table | Groups) -> int:
    return outcome.num_rows if isinstance(outcome, pa.Table) else sum(group.matches for group in outcome.values())
