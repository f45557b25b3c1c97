"""Evaluation inside a network on the Google cluster trace: machines are nodes (check A15)."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import decopa
from costmodel.formulas import ENGINE
from decopa.planning.network.planner import NetworkOptions, PlannedNetwork, plan_network
from decopa.runs.networks.network import NetworkRun, Origins, run_network
from decopa.runs.networks.network_stats import measured_network
from shuffler.source.trace import TraceColumns, open_trace

COLUMNS = TraceColumns(id="event_id")
TASKS = "PATTERN SEQ(D d, C c, E e) WHERE d.job_id = c.job_id AND c.job_id = e.job_id WITHIN 5 min"
NODES = 20


def segment(shared: Path, name: str) -> pa.Table:
    """Its first segment."""
    table = pq.read_table(shared / "data" / f"{name}.parquet")
    return table.filter(pc.equal(table["segment"], 1))


def planned_run(events: pa.Table, strategy: str, text: str = TASKS) -> tuple[PlannedNetwork, NetworkRun]:
    query = decopa.parse(text)
    measured, _ = measured_network([query], open_trace(events, columns=COLUMNS), "machine_id", buckets=NODES)
    options = NetworkOptions(
        strategy, model=ENGINE, implied=True, reducers=strategy == "search", partners=measured.partners
    )
    planned = plan_network([query], measured.network, list(measured.statistics), options)
    source = open_trace(events, columns=COLUMNS)
    return planned, run_network([query], planned.plan, source, Origins("machine_id", NODES), rates=planned.rates)


@pytest.mark.slow
def test_a_quarter_of_the_events_is_enough_for_tasks_of_one_job(shared: Path) -> None:
    events = segment(shared, "google_cluster")
    planned, run = planned_run(events, "search")
    assert run.matches.equals(decopa.run(TASKS, events, trace=decopa.TraceOptions(columns=COLUMNS)))
    assert run.central_rows == 91_166
    assert run.traffic.total.rows <= 0.26 * 91_166
    assert run.ratio == pytest.approx(planned.ratio, rel=0.01)


@pytest.mark.slow
def test_gathering_at_one_node_sends_nearly_everything(shared: Path) -> None:
    _, run = planned_run(segment(shared, "google_cluster"), "naive")
    assert 0.94 < run.ratio < 0.96


@pytest.mark.slow
def test_the_beginning_of_the_trace_is_evaluated_exactly_and_cheaply(shared: Path) -> None:
    events = segment(shared, "google_cluster_small")
    text = TASKS.replace("5 min", "20 s")
    _, run = planned_run(events, "search", text)
    assert run.matches.equals(decopa.run(text, events, trace=decopa.TraceOptions(columns=COLUMNS)))
    assert run.ratio < 0.5
