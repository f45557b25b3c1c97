"""The driver of a run on a live stream: starts it or goes on with it; SIGTERM stops it with a checkpoint.

    python -m scripts.reliability.stream_driver NUMBER FOLDER TRACE ADDRESS EVERY_S SPAWNED

Ends with status 2 after an error that has a message; any other end but 0 is a defect.
"""

from __future__ import annotations

import json
import logging
import signal
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import decopa
from cluster.checkpoint.recovery import Checkpoints, Recovery
from cluster.options import RayOptions
from decopa.errors import DecoPaError
from scripts.reliability.jobs import Job
from shuffler.source.live.address import SourceAddress, parse_address

#: The columns of `scripts.reliability.jobs.write_trace`, and so of what a feed sends.
COLUMNS = {"id": "int", "ts": "int", "type": "string", "x": "float", "y": "float", "k": "int", "s": "string"}


def main(number: int, folder: Path, trace: Path, address: str, every_s: float, spawned: float) -> int:
    """With `until=end` in the address the run ends where the stream ends now."""
    logging.basicConfig()
    job = Job(number, folder, trace, 0.0)
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    called = time.time()

    def note(what: dict[str, Any]) -> None:
        with trace.with_name("notes.jsonl").open("a") as file:
            file.write(json.dumps({"job": number, "at": time.time(), **what}) + "\n")

    def recovered(one: Recovery) -> None:
        own_s = called - spawned if one.lost == "driver" else 0.0
        note({"lost": one.lost, "checkpoint": one.checkpoint, "process_start_s": one.process_start_s + own_s})

    note({"began": spawned})
    source = replace(parse_address(address), columns=COLUMNS)

    def as_now(before: SourceAddress) -> SourceAddress:
        return replace(before, servers=source.servers, until_end=source.until_end)

    try:
        if (job.checkpoints / "run.json").exists():
            result = decopa.resume(job.checkpoints, source=as_now, watch=decopa.Watch(recovered=recovered, stop=stop))
        else:
            result = decopa.run_with_checkpoints(
                job.query,
                source,
                out=decopa.Output(str(job.out), job.form),
                checkpoint=Checkpoints(str(job.checkpoints), every_s=every_s, keep=4, retries=8),
                units=job.units,
                ray=RayOptions(metrics=False, shufflers=job.shufflers),
                watch=decopa.Watch(recovered=recovered, stop=stop),
            )
    except DecoPaError as err:
        note({"error": str(err)})
        print(f"{type(err).__name__}: {err}", file=sys.stderr)
        return 2
    note({"stopped" if result.stopped else "finished": result.published.matches})
    return 0


if __name__ == "__main__":
    arguments = sys.argv[1:]
    sys.exit(
        main(
            int(arguments[0]),
            Path(arguments[1]),
            Path(arguments[2]),
            arguments[3],
            float(arguments[4]),
            float(arguments[5]),
        )
    )
