"""`decopa run` on Ray, as a user types it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from decopa.commands.cli import main
from decopa.traces.synthetic import SyntheticSpec
from tests.support.sessions import RAY_CPUS

pytestmark = pytest.mark.ray

ROOT = Path(__file__).parents[2]
QUERY = "PATTERN SEQ(A a, B b, C c) WHERE a.x < b.x AND b.x < c.x WITHIN 20 ms"
WORKLOAD = f"QUERY rising {QUERY} QUERY groups PATTERN SEQ(A a, KL(B b)) WHERE a.k = b.k WITHIN 20 ms"
#: How long a command may take to start or to end on a busy machine.
PATIENCE_S = 180.0


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("trace") / "trace.parquet"
    pq.write_table(SyntheticSpec(events=5_000, types=3, keys=10, seed=3).table(), path)
    return path


def matches(trace: Path, out: Path, *options: str, query: str = QUERY) -> pa.Table:
    assert main(["run", query, "--trace", str(trace), "--out", str(out), "--overwrite", *options]) == 0
    return pq.read_table(out)


def fails(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    assert main(["run", *args]) == 2
    (line,) = (line for line in capsys.readouterr().err.splitlines() if not line.startswith("dashboard"))
    return line


def test_a_workload_has_the_same_matches_on_ray_as_in_one_process(
    ray_cluster: None, trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here = matches(trace, tmp_path / "local.parquet", "--runtime", "local", query=WORKLOAD)
    capsys.readouterr()
    there = matches(trace, tmp_path / "ray.parquet", "--units", "5", "--shufflers", "2", query=WORKLOAD)
    assert there.equals(here)
    told = capsys.readouterr().err
    assert "measured" in told
    assert "at full speed" in told
    assert f"rising {sum(name == 'rising' for name in here.column('query').to_pylist()):,}" in told


def test_a_plan_is_run_at_a_pace_with_emulated_capacity(
    ray_cluster: None, trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan, stats = str(tmp_path / "plan.json"), str(tmp_path / "stats.json")
    assert main(["stats", QUERY, "--trace", str(trace), "--out", stats]) == 0
    assert main(["plan", QUERY, "--stats", stats, "--units", "3", "--out", plan]) == 0
    capsys.readouterr()
    options = ["--plan", plan, "--stats", stats, "--speed", "5", "--emulate", "--iota", "1e6", "--placement", "pack"]
    matches(trace, tmp_path / "m.parquet", *options)
    told = capsys.readouterr().err
    assert told.count("emulated") >= 2
    assert "from the arrival of a match's last event" in told


def test_more_units_than_the_cluster_has_and_unknown_pins_are_refused(
    ray_cluster: None, trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    start = [QUERY, "--trace", str(trace), "--out", str(tmp_path / "m.csv")]
    message = fails(capsys, *start, "--units", str(RAY_CPUS + 1), "--strategy", "left-deep")
    assert f"but the cluster has {RAY_CPUS}" in message
    assert "cannot pin 'o99'" in fails(capsys, *start, "--pin", "o99=10.0.0.1")
    assert not (tmp_path / "m.csv").exists()


def test_an_interrupt_ends_a_live_run_in_order_and_leaves_no_process(tmp_path: Path) -> None:
    """A live stream that never ends, on a Ray of its own."""
    out = tmp_path / "matches.parquet"
    command = [sys.executable, "-m", "decopa", "run", QUERY, "--trace", "-", "--units", "2", "--out", str(out)]
    environment = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
    with subprocess.Popen(
        command,
        env=environment | {"PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # A shell that runs tests in the background has them ignore interrupts, and children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    ) as process:
        assert process.stdin is not None and process.stderr is not None
        event = {"id": 1, "ts": 1, "type": "A", "x": 0.5}
        process.stdin.write(json.dumps(event) + "\n")
        process.stdin.flush()
        said = process.stderr.readline()
        while said and "dashboard" not in said:
            said = process.stderr.readline()
        assert "dashboard" in said
        time.sleep(2)
        started = [*descendants(process.pid)]
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the whole group
        rest = process.stderr.read()
        assert process.wait(PATIENCE_S) == 130
    assert "stopped" in rest and "matches      0" in rest
    assert "Traceback" not in rest
    assert [path.name for path in tmp_path.iterdir()] == ["matches.parquet"]
    deadline = time.monotonic() + PATIENCE_S
    assert started
    while any(map(is_running, started)) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert not any(map(is_running, started))


def descendants(pid: int) -> Iterator[int]:
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, children.read_text().split()):
            yield child
            yield from descendants(child)


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
