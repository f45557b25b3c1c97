"""A query on a stream of Spark's Structured Streaming."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from decopa.query.query import Query
from decopa.runs.preparation.planning import check_measurable, choose_plan
from decopa.runs.preparation.prepare import with_defaults
from decopa.runs.spec import RunSpec
from decopa.runs.streams.publication import Publication
from decopa.runs.support import Way, check_supported

if TYPE_CHECKING:
    from cluster.spark.streams.match_stream import MatchStream


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
    from cluster.spark.streams.micro_batches import start_stream

    queries = tuple(queries)
    spec = with_defaults(spec, frame)
    check_supported(spec, Way.STREAM)
    check_measurable(spec.planning)
    chosen = choose_plan(spec.planning, queries, spec.planning.known_statistics(len(queries)))
    return start_stream(
        frame,
        chosen.plan,
        publication=Publication(queries, steadily=True),
        out=Path(out),
        checkpoint=Path(checkpoint),
        columns=spec.trace.columns,
        lateness=spec.trace.lateness,
        limits=spec.limits,
        options=spec.ray,
        trigger=None if trigger is None else dict(trigger),
        name=name,
    )
