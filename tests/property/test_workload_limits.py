"""A query of a workload that exceeds a limit is dropped alone; the others find what they find without it."""

from __future__ import annotations

from random import Random

import pytest

from actors.columnar.jit import interpreted
from actors.group import Limits
from cluster.local import LocalRuntime
from costmodel.capacity import Capacity
from costmodel.statistics import Statistics
from decopa.errors import LimitError
from decopa.language.text.parser import parse_workload
from decopa.planning.plan import Plan
from decopa.planning.planner import plan_workload
from decopa.planning.strategies.left_deep import left_deep
from shuffler.source.trace import open_trace
from tests.property.test_matches import ATTRIBUTES
from tests.property.test_workloads import assert_each_is_exact
from tests.support.engine import table_of


@pytest.mark.parametrize("strategy", ["shared", "trivial"])
def test_a_query_that_exceeds_a_limit_is_dropped_alone(strategy: str) -> None:
    workload = parse_workload(
        "QUERY few PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 5 us "
        "QUERY many PATTERN SEQ(A a, A b) WITHIN 1 s "
        "QUERY either PATTERN OR(SEQ(A a, A b), SEQ(B c, B d)) WITHIN 900 ms "
        "QUERY long PATTERN SEQ(A a, B b, A c) WHERE a.x < b.x WITHIN 5 us"
    )
    draw = Random(3)
    events = [{"id": number, "ts": 3 * number, "type": draw.choice("AB"), "x": draw.random()} for number in range(120)]
    known = [Statistics(one.window_us, {"A": 5.0, "B": 5.0}, default_selectivity=0.5) for one in workload]
    plan = plan_workload(workload, known, Capacity(1000, 10_000), units=1, strategy=strategy).plan
    limits = Limits(max_matches=500, on_limit="drop-query")
    with interpreted():
        runtime = LocalRuntime(plan, open_trace(table_of(events, ATTRIBUTES)), batch_size=7, limits=limits)
        runtime.run()
    assert runtime.dropped.keys() == {"many", "either"}
    assert "more than 500 matches" in runtime.dropped["many"]
    tables = iter([sink.table() for sink in runtime.sinks])
    for query in workload:
        found = [next(tables) for _ in query.branches]
        if query.name in runtime.dropped:
            assert not any(one.num_rows for one in found)
        else:
            assert_each_is_exact([query], found, events)


def test_a_run_all_of_whose_queries_exceed_limits_ends() -> None:
    (query,) = parse_workload("QUERY many PATTERN SEQ(A a, A b) WITHIN 1 s")
    events = [{"id": number, "ts": number, "type": "A", "x": 0.0} for number in range(50)]
    limits = Limits(max_matches=50, on_limit="drop-query")
    runtime = LocalRuntime(Plan((left_deep(query),)), open_trace(table_of(events, ATTRIBUTES)), limits=limits)
    with interpreted(), pytest.raises(LimitError, match="every query exceeds a limit"):
        runtime.run()
