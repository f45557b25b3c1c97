"""Statistics of a stream as it is now: selectivities from a sample of the last windows, rates from exact counts."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

import numpy as np

from costmodel.sampling.estimate import estimate_statistics
from costmodel.sampling.events import EventColumns
from costmodel.statistics import Statistics
from decopa.query.query import Query

#: Events of each type that a sample takes.
PER_TYPE = 2_000
#: A type that has stopped still has a rate, since prices need one: less than one event in so many windows.
_SELDOM = 1e-3


def thinned(
    events: EventColumns, per_type: int, rng: np.random.Generator, *, whole: Collection[str] = ()
) -> EventColumns:
    """At most `per_type` events of each type, drawn at random, in time order; all of those in `whole`. Shares of pairs
    that fulfil a condition survive this."""
    kept = np.ones(len(events), dtype=np.bool_)
    for code, name in enumerate(events.type_names):
        rows = np.flatnonzero(events.type_codes == code)
        if len(rows) > per_type and name not in whole:
            kept[rng.choice(rows, len(rows) - per_type, replace=False)] = False
    if kept.all():
        return events
    columns = {name: column[kept] for name, column in events.columns.items()}
    return replace(events, ts=events.ts[kept], type_codes=events.type_codes[kept], columns=columns)


def statistics_now(
    query: Query, events: EventColumns, rates: Mapping[str, float], *, per_type: int = PER_TYPE, seed: int = 0
) -> Statistics:
    """What a planner needs to know about a query, from the `events` of the last windows and the `rates` counted (events
    per window of the query). Raises StatisticsError if the events cannot show it.

    How many groups a KL forms and what a NOT blocks depends on how dense events are, so types that a query has below KL
    or NOT are not thinned.
    """
    dense = {
        name
        for branch in query.branches
        for position in branch.positions
        if position.scope or position.kleene
        for name in position.types
    }
    sample = thinned(events, per_type, np.random.default_rng(seed), whole=dense)
    found = estimate_statistics(query, sample, seed=seed).statistics
    known = {name: max(rates.get(name, rate), _SELDOM) for name, rate in found.rates.items()}
    return replace(found, rates=known, profiles={})
