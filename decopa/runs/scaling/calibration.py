"""What one processing unit can do with a query, measured on Ray: with the events of a trace, or with made-up ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from decopa.choices import DEFAULT_CALIBRATION_EVENTS, DEFAULT_CALIBRATION_REPEATS
from decopa.errors import DecoPaError, QueryError
from decopa.query.binding import bind
from decopa.query.query import Query
from shuffler.source.trace import TraceSource, open_trace

if TYPE_CHECKING:
    from costmodel.calibration import Calibration


def largest_branch(queries: Sequence[Query]) -> Query:
    """The alternative with the most positions of the one query that is calibrated."""
    if len(queries) != 1:
        raise QueryError(f"{len(queries)} queries; a capacity is that for one query: calibrate each on its own")
    return max(queries[0].branches, key=lambda branch: len(branch.aliases))


def calibrated(
    query: Query,
    source: TraceSource,
    *,
    events: int = DEFAULT_CALIBRATION_EVENTS,
    repeats: int = DEFAULT_CALIBRATION_REPEATS,
    address: str | None = None,
) -> Calibration:
    """Runs the operators of the query under growing load, on every node of a cluster or on a Ray started here."""
    from cluster.measure.calibrate import calibrate_cluster, calibration_spec
    from cluster.ray_session import ray_session

    spec = calibration_spec(query, source, events=events, repeats=repeats)
    with ray_session(address=address, dashboard=False):
        return calibrate_cluster(spec)


def made_up_events(query: Query, events: int) -> TraceSource:
    """Events of the query's types in turn at random, with numbers between 0 and 1 for all attributes."""
    rng = np.random.default_rng(0)
    types = sorted({position.type for position in query.positions})
    codes = pa.array(rng.integers(0, len(types), events)).cast(pa.int32())
    columns: dict[str, object] = {
        "id": np.arange(events),
        "ts": np.cumsum(rng.integers(1, 2_000, events)),
        "type": pa.DictionaryArray.from_arrays(codes, pa.array(types)),
    }
    for name in sorted(query.attributes - columns.keys()):
        columns[name] = rng.random(events)
    source = open_trace(pa.table(columns))
    try:
        bind(query, source.schema)
    except DecoPaError as err:
        raise QueryError(f"{err}; made-up events have numbers only: give --trace FILE") from err
    return source
