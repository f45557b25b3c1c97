"""Statistics of a trace that was opened, for planning."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from costmodel.estimate import Estimate, estimate_statistics
from costmodel.events import EventColumns
from decopa.errors import StatisticsError
from decopa.query.predicate import attributes
from decopa.query.query import Query
from shuffler.source.trace import TraceSource

#: Statistics are taken from this many events at the start of a trace; more make them hardly more exact.
MAX_EVENTS = 2_000_000


def measure(queries: Sequence[Query], source: TraceSource, *, seed: int = 0) -> list[Estimate]:
    """Rates and selectivities of each query; a live stream cannot be measured beforehand."""
    if source.row_count is None:
        raise StatisticsError("a live stream cannot be measured before it runs; give statistics or a plan")
    needed = {attr.name for query in queries for predicate in query.conditions for attr in attributes(predicate)}
    source.require(needed - {"ts"})
    events = event_columns(source, sorted(needed - {"ts"}))
    found = [estimate_statistics(query, events, seed=seed) for query in queries]
    if source.row_count > len(events):
        notice = f"statistics are those of the first {len(events):,} of {source.row_count:,} events"
        found = [Estimate(one.statistics, (*one.notices, notice)) for one in found]
    return found


def event_columns(source: TraceSource, wanted: Sequence[str]) -> EventColumns:
    """The first events of a trace as columns in memory."""
    batches = list(itertools.islice(source.batches(wanted, 65_536), MAX_EVENTS // 65_536 + 1))
    if not batches:
        raise StatisticsError("rates cannot be measured: the trace has no events")
    return EventColumns(
        np.concatenate([batch.ts for batch in batches]),
        np.concatenate([batch.type_codes for batch in batches]).astype(np.int64),
        batches[-1].type_names,
        {name: np.concatenate([batch.columns[name] for batch in batches]) for name in wanted},
        source.schema.attributes,
        {text: source.strings.pin(text) for text in list(source.strings.texts())},
    )
