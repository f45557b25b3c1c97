"""Many queries on few actors: as many unit processes as there are units, and the matches of each query."""

from __future__ import annotations

import pytest

from actors.columnar.jit import interpreted
from actors.group import Limits
from cluster.deploy.placement import places_needed
from cluster.feeding import TraceBlocks
from cluster.local import LocalRuntime
from cluster.options import RayOptions
from cluster.ray_runtime import RayRuntime
from costmodel.capacity import Capacity
from decopa.planning.planner import plan_workload
from decopa.runs.result import result_table
from decopa.traces.rule_sets import families
from shuffler.source.trace import open_trace

pytestmark = pytest.mark.ray


@pytest.mark.parametrize("strategy", ["shared", pytest.param("trivial", marks=pytest.mark.slow)])
def test_twenty_queries_on_three_units_are_three_unit_processes(ray_cluster: None, strategy: str) -> None:
    rules = families(20, 12, 3, 3, 1, window_us=300_000, seed=1)
    plan = plan_workload(
        rules.queries, rules.statistics, Capacity.per_second(2e6, 1e8), units=3, strategy=strategy, seconds=1
    ).plan
    trace = rules.trace(1_500)
    with interpreted():
        here = LocalRuntime(plan, open_trace(trace))
        here.run()
        runtime = RayRuntime(plan, TraceBlocks(open_trace(trace)), limits=Limits(), options=RayOptions())
        assert len(runtime.topology.units) == 3
        assert len(runtime.topology.sink_names) == 1
        assert places_needed(runtime.topology) == 4
        found = runtime.run()
    expected = result_table(rules.queries, [sink.table() for sink in here.sinks])
    assert expected.num_rows
    assert result_table(rules.queries, found.matches).equals(expected)
