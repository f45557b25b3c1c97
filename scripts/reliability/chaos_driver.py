"""The driver that `scripts/chaos` and `scripts/soak` start: runs a job, or goes on with it, and notes what happens.

Ends with status 2 after an error that has a message; any other end but 0 is a defect.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import decopa
from cluster.change.deployed.plan_changes import PlanChanges
from cluster.change.history import HistoryGone
from cluster.change.outcome import Switched
from cluster.checkpoint.recovery import Recovery
from cluster.options import Checkpoints, RayOptions
from decopa.api import as_workload
from decopa.errors import DecoPaError
from decopa.planning.plan import Plan
from decopa.runs.runtimes.checkpointed import resume_checkpointed, run_checkpointed
from decopa.runs.spec import Planning, RunSpec, TraceOptions
from scripts.reliability.jobs import Job, plans_of
from shuffler.source.pacing import Replay

Note = Callable[[dict[str, Any]], None]


class Restless(PlanChanges):
    """Asks for the other of two plans again and again."""

    def __init__(self, plan: Plan, job: Job, note: Note) -> None:
        super().__init__(plan)
        self._two, self._note = plans_of(job.query, job.units), note

    def between_blocks(self, next_us: int | None = None) -> None:
        if self.is_idle and self._session.events:
            other = self._two[0] if self.plan == self._two[1] else self._two[1]
            self.change(other).add_done_callback(self._tell)
        super().between_blocks(next_us)

    def _tell(self, result: Future[Switched]) -> None:
        failure = result.exception()
        if failure is None:
            made = result.result()
            self._note({"switched": made.at_event, "pause_s": made.pause_s, "warm_up_s": made.warm_up_s})
        elif not isinstance(failure, HistoryGone):  # the run was taken up lately
            self._note({"abandoned": str(failure)})


def main(
    number: int, folder: Path, trace: Path, rate: float, every_s: float, spawned: float, *, changing: bool = False
) -> int:
    job = Job(number, folder, trace, rate)
    called = time.time()

    def note(what: dict[str, Any]) -> None:
        # Not in the folder of the job, whose disk may be full.
        with trace.with_name("notes.jsonl").open("a") as file:
            file.write(json.dumps({"job": number, "at": time.time(), **what}) + "\n")

    def recovered(one: Recovery) -> None:
        own_s = called - spawned if one.lost == "driver" else 0.0
        note({"lost": one.lost, "checkpoint": one.checkpoint, "process_start_s": one.process_start_s + own_s})

    note({"began": spawned})
    options = RayOptions(replay=Replay(rate=rate), metrics=False, shufflers=job.shufflers)
    watch = decopa.Watch(recovered=recovered)

    def restless(plan: Plan) -> PlanChanges:
        return Restless(plan, job, note)

    try:
        if (job.checkpoints / "run.json").exists():
            result = resume_checkpointed(job.checkpoints, watch=watch, changing=restless if changing else None).outcome
        else:
            spec = RunSpec(
                runtime="ray",
                planning=Planning(units=job.units),
                trace=TraceOptions(path=str(trace)),
                ray=options,
                output=decopa.Output(str(job.out), job.form),
                checkpoints=Checkpoints(str(job.checkpoints), every_s=every_s, keep=4, retries=8),
            )
            queries = as_workload(job.query)
            result = run_checkpointed(spec, queries, watch=watch, changing=restless if changing else None).outcome
    except DecoPaError as err:
        note({"error": str(err)})
        print(f"{type(err).__name__}: {err}", file=sys.stderr)
        return 2
    note({"finished": result.published.matches})
    return 0


if __name__ == "__main__":
    changes = sys.argv[7:] == ["--changes"]
    figures = map(float, sys.argv[4:7])
    sys.exit(main(int(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]), *figures, changing=changes))
