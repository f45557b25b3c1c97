"""A run is a value: JSON both ways, with everything that was asked for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from actors.columnar.memory import Spill
from actors.group import Limits
from cluster.options import Checkpoints, Placement, RayOptions
from costmodel.capacity import Capacity
from costmodel.statistics import Statistics
from decopa.api import make_plan
from decopa.choices import Objective, Reading
from decopa.errors import CheckpointError
from decopa.language.text.parser import parse_workload
from decopa.planning.change.options import Adapt
from decopa.runs.spec import Output, Planning, Rules, RunSpec, TraceOptions
from decopa.runs.spec_file import from_json, to_document
from shuffler.exchange.outbox import FlushPolicy
from shuffler.rows.events import TraceColumns
from shuffler.source.dead_letters import BadRows
from shuffler.source.lateness import Lateness
from shuffler.source.pacing import Replay

QUERIES = parse_workload("QUERY one PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 1 s; QUERY two PATTERN A a WITHIN 1 s")
CAPACITY = Capacity(10.0, 20.0, 5, 30.0, Objective.BUSY)
FULL = RunSpec(
    TraceOptions(
        TraceColumns(id="event_id"),
        assume_sorted=True,
        nan_as_null=True,
        lateness=Lateness(7, "drop"),
        bad_rows=BadRows("divert", Path("bad.jsonl"), 3),
        kinds={"x": "float"},
        require_types=True,
        path="trace.parquet",
        spark=True,
        batch_size=100,
    ),
    Planning(
        units=4,
        strategy="hybrid",
        plan=make_plan(QUERIES, units=4),
        statistics=(Statistics(1_000_000, {"A": 2.0, "B": 3.0}),) * 2,
        capacity=CAPACITY,
        reading=Reading.RATES,
    ),
    Limits(5, 6, Spill(Path("spill"), 7)),
    RayOptions(
        address="auto",
        shufflers=2,
        batch_size=64,
        policy=FlushPolicy(10, 0.5),
        window=3,
        placement=Placement("PACK", {"o5": "10.0.0.7"}),
        replay=Replay(rate=5.0),
        emulate={"": CAPACITY},
        metrics=False,
        wait_for_nodes_s=60.0,
        sinks=2,
    ),
    "ray",
    Output("matches", "jsonl", True, 10**6),
    Checkpoints("checkpoints", 0.5, 4, 6),
    "end",
    True,
    Adapt(gain=2.0, units=(2, 8), log="changes.jsonl"),
    Rules("rules", 5_000_000, 1 << 20),
)


@pytest.mark.parametrize("spec", [RunSpec(), FULL], ids=["defaults", "everything"])
def test_a_run_survives_json(spec: RunSpec) -> None:
    assert from_json(json.dumps(to_document(spec, QUERIES)), "run.json") == (spec, QUERIES)


def test_every_field_of_a_full_run_is_written() -> None:
    written = to_document(FULL, QUERIES)["spec"]
    assert set(written) == set(RunSpec.__dataclass_fields__)
    assert set(written["ray"]) == set(RayOptions.__dataclass_fields__)
    assert set(written["trace"]) == set(TraceOptions.__dataclass_fields__)


def test_defaults_are_left_out() -> None:
    assert to_document(RunSpec(), QUERIES)["spec"] == {}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "other"}, "of another kind"),
        ({"version": 99}, "has version 99"),
        ({"queries": 5}, "must be a text"),
        ({"queries": "PATTERN"}, "is damaged"),
        ({"spec": {"trace": {"columns": {"id": "x", "ts": "x"}}}}, "need a column each"),
        ({"spec": {"runtime": "cloud"}}, "unknown runtime"),
        ({"spec": {"planning": {"reading": "upside down"}}}, "must be 'linear' or 'rates'"),
        ({"spec": {"planning": {"plan": "{}"}}}, "the plan is of another kind"),
        ({"spec": {"ray": {"window": 1.5}}}, "a number in range"),
        ({"spec": {"ray": {"emulate": {"": {"max_ingestion": 1}}}}}, "max_comparisons must be there"),
        ({"spec": {"other": 1}}, "a field that this decopa knows"),
        ({"spec": []}, "must be an object"),
        ({"more": 1}, "unknown field"),
    ],
)
def test_what_no_run_has_written_is_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        from_json(json.dumps(to_document(RunSpec(), QUERIES) | change), "run.json")
