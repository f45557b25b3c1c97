"""Jobs of a cluster: submitted, followed, stopped, and their results fetched, through the head's web interface."""

from __future__ import annotations

import contextlib
import json
import secrets
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from cluster.launch.head import DASHBOARD_PORT, NotFound, ask, dashboard
from cluster.launch.remote import Answer, Machine
from cluster.launch.shipping import IN, JOBS_FOLDER, OUT, Shipment
from decopa.documents import read_json
from decopa.errors import DeployError

RUNNING = ("PENDING", "RUNNING")
_POLL_S = 1.0
_BOOKKEEPING = "job.json"


class Host(Protocol):
    """The machine that has the jobs' folders: the head, from here or from itself."""

    def shell(self, line: str, *, stdin: str = "", timeout_s: float = 10.0) -> Answer: ...

    def copy_to(self, sources: Sequence[Path], folder: str) -> None: ...

    def copy_from(self, folder: str, target: Path) -> None: ...


class ThisMachine:
    """The head itself."""

    def shell(self, line: str, *, stdin: str = "", timeout_s: float = 10.0) -> Answer:
        done = subprocess.run(
            ["bash", "-c", line], input=stdin, capture_output=True, text=True, timeout=timeout_s, cwd=Path.home()
        )
        return Answer(done.returncode, done.stdout, done.stderr)

    def copy_to(self, sources: Sequence[Path], folder: str) -> None:
        for source in sources:
            _copy(source, Path.home() / folder / source.name)

    def copy_from(self, folder: str, target: Path) -> None:
        shutil.copytree(Path.home() / folder, target, dirs_exist_ok=True)


@dataclass(frozen=True, slots=True)
class Job:
    """A job as the head knows it; `exit_status` is its program's own."""

    id: str
    status: str
    command: str
    started_s: float
    ended_s: float | None
    exit_status: int | None
    message: str

    @property
    def running(self) -> bool:
        return self.status in RUNNING


class JobServer:
    """The jobs of one cluster. `host` has their folders, `base` is the address of the head's web interface."""

    def __init__(self, host: Host, base: str) -> None:
        self._host, self._base = host, base

    def submit(self, shipment: Shipment) -> str:
        """Takes along what the job needs, starts it, and returns its id."""
        job = f"decopa-{time.strftime('%m%d-%H%M%S')}-{secrets.token_hex(2)}"
        folder = f"{JOBS_FOLDER}/{job}"
        book = json.dumps({name: str(path) for name, path in shipment.outputs.items()})
        made = self._host.shell(
            f"umask 077; mkdir -p ~/{folder}/{IN} ~/{folder}/{OUT} && cat > ~/{folder}/{_BOOKKEEPING}", stdin=book
        )
        if made.status:
            raise DeployError(f"cannot make ~/{folder} on the head: {made.last_error}")
        with tempfile.TemporaryDirectory(prefix="decopa-") as stage:
            links = []
            for there, here in shipment.inputs.items():
                links.append(Path(stage) / Path(there).name)
                links[-1].symlink_to(here)
            if links:
                self._host.copy_to(links, f"{folder}/{IN}")
        line = f"cd ~/{folder} && . ~/.decopa-env && export DECOPA_PROGRESS=lines && "
        line += f"exec python -m decopa {shlex.join(shipment.words)}"
        request = {"entrypoint": f"exec bash -c {shlex.quote(line)}", "submission_id": job}
        answer = ask(self._base, "/api/jobs/", send={**request, "metadata": {"decopa": shlex.join(shipment.words)}})
        return str(answer["submission_id"])

    def jobs(self) -> list[Job]:
        """All jobs that were submitted, oldest first."""
        found = [_job(entry) for entry in ask(self._base, "/api/jobs/") if entry.get("submission_id")]
        return sorted(found, key=lambda job: job.started_s)

    def job(self, name: str) -> Job:
        return _job(self._about(name, ""))

    def log(self, name: str) -> str:
        """What the job has printed so far."""
        return str(self._about(name, "/logs")["logs"])

    def stop(self, name: str) -> bool:
        """Ends a job; False if it had ended already."""
        return bool(self._about(name, "/stop", method="POST")["stopped"])

    def _about(self, name: str, what: str, method: str | None = None) -> Any:
        try:
            return ask(self._base, f"/api/jobs/{name}{what}", method=method)
        except NotFound:
            raise DeployError(f"the cluster has no job '{name}'; `decopa jobs` lists them") from None

    def follow(self, name: str, show: Callable[[str], None]) -> Job:
        """Shows what a job prints, until it has ended."""
        shown = 0
        while True:
            job = self.job(name)
            text = self.log(name)
            if len(text) > shown:
                show(text[shown:])
                shown = len(text)
            if not job.running:
                return job
            time.sleep(_POLL_S)

    def outputs(self, name: str) -> dict[str, Path]:
        """Where results of a job were to go on the machine that submitted it, by their names in the job's folder."""
        answer = self._host.shell(f"cat ~/{JOBS_FOLDER}/{shlex.quote(name)}/{_BOOKKEEPING}")
        if answer.status:
            raise DeployError(f"the job '{name}' has no folder on the head; was it submitted with `decopa submit`?")
        return {
            there: Path(here)
            for there, here in read_json(answer.out, name="the answer of the head", error=DeployError).items()
        }

    def fetch(self, name: str, wanted: dict[str, Path]) -> list[Path]:
        """Copies results of a job to where they are wanted; returns those that there were."""
        with tempfile.TemporaryDirectory(prefix="decopa-") as stage:
            self._host.copy_from(f"{JOBS_FOLDER}/{name}/{OUT}", Path(stage))
            found = []
            for there, here in wanted.items():
                source = Path(stage) / Path(there).name
                if source.exists():
                    _copy(source, here)
                    found.append(here)
        return found


@contextlib.contextmanager
def job_server(head: Machine | None) -> Iterator[JobServer]:
    """The jobs of a cluster with this head, or of the one on this machine."""
    if head is None:
        yield JobServer(ThisMachine(), f"http://127.0.0.1:{DASHBOARD_PORT}")
        return
    with dashboard(head) as base:
        yield JobServer(head, base)


def _job(entry: dict[str, Any]) -> Job:
    started, ended = entry.get("start_time"), entry.get("end_time")
    status = entry.get("driver_exit_code")
    return Job(
        str(entry["submission_id"]),
        str(entry["status"]),
        str((entry.get("metadata") or {}).get("decopa") or entry.get("entrypoint") or ""),
        0.0 if started is None else started / 1e3,
        None if not ended else ended / 1e3,
        None if status is None else int(status),
        str(entry.get("message") or ""),
    )


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, dirs_exist_ok=True)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_name(f".{target.name}.part")
        shutil.copyfile(source, part)
        part.replace(target)
