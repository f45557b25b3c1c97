"""Rules come and go in runs with checkpoints on a real Ray, and processes die meanwhile."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import ray
from ray.exceptions import RayError

import decopa
from actors.columnar.jit import interpreted
from cluster.change.rules.folder import RuleChange, RuleFolder
from cluster.change.rules.versions import RuleError
from cluster.options import Checkpoints, RayOptions
from decopa.commands.cli import main
from decopa.runs.streams.durable_run import DurableRun
from decopa.traces.synthetic import SyntheticSpec
from scripts.reliability.rule_rows import expected_rows, kept_rules, published_rows
from shuffler.source.pacing import Replay

pytestmark = pytest.mark.ray

ROOT = Path(__file__).resolve().parents[3]
#: Actors may take minutes to start on a machine that does other things, too.
PATIENCE_S = 240.0
RULES = """QUERY pairs PATTERN SEQ(A a, B b) WHERE a.k = b.k WITHIN 100 ms;
QUERY calm PATTERN SEQ(A a, NOT(B b), C c) WHERE a.k = c.k AND a.k = b.k WITHIN 100 ms"""
LATE = "QUERY late PATTERN SEQ(B b, C c, NOT(A a)) WHERE b.k = c.k WITHIN 80 ms"
NEW = "QUERY fresh PATTERN SEQ(KL(A a), C c) WHERE a.k = c.k WITHIN 20 ms"


def trace_of(folder: Path, events: int) -> Path:
    spec = SyntheticSpec(events=events, rate_per_s=1_000, types=3, keys=10, zipf=0.5, seed=4)
    pq.write_table(pa.Table.from_batches(list(spec.batches())), folder / "trace.parquet")
    return folder / "trace.parquet"


def opened(folder: Path, trace: Path, rate: float | None = 500.0) -> DurableRun:
    return decopa.open_durable_run(
        RULES,
        trace,
        checkpoint=Checkpoints(str(folder / "checkpoints"), every_s=0.3),
        out=folder / "out",
        units=2,
        ray=RayOptions(replay=Replay(rate=rate), metrics=False),
    )


def await_that(happened: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE_S
    while not happened():
        assert time.monotonic() < until, "nothing happened"
        time.sleep(0.02)


def kill(kind: str) -> None:
    """One of the actors of this Ray, of the running plan or one that is being built."""
    for one in ray.util.list_named_actors(all_namespaces=True):
        if kind in one["name"]:
            with contextlib.suppress(RayError, ValueError):  # its plan has just been replaced
                os.kill(ray.get(ray.get_actor(one["name"], namespace=one["namespace"]).pid.remote()), signal.SIGKILL)
                return
    raise AssertionError(f"no {kind} could be killed")


def check(folder: Path, trace: Path) -> None:
    assert published_rows(folder / "out") == expected_rows(
        kept_rules(folder / "checkpoints").book.versions, pq.read_table(trace)
    )


def test_rules_come_and_go_while_a_process_dies(ray_cluster: None, tmp_path: Path) -> None:
    trace = trace_of(tmp_path, 10_000)
    with interpreted(), opened(tmp_path, trace) as run:
        await_that(lambda: run.events > 500)
        late = run.add(LATE)
        kill("sink")
        assert run.replace("pairs", "PATTERN SEQ(A a, C c) WHERE a.k = c.k WITHIN 50 ms").number == 2
        with pytest.raises(RuleError, match="there is no rule 'unknown'"):
            run.remove("unknown")
        calm = run.remove("calm")
        known = {(rule.name, rule.version): rule for rule in run.queries()}
        run.wait()
    assert late.from_us is not None and calm.until_us is not None and late.from_us < calm.until_us
    assert known["late", 1].from_us == late.from_us and known["pairs", 2].matches > 0
    check(tmp_path, trace)


def test_changes_that_wait_when_a_run_begins_are_made_at_its_beginning(
    ray_cluster: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace, folder = trace_of(tmp_path, 2_000), RuleFolder(tmp_path / "rules")
    folder.path.mkdir()
    folder.ask(RuleChange("add", query=LATE))
    folder.ask(RuleChange("remove", "pairs"))
    folder.ask(RuleChange("add", query="PATTERN SEQ(A a, B b) WHERE a.nothing = b.k WITHIN 5 ms"))
    folder.ask(RuleChange("replace", "calm", "PATTERN SEQ(A a, B b) WHERE a.k = b.k WITHIN 9 ms", at=1_000_000))
    arguments = ["--checkpoint", str(tmp_path / "checkpoints"), "--out", str(tmp_path / "out"), "--units", "2"]
    with interpreted():
        status = main(["run", RULES, "--trace", str(trace), *arguments, "--rules", str(folder.path)])
    assert status == 0
    answers = folder.answers()
    assert [answers[number]["at_us"] for number in (1, 2, 4)] == [None, None, 1_000_000]
    assert "nothing" in answers[3]["refused"]
    told = capsys.readouterr().err
    assert "version 1 of rule 'late' lives from the beginning on" in told
    assert "version 1 of rule 'pairs' never lives" in told
    assert "calm version 2: " in told and "events       2,000" in told
    check(tmp_path, trace)
    # The run has ended, so that it makes no change any more.
    assert main(["resume", str(tmp_path / "checkpoints")]) == 0


@pytest.mark.slow
def test_a_driver_that_is_killed_takes_no_rule_with_it(tmp_path: Path) -> None:
    """From outside: `decopa rules` asks, the driver is killed at any moment, and `decopa resume` goes on, on more
    units."""
    trace, folder = trace_of(tmp_path, 20_000), RuleFolder(tmp_path / "rules")
    command = [sys.executable, "-W", "ignore", "-m", "decopa"]
    begin = ["run", RULES, "--trace", str(trace), "--rate", "400", "--units", "2", "--checkpoint-every", "300 ms"]
    begin += [
        "--checkpoint",
        str(tmp_path / "checkpoints"),
        "--out",
        str(tmp_path / "out"),
        "--rules",
        str(folder.path),
    ]
    driver = subprocess.Popen([*command, *begin], cwd=ROOT)
    changes = [["add", LATE], ["replace", "pairs", "PATTERN SEQ(A a, C c) WHERE a.k = c.k WITHIN 50 ms"], ["add", NEW]]
    await_that(lambda: len(list((tmp_path / "checkpoints").glob("checkpoint-*/manifest.json"))) > 1)
    for number, (do, *rest) in enumerate(changes):
        asking = subprocess.Popen([*command, "rules", do, str(folder.path), *rest, "--wait", "200"], cwd=ROOT)
        await_that(lambda number=number: len(list(folder.asked())) > number)  # type: ignore[misc]
        time.sleep(3.0 * number)  # while the plan is built, or when it has taken over
        driver.kill()
        driver.wait()
        resume = ["resume", str(tmp_path / "checkpoints"), "--units", str(2 + number % 2)]
        driver = subprocess.Popen([*command, *resume], cwd=ROOT)
        await_that(lambda number=number: number + 1 in folder.answers())  # type: ignore[misc]
        asking.wait()
    assert driver.wait(PATIENCE_S) == 0
    assert not [one for one in folder.answers().values() if "refused" in one]
    rules = {one["name"]: one["version"] for one in json.loads((folder.path / "rules.json").read_text())["rules"]}
    assert rules == {"calm": 1, "late": 1, "pairs": 2, "fresh": 1}
    check(tmp_path, trace)
