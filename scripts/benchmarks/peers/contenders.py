"""Who runs: the names that figures are reported under, and the process that measures each."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from scripts.benchmarks.peers import flink_job
from scripts.benchmarks.peers.job import Job, Outcome, answer
from scripts.benchmarks.peers.query import FOLLOWING, SequenceQuery

ROOT = Path(__file__).resolve().parents[3]
OURS = ROOT / ".venv"
PEERS = ROOT / ".venv-peers"


@dataclass(frozen=True)
class Contender:
    """`measured_by` is a worker module or `flink`; `baseline` names the decopa run that this one is compared with."""

    name: str
    measured_by: str
    form: str = ""
    batch_events: int = 0
    baseline: str = "decopa local"
    #: The queries that it can run, by the way in which events follow.
    following: tuple[str, ...] = ("any",)

    @property
    def tool(self) -> str:
        """decopa, flink, duckdb, polars or spark: what --skip takes."""
        return self.measured_by.removesuffix("_worker")

    def reason_against(self, query: SequenceQuery) -> str | None:
        """Why it cannot run a query; None if it can."""
        if query.following not in self.following:
            return f"it has no form for events that follow by '{query.following}'"
        if self.form == "asof" and any(operator != "=" for _, _, operator, _, _ in query.comparisons):
            return "an ASOF join skips by equal keys only"
        return None

    @property
    def environment(self) -> Path:
        return OURS if self.tool == "decopa" else PEERS


#: What users get: an Arrow table in memory, Parquet files, or the number of matches.
TABLE, FOLDER, COUNT = "decopa, table", "decopa, folder", "decopa, count"
CONTENDERS = (
    Contender("decopa local", "decopa_worker", "local", following=FOLLOWING),
    Contender("decopa local, batches of 10,000", "decopa_worker", "local", 10_000, following=FOLLOWING),
    Contender("decopa local, batches of 1,000", "decopa_worker", "local", 1_000, following=FOLLOWING),
    Contender(TABLE, "decopa_worker", "table", following=FOLLOWING),
    Contender(FOLDER, "decopa_worker", "folder", following=FOLLOWING),
    Contender(COUNT, "decopa_worker", "count", following=FOLLOWING),
    # The Ray runtime puts matches in order, too.
    Contender("decopa ray, all of Ray on one core", "decopa_worker", "ray", baseline=TABLE, following=FOLLOWING),
    Contender("decopa ray, all cores", "decopa_worker", "ray-all-cores", baseline=TABLE, following=FOLLOWING),
    Contender("FlinkCEP", "flink", following=FOLLOWING),
    Contender("DuckDB, plain join", "duckdb_worker", "plain"),
    Contender("DuckDB, time-bucket join", "duckdb_worker", "bucket"),
    Contender("DuckDB, table", "duckdb_worker", "table", baseline=TABLE),
    Contender("DuckDB, folder", "duckdb_worker", "folder", baseline=FOLDER),
    Contender("DuckDB, count", "duckdb_worker", "count", baseline=COUNT),
    Contender("DuckDB, ASOF join", "duckdb_worker", "asof", following=("next",)),
    Contender("DuckDB, batches of 10,000", "duckdb_worker", "batches", 10_000, "decopa local, batches of 10,000"),
    Contender("DuckDB, batches of 1,000", "duckdb_worker", "batches", 1_000, "decopa local, batches of 1,000"),
    Contender("Polars, table", "polars_worker", "table", baseline=TABLE),
    Contender("Polars, folder", "polars_worker", "folder", baseline=FOLDER),
    Contender("Polars, count", "polars_worker", "count", baseline=COUNT),
    Contender("Spark SQL, plain join", "spark_worker", "plain"),
    Contender("Spark SQL, time-bucket join", "spark_worker", "bucket"),
)
BY_NAME: Mapping[str, Contender] = {each.name: each for each in CONTENDERS}


class ContenderFailed(Exception):
    """A contender's process gave no answer; the text has the end of what it said."""


def measure(contender: Contender, job: Job, folder: Path) -> Outcome:
    """Runs the contender in a process of its own, which inherits the core that this one is pinned to."""
    job = replace(job, form=contender.form, batch_events=contender.batch_events)
    if contender.measured_by == "flink":
        command = flink_job.command(PEERS, folder / "classes", flink_job.write_job(job, folder))
    else:
        path = folder / "job.json"
        job.save(path)
        module = f"scripts.benchmarks.peers.{contender.measured_by}"
        command = [str(contender.environment / "bin" / "python"), "-m", module, str(path)]
    patience_s = 120 + 12 * job.limit_s
    try:
        done = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, timeout=patience_s, env=dict(os.environ)
        )
    except subprocess.TimeoutExpired as err:
        raise ContenderFailed(f"no answer within {patience_s:.0f} s") from err
    if done.returncode != 0:
        said = "\n".join(done.stderr.strip().splitlines()[-15:])
        raise ContenderFailed(f"ended with status {done.returncode}:\n{said}")
    return answer(done.stdout)
