"""Statistics of a trace that was opened, for planning."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from costmodel.sampling.estimate import Estimate, estimate_statistics
from costmodel.sampling.events import EventColumns
from decopa.errors import StatisticsError
from decopa.query.conditions.predicate import attributes
from decopa.query.query import Query
from shuffler.rows.events import measured_columns
from shuffler.source.trace import TraceSource

#: Statistics are taken from this many events at the start of a trace; more make them hardly more exact.
MAX_EVENTS = 2_000_000


def measure(queries: Sequence[Query], source: TraceSource, *, seed: int = 0) -> list[Estimate]:
    """Rates and selectivities of each query; a live stream cannot be measured beforehand."""
    found = []
    for one in measure_each(queries, source, seed=seed):
        if isinstance(one, StatisticsError):
            raise one
        found.append(one)
    return found


def measure_each(queries: Sequence[Query], source: TraceSource, *, seed: int = 0) -> list[Estimate | StatisticsError]:
    """As `measure`; a query whose statistics the trace cannot show has the reason in place of an estimate."""
    if source.row_count is None:
        raise StatisticsError("a live stream cannot be measured before it runs; give statistics or a plan")
    needed = {attr.name for query in queries for predicate in query.conditions for attr in attributes(predicate)}
    source.require(needed - {"ts"})
    try:
        events = event_columns(source, sorted(needed - {"ts"}))
    except StatisticsError as err:
        return [err] * len(queries)
    found: list[Estimate | StatisticsError] = []
    for query in queries:
        try:
            found.append(estimate_statistics(query, events, seed=seed))
        except StatisticsError as err:
            found.append(err)
    if source.row_count > len(events):
        notice = f"statistics are those of the first {len(events):,} of {source.row_count:,} events"
        return [Estimate(one.statistics, (*one.notices, notice)) if isinstance(one, Estimate) else one for one in found]
    return found


def event_columns(source: TraceSource, wanted: Sequence[str]) -> EventColumns:
    """The first events of a trace as columns in memory."""
    batches = list(itertools.islice(source.batches(wanted, 65_536), MAX_EVENTS // 65_536 + 1))
    if not batches:
        raise StatisticsError("rates cannot be measured: the trace has no events")
    return measured_columns(batches, source.format, source.strings)
