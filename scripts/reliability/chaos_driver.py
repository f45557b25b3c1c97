"""The driver that `scripts/chaos` kills: starts or resumes the run in the folder that it is given."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import decopa
from cluster.checkpoint.recovery import Checkpoints, Recovery
from cluster.checkpoint.store import CheckpointStore
from cluster.options import RayOptions
from scripts.reliability.chaos import EVENTS_PER_S, QUERY
from shuffler.pacing import Replay


def main(folder: Path, units: int, mode: str) -> None:
    def note(one: Recovery) -> None:
        with (folder / "recoveries.jsonl").open("a") as file:
            file.write(json.dumps({"lost": one.lost, "checkpoint": one.checkpoint, "seconds": one.seconds}) + "\n")

    checkpoints = Checkpoints(str(folder / "checkpoints"), every_s=0.5, keep=4, retries=20)
    store = CheckpointStore(checkpoints.location)
    if mode == "resume" and (folder / "checkpoints" / "job.json").exists():
        if (folder / "fast").exists():  # the chaos is over
            store.write_job({**store.read_job(), "rate": None})
        decopa.resume(store.location, recovered=note)
        return
    decopa.run_with_checkpoints(
        QUERY,
        folder / "trace.parquet",
        out=folder / "out",
        checkpoint=checkpoints,
        units=units,
        ray=RayOptions(replay=Replay(rate=EVENTS_PER_S), metrics=False),
        recovered=note,
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
