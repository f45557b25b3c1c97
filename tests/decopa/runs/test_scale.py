"""Scaling tests without Ray: points that are kept, predictions, tables and plots, the command's arguments."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import decopa
from actors.emulation import Emulation
from actors.reports import UnitReport
from costmodel.capacity import Capacity
from decopa.api import plan as make_plan
from decopa.api import run_detailed
from decopa.choices import Objective
from decopa.commands.cli import main
from decopa.errors import DecoPaError
from decopa.language.text.parser import parse
from decopa.report.run_summary import reports_of
from decopa.report.scale_report import markdown_table, results_document, text_table, write_plots
from decopa.runs.model_check import check_loads, median_error, predicted_busy_s, predicted_rate
from decopa.runs.preparation.measure import measure
from decopa.runs.scaling.scale_points import Point, PointKey, PointStore, gain, gain_over, measure_points, point_keys
from decopa.traces.synthetic import PairSelectivity, SyntheticSpec
from shuffler.source.trace import open_trace

PAIR = PairSelectivity("A", "B", 0.05)
SPEC = SyntheticSpec(events=30_000, types=3, zipf=0.5, seed=3, pairs=(PAIR,))
QUERY = parse(f"PATTERN SEQ(A a, B b, C c) WHERE {PAIR.predicate('a', 'b')} WITHIN 100 ms")


def point(strategy: str, units: int, measured: float, **changed: object) -> Point:
    values = {"predicted": measured * 1.1, "bottleneck": "q/o5/0", "failed": measured * 1.05, "emulated": True}
    return Point(strategy, units, units, measured=measured, p50_s=0.1, p99_s=1.5, **{**values, **changed})  # type: ignore[arg-type]


POINTS = [point("centralized", 1, 100), point("hybrid", 4, 150), point("decopa", 4, 300, clock=3.0)]


# ----------------------------------------------------------------------- points


def test_a_window_that_does_not_see_all_of_the_trace_is_told() -> None:
    seen = point("decopa", 4, 300, trace_events=1_000, half_window_events=1_000)
    assert "of the trace" not in text_table([seen])
    told = "half a window of observation saw 25% of the trace: if its load varies in time, raise --seconds 4 times"
    assert told in text_table([seen, point("hybrid", 4, 300, trace_events=1_000, half_window_events=250)])


def test_the_baseline_is_one_point_and_comes_first() -> None:
    keys = point_keys(["decopa", "hybrid", "centralized"], [4, 2])
    assert keys == [
        PointKey("centralized", 1), PointKey("decopa", 2), PointKey("hybrid", 2), PointKey("decopa", 4),
        PointKey("hybrid", 4),
    ]  # fmt: skip


def test_points_that_are_kept_are_not_measured_again(tmp_path: Path) -> None:
    keys = point_keys(["decopa"], [1, 2, 4])
    measured: list[PointKey] = []

    def failing(key: PointKey) -> Point:
        if key.units == 4:
            raise DecoPaError("interrupted")
        measured.append(key)
        return point(key.strategy, key.units, 10.0 * key.units)

    store = PointStore(tmp_path, {"trace": "t"})
    with pytest.raises(DecoPaError, match="interrupted"):
        measure_points(keys, store, failing)

    def working(key: PointKey) -> Point:
        measured.append(key)
        return point(key.strategy, key.units, 10.0 * key.units)

    found = measure_points(keys, PointStore(tmp_path, {"trace": "t"}), working)
    assert [key.units for key in measured] == [1, 2, 4]
    assert [one.measured for one in found] == [10, 20, 40]


def test_points_of_other_settings_are_measured_again(tmp_path: Path) -> None:
    key = PointKey("decopa", 2)
    PointStore(tmp_path, {"seconds": 5}).save(key, point("decopa", 2, 7))
    assert PointStore(tmp_path, {"seconds": 5}).load(key) == point("decopa", 2, 7)
    assert PointStore(tmp_path, {"seconds": 6}).load(key) is None


def test_a_damaged_point_is_told_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "points").mkdir()
    (tmp_path / "points" / "decopa_2.json").write_text("{")
    with pytest.raises(DecoPaError, match="delete it"):
        PointStore(tmp_path, {}).load(PointKey("decopa", 2))


def test_gains_are_over_the_baseline_and_over_peers() -> None:
    assert gain(POINTS[2], POINTS) == pytest.approx(3)
    assert gain_over(POINTS[2], "hybrid", POINTS) == pytest.approx(2)
    assert gain(POINTS[2], POINTS[1:]) is None


# ----------------------------------------------------------------------- reports


def test_emulated_results_say_so_everywhere(tmp_path: Path) -> None:
    for table in (text_table(POINTS), markdown_table(POINTS)):
        assert "decopa (emulated)" in table
        assert "3x" in table
        assert "times as fast" in table
    document = json.loads(results_document(POINTS, {}))
    assert document["emulated"] is True
    assert all(one["emulated"] for one in document["points"])
    pytest.importorskip("matplotlib")
    paths = write_plots(POINTS, tmp_path, "q")
    assert {path.name for path in paths} == {"throughput.png", "gain.png", "latency.png", "predicted.png"}
    assert all(path.stat().st_size > 5_000 for path in paths)


def test_machines_are_shown_where_there_are_several(tmp_path: Path) -> None:
    machines = [
        {"address": f"10.0.0.{number}", "processes": [f"q/o3/{number}"], "sent_bytes": 2_500_000,
         "predicted_bytes": 2e6, "throttled": share}
        for number, share in ((1, None), (2, 0.75))
    ]  # fmt: skip
    alone, together = point("decopa", 1, 10, machines=machines[:1]), point("decopa", 2, 20, machines=machines)
    for table in (text_table([alone, together]), markdown_table([alone, together])):
        assert table.count("10.0.0.1") == 1
        assert "2.50 MB" in table
        assert "75% of the time" in table
    assert "10.0.0.1" not in text_table([alone])
    pytest.importorskip("matplotlib")
    assert (tmp_path / "machines.png") in write_plots([alone, together], tmp_path, "q")


def test_real_results_do_not() -> None:
    real = [point("decopa", 4, 10, emulated=False)]
    assert "emulated" not in text_table(real)


# ----------------------------------------------------------------------- predictions


def test_loads_of_a_run_are_predicted_to_a_few_percent() -> None:
    source = open_trace(SPEC.table())
    statistics = [one.statistics for one in measure([QUERY], source)]
    result = run_detailed(
        QUERY, source, units=4, strategy="decopa", runtime="local", planning=decopa.Planning(statistics=statistics)
    )
    checks = check_loads(result.plan, statistics, result.span_us, reports_of(result.plan, result.operators))
    error = median_error(checks, "comparisons")
    assert error is not None
    assert error < 0.1


def test_the_predicted_rate_keeps_the_slowest_process_just_busy() -> None:
    source = open_trace(SPEC.table())
    statistics = [one.statistics for one in measure([QUERY], source)]
    capacity = Capacity.per_second(1_000, 50_000)
    plan = make_plan(QUERY, statistics, units=4, capacity=capacity)
    span_us = 30_000_000
    rate, slowest = predicted_rate(plan, statistics, span_us, 30_000, capacity)
    busy = predicted_busy_s(plan, statistics, span_us, capacity)
    assert slowest == max(busy, key=lambda name: busy[name])
    assert 30_000 / rate == pytest.approx(busy[slowest])
    twice, _ = predicted_rate(plan, statistics, span_us, 30_000, capacity.times(2))
    assert twice == pytest.approx(2 * rate)


def test_more_units_never_sustain_less_in_busy_time() -> None:
    source = open_trace(SPEC.table())
    statistics = [one.statistics for one in measure([QUERY], source)]
    from decopa.planning.planner import plan_workload
    from decopa.planning.price import price_plan

    capacity = Capacity(3_000, 20_000, max_emission=5_000, objective=Objective.BUSY)
    found = []
    for units in (2, 4, 8):
        (part,) = plan_workload([QUERY], statistics, capacity, units=units).plan.parts
        found.append(price_plan(part, statistics[0], capacity).scaling.log_scaling)
    assert found == sorted(found)


def test_work_that_took_long_once_is_no_lasting_credit() -> None:
    slept: list[float] = []
    emulation = Emulation(Capacity.per_second(1_000, 1e9), slept.append)
    emulation.spend([UnitReport("o", 0, 0, 1, 0, 0, 0, 0)], 10.0)  # compiling
    emulation.spend([UnitReport("o", 0, 0, 1_001, 0, 0, 0, 0)], 0.0)
    assert slept == [pytest.approx(0.75, abs=0.01)]


# ----------------------------------------------------------------------- the command


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (["--strategies", "decopa,hybird"], "unknown strategy 'hybird'"),
        (["--emulate"], "give --iota and --kappa, per second, or --capacity FILE"),
        (["--target-rate", "100"], "add --emulate"),
        (["--units", "1,x"], "not a whole number"),
    ],
)
def test_wrong_arguments_are_refused(extra: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scale", "PATTERN SEQ(A a, B b) WITHIN 1 s", "--trace", "t", "--units", "2", *extra]) == 2
    assert message in capsys.readouterr().err


def test_a_capacity_file_replaces_iota_and_kappa(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "capacity.json"
    path.write_text(Capacity.per_second(1_000, 5_000, 700).to_json())
    trace = tmp_path / "t.parquet"
    from decopa.files import write_batches

    write_batches(SPEC.schema, SPEC.batches(), trace, overwrite=False)
    query = str(QUERY)
    arguments = ["plan", query, "--trace", str(trace), "--units", "3", "--capacity", str(path), "--objective", "busy"]
    assert main([*arguments, "--out", str(tmp_path / "p.json")]) == 0
    assert "limited by busy time" in capsys.readouterr().err
    assert main([*arguments, "--iota", "5"]) == 2
    assert "--capacity" in capsys.readouterr().err


def test_an_emulated_unit_makes_up_for_what_handing_over_messages_takes() -> None:
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    emulation = Emulation(Capacity.per_second(1_000, 1e9), sleep, lambda: now[0])
    for message in range(1, 11):
        now[0] += 0.05 + 0.01  # handed over, worked on
        emulation.spend([UnitReport("o", 0, 0, 100 * message, 0, 0, 0, 0)], 0.01)
    assert now[0] == pytest.approx(1.05, abs=0.01)  # ten messages of a tenth of a second, and the first hand-over
