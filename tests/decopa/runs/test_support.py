"""One table says which option works where: refusals and documentation come from it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from actors.columnar.memory import Spill
from actors.group import Limits
from cluster.options import Checkpoints, Placement, RayOptions
from costmodel.capacity import Capacity
from costmodel.statistics import Statistics
from decopa.api import make_plan
from decopa.errors import DecoPaError
from decopa.planning.change.options import Adapt
from decopa.runs.spec import Output, Planning, RunSpec, TraceOptions
from decopa.runs.support import OPTIONS, Option, Way, check_supported, markdown_table, way_of
from shuffler.exchange.outbox import FlushPolicy
from shuffler.source.dead_letters import BadRows
from shuffler.source.lateness import Lateness
from shuffler.source.pacing import Replay

ROOT = Path(__file__).resolve().parents[3]
#: A run that asks for one option and nothing else.
ASKING = {
    "--units": RunSpec(planning=Planning(units=2)),
    "--strategy": RunSpec(planning=Planning(strategy="hybrid")),
    "--plan": RunSpec(planning=Planning(plan=make_plan("PATTERN SEQ(A a, B b) WITHIN 1 s"))),
    "--stats": RunSpec(planning=Planning(statistics=Statistics(1, {"A": 1.0}))),
    "--batch-size": RunSpec(TraceOptions(batch_size=5)),
    "--assume-sorted": RunSpec(TraceOptions(assume_sorted=True)),
    "--nan-as-null": RunSpec(TraceOptions(nan_as_null=True)),
    "--allowed-lateness": RunSpec(TraceOptions(lateness=Lateness(5))),
    "--late": RunSpec(TraceOptions(lateness=Lateness(policy="drop"))),
    "--schema": RunSpec(TraceOptions(kinds={"x": "float"})),
    "--bad-rows divert": RunSpec(TraceOptions(bad_rows=BadRows("divert"))),
    "--address": RunSpec(ray=RayOptions(address="auto")),
    "--shufflers": RunSpec(ray=RayOptions(shufflers=2)),
    "--sinks": RunSpec(ray=RayOptions(sinks=2)),
    "--compress": RunSpec(ray=RayOptions(policy=FlushPolicy(compression="lz4"))),
    "--placement": RunSpec(ray=RayOptions(placement=Placement("PACK"))),
    "--wait-for-nodes": RunSpec(ray=RayOptions(wait_for_nodes_s=60.0)),
    "--pin": RunSpec(ray=RayOptions(placement=Placement(pins={"o5": "10.0.0.7"}))),
    "--speed": RunSpec(ray=RayOptions(replay=Replay(speed=2.0))),
    "--rate": RunSpec(ray=RayOptions(replay=Replay(rate=2.0))),
    "--emulate": RunSpec(ray=RayOptions(emulate={"": Capacity.per_second(1, 1)})),
    "--spill": RunSpec(limits=Limits(spill=Spill(Path("folder")))),
    "--overwrite": RunSpec(output=Output("matches.parquet", overwrite=True)),
    "--out none": RunSpec(count=True),
    "--order": RunSpec(order="end"),
    "--max-out-mb": RunSpec(output=Output("matches", max_bytes=1)),
    "--adapt": RunSpec(adapt=Adapt()),
}


def test_every_option_is_asked_for_by_one_run_and_by_no_other() -> None:
    assert {option.flag for option in OPTIONS} == set(ASKING)
    for option in OPTIONS:
        assert [flag for flag, spec in ASKING.items() if option.asked(spec)] == [option.flag]
        assert not option.asked(RunSpec())


@pytest.mark.parametrize("way", Way, ids=lambda way: way.value)
@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.flag)
def test_an_option_works_or_is_refused_by_name(option: Option, way: Way) -> None:
    spec = ASKING[option.flag]
    if way not in option.refused:
        check_supported(spec, way)
        return
    with pytest.raises(DecoPaError, match=option.flag):
        check_supported(spec, way)


@pytest.mark.parametrize(
    ("runtime", "live", "spark", "checkpoints", "way"),
    [
        ("local", False, False, False, Way.LOCAL),
        ("ray", False, False, False, Way.RAY),
        ("ray", False, False, True, Way.CHECKPOINTS),
        ("ray", False, True, False, Way.SPARK),
        ("local", True, False, False, Way.LIVE_LOCAL),
        ("ray", True, False, False, Way.LIVE_RAY),
        ("local", False, False, True, None),
        ("ray", True, False, True, None),
        ("ray", False, True, True, None),
        ("local", False, True, False, None),
    ],
)
def test_the_way_to_run_follows_from_the_spec_and_the_events(
    runtime: str, live: bool, spark: bool, checkpoints: bool, way: Way | None
) -> None:
    spec = RunSpec(runtime=runtime)
    if checkpoints:
        spec = replace(spec, checkpoints=Checkpoints("checkpoints"))
    if way is not None:
        assert way_of(spec, live=live, spark=spark, replayable=not live) is way
        return
    with pytest.raises(DecoPaError):
        way_of(spec, live=live, spark=spark, replayable=not live)


def test_a_stream_that_can_be_read_again_may_have_checkpoints() -> None:
    spec = RunSpec(runtime="ray", checkpoints=Checkpoints("checkpoints"))
    assert way_of(spec, live=True, spark=False, replayable=True) is Way.LIVE_CHECKPOINTS


def test_the_documentation_has_the_table() -> None:
    assert markdown_table() in (ROOT / "docs" / "options.md").read_text(encoding="utf-8")
