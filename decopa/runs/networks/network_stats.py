"""The network behind a trace: who produces what at which rate, and how selective the conditions of queries are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cluster.network.local import DEFAULT_BATCH_SIZE
from cluster.network.origins import OriginColumn
from costmodel.networks.network import EventSourcedNetwork
from costmodel.networks.network_file import MeasuredNetwork
from costmodel.networks.transmission import referenced_types
from costmodel.sampling.partners import partner_shares
from decopa.errors import StatisticsError
from decopa.query.conditions.predicate import attributes
from decopa.query.query import Query
from decopa.runs.preparation.measure import event_columns, measure
from shuffler.source.trace import TraceSource


def measured_network(
    queries: Sequence[Query], source: TraceSource, origin: str, *, buckets: int | None = None
) -> tuple[MeasuredNetwork, tuple[str, ...]]:
    """The network behind a trace: rates per node and type of the queries, per window of the first query; statistics
    of each query; shares of events that have a partner. Also lines that the user should see."""
    estimates = measure(queries, source)
    column = OriginColumn(origin, (), source, buckets=buckets)
    counts: dict[str, dict[str, int]] = {} if buckets is None else {str(node): {} for node in range(buckets)}
    wanted = referenced_types(queries)
    first_us = last_us = None
    for events in source.batches([origin], DEFAULT_BATCH_SIZE):
        places, names = column.names(events)
        first_us = int(events.ts[0]) if first_us is None else first_us
        last_us = int(events.ts[-1])
        for code, event_type in enumerate(events.type_names):
            born = np.bincount(places[events.type_codes == code], minlength=len(names))
            for name, count in zip(names, born.tolist(), strict=True):
                at = counts.setdefault(name, {})
                if count and event_type in wanted:
                    at[event_type] = at.get(event_type, 0) + count
    assert first_us is not None and last_us is not None, "measuring refuses a trace without events"
    if last_us == first_us:
        raise StatisticsError("all events share one timestamp; rates need a longer trace")
    windows = (last_us - first_us) / queries[0].window_us
    rates = {
        node: {name: count / windows for name, count in sorted(at.items())}
        for node, at in sorted(counts.items(), key=_natural)
    }
    network = EventSourcedNetwork(queries[0].window_us, rates)
    partners: dict[tuple[str, str], float] = {}
    for query in queries:
        needed = {attr.name for predicate in query.where for attr in attributes(predicate)} - {"ts"}
        columns = event_columns(source, sorted(needed))
        for branch in query.branches:
            for pair, share in partner_shares(branch, columns).items():
                partners[pair] = max(share, partners.get(pair, 0.0))
    notices = tuple(dict.fromkeys(notice for one in estimates for notice in one.notices))
    return MeasuredNetwork(network, tuple(one.statistics for one in estimates), partners), notices


def _natural(item: tuple[str, object]) -> tuple[int, str]:
    """Numbers by value, before names."""
    return (int(item[0]), "") if item[0].isdigit() else (2**62, item[0])
