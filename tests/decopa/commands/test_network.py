"""`decopa network`: from a trace to a network, a plan, a page and matches; what is wrong is told in one line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import decopa
from decopa.commands.cli import main

QUERY = "PATTERN SEQ(A a, B b, C c) WHERE a.k = b.k AND b.k = c.k WITHIN 100 us"


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    rng = np.random.default_rng(5)
    count = 4_000
    table = pa.table(
        {
            "id": range(count),
            "ts": np.sort(rng.integers(0, 40_000, count)),
            "type": rng.choice(list("ABC"), count, p=[0.05, 0.35, 0.6]).tolist(),
            "k": rng.integers(0, 20, count),
            "site": [f"s{site}" for site in rng.integers(0, 3, count)],
        }
    )
    pq.write_table(table, tmp_path / "trace.parquet")
    return tmp_path / "trace.parquet"


@pytest.fixture
def network(trace: Path) -> Path:
    path = trace.parent / "net.json"
    status = main(["network", "stats", QUERY, "--trace", str(trace), "--origin", "site", "--out", str(path), "--quiet"])
    assert status == 0
    return path


def test_a_trace_becomes_a_network_a_plan_and_matches(
    trace: Path, network: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = trace.parent
    plan, page, out = folder / "plan.json", folder / "plan.html", folder / "matches.parquet"
    arguments = ["network", "plan", QUERY, "--network", str(network), "--out", str(plan), "--html", str(page)]
    assert main([*arguments, "--compare"]) == 0
    told = capsys.readouterr().err
    assert "% of centralized evaluation" in told
    assert "amuse-star" in told
    assert page.read_text().count("<svg") == 7
    assert main(["network", "explain", str(plan), "--network", str(network)]) == 0
    assert "(sink)" in capsys.readouterr().out
    run = ["network", "run", QUERY, "--trace", str(trace), "--origin", "site", "--network", str(network)]
    assert main([*run, "--plan", str(plan), "--out", str(out), "--html", str(folder / "run.html")]) == 0
    told = capsys.readouterr().err
    assert "heartbeats" in told and "expected" in told
    assert pq.read_table(out).equals(decopa.run(QUERY, str(trace)))
    assert "matches found here" in (folder / "run.html").read_text()


def test_a_run_without_plan_and_network_makes_both_from_the_trace(
    trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["network", "run", QUERY, "--trace", str(trace), "--origin", "site", "--strategy", "amuse"]) == 0
    assert "crossed" in capsys.readouterr().err


def test_a_node_that_falls_silent_is_named_once_and_no_longer_waited_for(
    trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = pq.read_table(trace)
    quiet = ["s0" if row["site"] == "s2" and 10_000 < row["ts"] < 30_000 else row["site"] for row in table.to_pylist()]
    pq.write_table(table.set_column(4, "site", pa.array(quiet)), trace)
    out = trace.parent / "matches.parquet"
    run = ["network", "run", QUERY, "--trace", str(trace), "--origin", "site", "--out", str(out)]
    assert main([*run, "--idle-after", "5 ms"]) == 0
    told = [line for line in capsys.readouterr().err.splitlines() if "silent for" in line]
    assert len(told) == 1
    assert told[0].startswith("note         node 's2' has been silent for")
    assert pq.read_table(out).equals(decopa.run(QUERY, str(trace)))


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["network", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    return captured.err


def test_a_type_that_no_node_produces(network: Path, capsys: pytest.CaptureFixture[str]) -> None:
    query = "PATTERN SEQ(A a, Z z) WITHIN 100 us"
    told = refused(capsys, "plan", query, "--network", str(network))
    assert "produces event type 'Z', which query 'q' needs" in told


def test_an_event_from_an_unknown_node(trace: Path, network: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads(network.read_text())
    document["nodes"]["s9"] = document["nodes"].pop("s2")
    (other := trace.parent / "other.json").write_text(json.dumps(document))
    told = refused(capsys, "run", QUERY, "--trace", str(trace), "--origin", "site", "--network", str(other))
    assert "is born at node 's2', which the network does not have" in told


def test_a_plan_for_another_network(trace: Path, network: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = trace.parent / "plan.json"
    assert main(["network", "plan", QUERY, "--network", str(network), "--out", str(plan), "--quiet"]) == 0
    document = json.loads(network.read_text())
    del document["nodes"]["s2"]["rates"]["A"]
    (other := trace.parent / "other.json").write_text(json.dumps(document))
    told = refused(capsys, "explain", str(plan), "--network", str(other))
    assert "the plan is for another network" in told
    del document["nodes"]["s2"]
    other.write_text(json.dumps(document))
    assert "has no node 's2'" in refused(capsys, "explain", str(plan), "--network", str(other))


def test_capacities_that_no_placement_satisfies(network: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = refused(capsys, "plan", QUERY, "--network", str(network), "--iota", "1", "--kappa", "1e9")
    assert "no placement is sustained: node 's" in told
    assert "times what its 1 unit can" in told


def test_a_plan_for_other_queries(trace: Path, network: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = trace.parent / "plan.json"
    assert main(["network", "plan", QUERY, "--network", str(network), "--out", str(plan), "--quiet"]) == 0
    other = "PATTERN SEQ(A a, B b) WITHIN 100 us"
    run = ["run", other, "--trace", str(trace), "--origin", "site", "--network", str(network), "--plan", str(plan)]
    assert "is a plan for other queries" in refused(capsys, *run)


def test_an_origin_that_is_no_column(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "has no column 'sites'; did you mean 'site'?" in refused(
        capsys, "stats", QUERY, "--trace", str(trace), "--origin", "sites"
    )
