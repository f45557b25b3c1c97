"""A query on a stream of Spark's Structured Streaming."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from decopa.query.query import Query
from decopa.runs.preparation.planning import check_measurable, choose_plan
from decopa.runs.preparation.prepare import check_adapt, with_defaults
from decopa.runs.runtimes.adapting import Planned, loop_for
from decopa.runs.spec import RunSpec
from decopa.runs.streams.publication import Publication
from decopa.runs.support import Way, check_supported

if TYPE_CHECKING:
    from cluster.spark.streams.match_stream import MatchStream

_LOG = logging.getLogger("decopa")


def stream_spec(
    spec: RunSpec,
    queries: Sequence[Query],
    frame: Any,
    *,
    out: str | Path,
    checkpoint: str | Path,
    trigger: Mapping[str, Any] | None = None,
    name: str | None = None,
) -> MatchStream:
    """Plans without measuring, since a stream cannot be measured before it runs, and starts the stream."""
    queries = tuple(queries)
    spec = with_defaults(spec, frame)
    check_supported(spec, Way.STREAM)
    check_adapt(spec, queries, Way.STREAM)
    check_measurable(spec.planning)
    from cluster.spark.streams.micro_batches import StreamWork, start_stream  # Ray, which takes a second

    statistics = spec.planning.known_statistics(len(queries))
    chosen = choose_plan(spec.planning, queries, statistics)
    adapt = spec.adapt
    planned = Planned(spec.planning, queries, chosen.plan, chosen.strategy, statistics, published=True)
    work = StreamWork(
        chosen.plan,
        lambda: Publication(queries, steadily=True),
        columns=spec.trace.columns,
        lateness=spec.trace.lateness,
        limits=spec.limits,
        options=spec.ray,
        loop_of=None if adapt is None else lambda run: loop_for(planned, adapt, run, tell=_LOG.info),
    )
    return start_stream(
        frame,
        work,
        out=Path(out),
        checkpoint=Path(checkpoint),
        trigger=None if trigger is None else dict(trigger),
        name=name,
    )
