"""prepare: one place opens, measures, plans, applies defaults and refuses."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

import decopa
from decopa.choices import STRATEGIES
from decopa.errors import DeployError, QueryError, StatisticsError
from decopa.language.text.parser import parse_workload
from decopa.runs.preparation.prepare import prepare, with_defaults
from decopa.runs.spec import Planning, RunSpec, TraceOptions
from decopa.runs.support import Way
from decopa.traces.synthetic import SyntheticSpec
from shuffler.routing.topology import Topology

TRACE = SyntheticSpec(events=4_000, types=3, seed=5).table()
JOIN = "PATTERN SEQ(A a, B b, C c) WHERE a.x < b.x WITHIN 20 ms"


def test_a_run_without_wishes_happens_in_this_process_with_the_best_plan() -> None:
    prepared = prepare(RunSpec(), parse_workload(JOIN), TRACE)
    assert (prepared.spec.runtime, prepared.way, prepared.strategy) == ("local", Way.LOCAL, "decopa")
    assert prepared.statistics[0] is not None


def test_who_asks_for_units_gets_ray_and_exactly_that_many_processes() -> None:
    for strategy in ("left-deep", "decopa"):
        for units in (1, 2, 3, 5):
            spec = RunSpec(planning=Planning(units, strategy))
            prepared = prepare(spec, parse_workload(JOIN), TRACE)
            assert prepared.spec.runtime == "ray"
            assert len(Topology(prepared.plan).units) == (1 if strategy == "decopa" and units < 2 else units)


def test_units_are_shared_by_the_queries_of_a_workload() -> None:
    queries = parse_workload(f"QUERY one {JOIN}; QUERY two {JOIN}")
    prepared = prepare(RunSpec(planning=Planning(2, "left-deep")), queries, TRACE)
    assert len(Topology(prepared.plan).units) == 2


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize(
    ("missing", "kept"), [("C", "never occurs"), ("B", "too few to pair")], ids=["absent type", "too few events"]
)
def test_every_strategy_runs_where_the_trace_shows_too_little(strategy: str, missing: str, kept: str) -> None:
    rows = [
        {"id": place, "ts": place * 10, "type": kind, "x": 0.5}
        for place, kind in enumerate("AACACA" if missing == "B" else "ABABAA")
    ]
    events = pa.Table.from_pylist(rows)
    with pytest.warns(decopa.DecoPaWarning, match=f"no event of type '{missing}'"):
        result = decopa.run_detailed(JOIN, events, strategy=strategy, units=3, runtime="local")
    assert (result.matches.num_rows, result.strategy) == (0, "left-deep")
    assert any(f"'{missing}'" in notice for notice in result.notices), kept


def test_a_query_that_cannot_be_measured_leaves_the_others_their_plans() -> None:
    queries = parse_workload(f"QUERY good {JOIN}; QUERY odd PATTERN SEQ(A a, Z z) WITHIN 1 ms")
    prepared = prepare(RunSpec(planning=Planning(4), runtime="local"), queries, TRACE)
    assert prepared.strategy == "shared"
    assert [one is None for one in prepared.statistics] == [False, True]
    assert [part.query.name for part in prepared.plan.parts] == ["good", "odd"]
    assert any("query odd planned left-deep" in notice for notice in prepared.notices)


def test_a_missing_type_is_an_error_where_it_is_asked_to_be() -> None:
    with pytest.raises(QueryError, match="no event of type 'Z'"):
        prepare(RunSpec(TraceOptions(require_types=True)), parse_workload("PATTERN SEQ(A a, Z z) WITHIN 1 ms"), TRACE)


def test_a_live_stream_is_planned_without_statistics_unless_a_strategy_needs_them() -> None:
    queries = parse_workload(JOIN)
    prepared = prepare(RunSpec(), queries, iter(TRACE.to_batches()))
    assert (prepared.way, prepared.strategy) == (Way.LIVE_LOCAL, "left-deep")
    with pytest.raises(StatisticsError, match="cannot be measured before it runs"):
        prepare(RunSpec(planning=Planning(strategy="hybrid")), queries, iter(TRACE.to_batches()))


def test_more_processes_than_the_machine_can_hold_are_refused_and_many_are_warned_of() -> None:
    queries = parse_workload("PATTERN SEQ(A a, B b) WITHIN 1 ms")
    with pytest.raises(DeployError, match=r"--units \d+ or fewer"):
        prepare(RunSpec(planning=Planning(4_000, "left-deep")), queries, TRACE)
    crowded = prepare(RunSpec(planning=Planning(64, "left-deep")), queries, TRACE)
    assert any("share" in warning for warning in crowded.warnings)


def test_the_batch_size_reaches_the_shufflers() -> None:
    spec = with_defaults(RunSpec(TraceOptions(batch_size=77), Planning(units=2)))
    assert spec.ray.batch_size == 77


def test_python_and_the_command_line_have_the_same_defaults() -> None:
    from decopa.commands.arguments.run import spec_of
    from decopa.commands.cli import make_parser

    args = make_parser().parse_args(["run", JOIN, "--trace", "trace.parquet"])
    asked = spec_of(args)
    defaults = RunSpec()
    assert (asked.runtime, asked.planning, asked.ray, asked.limits) == (
        defaults.runtime,
        defaults.planning,
        defaults.ray,
        defaults.limits,
    )


def test_dir_lists_every_public_name() -> None:
    assert set(decopa.__all__) <= set(dir(decopa))
    for name in decopa.__all__:
        assert getattr(decopa, name) is not None
    assert random.choice(decopa.__all__) in dir(decopa)
