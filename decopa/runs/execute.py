"""execute: a prepared run -> its result, on whichever runtime it was prepared for."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from decopa.errors import DecoPaError
from decopa.query.query import Query
from decopa.runs.delivery import delivered
from decopa.runs.guard import Guard
from decopa.runs.preparation.opening import spark_frame
from decopa.runs.preparation.planning import per_part
from decopa.runs.preparation.prepare import Prepared, nothing, prepare, with_defaults
from decopa.runs.result import RunResult
from decopa.runs.runtimes.early_ray import EarlyRay
from decopa.runs.spec import RunSpec
from decopa.runs.watch import Watch
from decopa.runs.why.parts import Why


def run_spec(
    spec: RunSpec,
    queries: Sequence[Query],
    events: Any = None,
    *,
    watch: Watch | None = None,
    predictions: bool = False,
) -> RunResult:
    """Prepares and runs, with a Spark for the trace if the spec asks for one."""
    watch = watch or Watch()
    began = time.perf_counter()
    with ExitStack() as stack:
        if events is None and spec.trace.spark:
            watch.phase("starting Ray and Spark")
            events = stack.enter_context(spark_frame(spec))
        spec = with_defaults(spec, events)
        early = stack.enter_context(EarlyRay(spec.ray.address))
        start = early.begin if spec.runtime == "ray" else nothing
        prepared = prepare(spec, queries, events, predictions=predictions, phase=watch.phase, checked=start)
        result = execute(prepared, watch, early=early)
    return replace(result, start_s=result.began_at - began)


def execute(
    prepared: Prepared,
    watch: Watch | None = None,
    *,
    early: EarlyRay | None = None,
    interleaving: random.Random | None = None,
) -> RunResult:
    """Runs to the end of the events; the result has the notices of the preparation and those of the run.

    `early` is a Ray that may have been started already.
    """
    watch = watch or Watch()
    known = per_part(prepared.plan, prepared.queries, prepared.statistics)
    guard = Guard.of(prepared.plan, known, prepared.source.span_us, prepared.spec.limits, watch.warn)
    if prepared.spec.runtime == "ray":
        if interleaving is not None:
            raise DecoPaError("interleaving is drawn in the local runtime only")
        # Imported here because Ray takes a second, and a local run should not wait for it.
        from decopa.runs.runtimes.ray import run_on_ray

        ray = early or EarlyRay(prepared.spec.ray.address)
        found = delivered(prepared, lambda outlet: run_on_ray(prepared, watch, guard, outlet, ray))
        return completed(found, prepared, guard.warnings)
    from decopa.runs.runtimes.local import run_here

    found = delivered(prepared, lambda outlet: run_here(prepared, watch, guard, outlet, interleaving))
    return completed(found, prepared, guard.warnings)


def completed(result: RunResult, prepared: Prepared, warned: Sequence[str] = ()) -> RunResult:
    """The result with what the preparation decided, and with what the source noticed while it was read."""
    source = prepared.source
    left_out = source.dead_letters.notice
    noticed = (*source.notices, *([] if left_out is None else [left_out]), *warned)
    late = tuple(line for line in noticed if line not in prepared.notices)
    return replace(
        result,
        statistics=prepared.statistics,
        strategy=prepared.strategy,
        notices=(*prepared.notices, *late),
        warnings=(*prepared.warnings, *late),
        span_us=source.span_us,
        bad_rows=len(source.dead_letters),
        explain=_explanation(prepared),
    )


def _explanation(prepared: Prepared) -> Callable[[], tuple[Why, ...]] | None:
    """Explains the run from its events, if these can be read again."""
    if prepared.events.live or prepared.events.loaded is not None:
        return None

    def explain() -> tuple[Why, ...]:
        from decopa.runs.why.counting import explain_run

        return explain_run(prepared.queries, prepared.source)

    return explain
