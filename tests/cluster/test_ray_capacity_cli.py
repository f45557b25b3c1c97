"""`decopa calibrate`, `decopa scale` and the report of a run, as a user types them, on a real Ray."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from decopa.commands.cli import main
from decopa.traces.synthetic import SyntheticSpec

pytestmark = pytest.mark.ray

QUERY = "PATTERN SEQ(A a, B b) WHERE a.x < b.x * 0.1 WITHIN 100 ms"


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("trace") / "trace.parquet"
    pq.write_table(SyntheticSpec(events=20_000, types=2, zipf=0.0, seed=1).table(), path)
    return path


@pytest.fixture(scope="module")
def capacity(ray_cluster: None, trace: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("capacity") / "capacity.json"
    assert main(["calibrate", QUERY, "--trace", str(trace), "--repeats", "2", "--out", str(path)]) == 0
    return path


def test_a_capacity_has_three_rates_their_spread_and_every_node(capacity: Path) -> None:
    document = json.loads(capacity.read_text())
    assert document["max_ingestion"] > 10_000
    assert document["max_comparisons"] > 1_000_000
    assert document["max_emission"] > 10_000
    (node,) = document["measured"]["nodes"]
    assert set(node["spread"]) == {"ingested", "comparisons", "emitted"}
    assert len(node["ramps"]) == 2
    assert node["median_error"] < 1


def test_a_calibrated_run_tells_busy_time_and_rate_against_the_prediction(
    capacity: Path, trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "run.html"
    command = ["run", QUERY, "--trace", str(trace), "--units", "2", "--objective", "busy"]
    assert main([*command, "--capacity", str(capacity), "--report", str(page)]) == 0
    told = capsys.readouterr().err
    (line,) = (line for line in told.splitlines() if line.startswith("sustainable"))
    assert "events/s predicted, limited by q/" in line
    text = page.read_text()
    assert "busy, predicted" in text
    assert "events/s predicted, limited by q/" in text
    assert "<script src" not in text


@pytest.mark.slow
def test_a_scaling_test_is_taken_up_where_it_was(
    ray_cluster: None, trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "scaling"
    command = ["scale", QUERY, "--trace", str(trace), "--emulate", "--iota", "1000", "--kappa", "1e6", "--out",
               str(folder), "--objective", "busy", "--seconds", "1", "--trials", "1", "--target-rate", "1000",
               "--strategies", "decopa,centralized"]  # fmt: skip
    assert main([*command, "--units", "1"]) == 0
    assert "(emulated)" in capsys.readouterr().out
    written = {path: path.stat().st_mtime_ns for path in (folder / "points").iterdir()}
    assert main([*command, "--units", "1,2"]) == 0
    now = {path: path.stat().st_mtime_ns for path in (folder / "points").iterdir()}
    assert len(now) == 3
    assert {path: now[path] for path in written} == written
    assert json.loads((folder / "results.json").read_text())["emulated"] is True
