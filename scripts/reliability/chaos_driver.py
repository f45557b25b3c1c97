"""The driver that `scripts/chaos` and `scripts/soak` start: runs a job, or goes on with it, and notes what happens.

Ends with status 2 after an error that has a message; any other end but 0 is a defect.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import decopa
from cluster.checkpoint.recovery import Recovery
from cluster.options import Checkpoints, RayOptions
from decopa.errors import DecoPaError
from scripts.reliability.jobs import Job
from shuffler.source.pacing import Replay


def main(number: int, folder: Path, trace: Path, rate: float, every_s: float, spawned: float) -> int:
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
    try:
        if (job.checkpoints / "run.json").exists():
            result = decopa.resume(job.checkpoints, watch=decopa.Watch(recovered=recovered))
        else:
            result = decopa.run_with_checkpoints(
                job.query,
                trace,
                out=decopa.Output(str(job.out), job.form),
                checkpoint=Checkpoints(str(job.checkpoints), every_s=every_s, keep=4, retries=8),
                units=job.units,
                ray=options,
                watch=decopa.Watch(recovered=recovered),
            )
    except DecoPaError as err:
        note({"error": str(err)})
        print(f"{type(err).__name__}: {err}", file=sys.stderr)
        return 2
    note({"finished": result.published.matches})
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]), *map(float, sys.argv[4:7])))
