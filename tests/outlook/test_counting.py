"""What is counted without building a plan's processes is what building them shows."""

from __future__ import annotations

import pytest

from cluster.deploy.edges import flows_between
from decopa.planning.predict import predict
from decopa.query.binding import bind
from decopa.query.schema import Column, Kind, Schema
from scripts.outlook.counting import outlook
from shuffler.routing.topology import Topology
from tests.outlook.test_simulation import EVENTS, SPAN_US, STATISTICS, planned

KINDS = {"id": Kind.INT, "ts": Kind.INT, "type": Kind.STRING, "x": Kind.FLOAT}
SCHEMA = Schema({name: Column(kind) for name, kind in KINDS.items()})


@pytest.mark.parametrize(("units", "shufflers"), [(3, 1), (8, 2), (17, 4)])
def test_channels_and_bytes_are_those_of_the_processes(units: int, shufflers: int) -> None:
    plan = planned(units)
    expected, bounds = [predict(plan.parts[0], STATISTICS, SPAN_US)], [bind(plan.parts[0].query, SCHEMA)]
    counted = outlook(
        plan, bounds, expected, span_s=SPAN_US / 1e6, events=EVENTS, rate=float(EVENTS), shufflers=shufflers
    )
    topology = Topology(plan, shufflers)
    emitted = [{name: one.emitted.value for name, one in part.items()} for part in expected]
    flows = flows_between(topology, bounds, emitted)
    dealt = sum(size for (sender, _), size in flows.items() if sender in topology.shuffler_names)
    assert counted.shuffled_bytes_per_s == pytest.approx(dealt)
    assert counted.exchanged_bytes_per_s == pytest.approx(sum(flows.values()) - dealt)
    assert counted.channels >= len(topology.channels)  # two inputs of one unit share a channel


def test_more_units_hold_more_copies_and_take_longer_to_come_back() -> None:
    few, many = (
        outlook(
            planned(units),
            [bind(planned(units).parts[0].query, SCHEMA)],
            [predict(planned(units).parts[0], STATISTICS, SPAN_US)],
            span_s=SPAN_US / 1e6,
            events=EVENTS,
            rate=1e5,
            shufflers=1,
        )
        for units in (2, 64)
    )
    assert many.checkpoint_bytes > few.checkpoint_bytes
    assert many.coordinator_s > few.coordinator_s
    assert many.recovery_s > few.recovery_s
