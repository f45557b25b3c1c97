"""The local runtime of a prepared run: the whole plan in this process."""

from __future__ import annotations

import random
import time

from cluster.local import DEFAULT_BATCH_SIZE, LocalRuntime
from decopa.runs.prepare import Prepared
from decopa.runs.result import RunResult, result_table
from decopa.runs.watch import Watch


def run_here(prepared: Prepared, watch: Watch, interleaving: random.Random | None = None) -> RunResult:
    """Runs to the end of the events. `interleaving` draws the order between senders at random, which changes nothing
    in the matches."""
    watch.phase("running")
    started = time.perf_counter()
    local = LocalRuntime(
        prepared.plan,
        prepared.source,
        batch_size=prepared.spec.trace.batch_size or DEFAULT_BATCH_SIZE,
        limits=prepared.spec.limits,
        interleaving=interleaving,
    )
    local.run(watch.progress if watch.recorder is None else watch.recorder.watching(watch.progress))
    matches = result_table(prepared.queries, [sink.table() for sink in local.sinks])
    return RunResult(matches, local.events, time.perf_counter() - started, local.reports(), prepared.plan)
