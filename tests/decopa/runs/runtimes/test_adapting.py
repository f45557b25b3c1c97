"""Runs whose plan follows the stream: the same matches as without, fewer comparisons, and every change is told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import decopa
from actors.columnar.jit import interpreted
from decopa import Adapt, Capacity, DecoPaError, Limits, Planning, RunResult, TraceOptions
from decopa.commands.cli import main
from decopa.planning.price import plan_units
from tests.support.mirrored import QUERY, RARE_A, RARE_C, mirrored, stream

pytestmark = pytest.mark.usefixtures("without_compiling")

SMALL = TraceOptions(batch_size=32)
#: Looks are not rationed, so that what is decided follows from the events alone.
OFTEN = Adapt(overhead=1.0)


@pytest.fixture(scope="module")
def events() -> pa.Table:
    return mirrored()


@pytest.fixture(scope="module")
def adapted(events: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> tuple[RunResult, Path]:
    log = tmp_path_factory.mktemp("adapted") / "changes.jsonl"
    with interpreted():
        return decopa.run_detailed(QUERY, events, trace=SMALL, adapt=Adapt(overhead=1.0, log=str(log))), log


def test_mirrored_rates_change_the_plan_both_ways_and_no_match(
    events: pa.Table, adapted: tuple[RunResult, Path]
) -> None:
    fixed, followed = decopa.run_detailed(QUERY, events, trace=SMALL), adapted[0]
    assert followed.matches.equals(fixed.matches)
    first, second = followed.switches
    assert 0 <= first.at_us - 360_000_000 <= 60_000_000
    assert 0 <= second.at_us - 720_000_000 <= 60_000_000
    assert "rate of A" in first.reason and "rate of C" in second.reason
    assert second.plan == followed.plan != first.plan
    assert followed.comparisons < 0.8 * fixed.comparisons


def test_every_change_tells_what_it_promised_and_what_it_brought(adapted: tuple[RunResult, Path]) -> None:
    result, log = adapted
    for switch in result.switches:
        assert switch.gain >= 1.25 and switch.promised and switch.measured and switch.measured > 1.25
        assert switch.replayed and switch.pause_s > 0 and "times measured" in str(switch)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [line["kind"] for line in lines] == ["decided", "plan", "audit"] * 2
    assert lines[1]["at_event"] == result.switches[0].at_event
    from decopa.report.run_summary import figures

    assert [what for what, _ in figures(result) if what.startswith("change")] == ["change 1", "change 2"]


def test_a_steady_stream_keeps_its_plan() -> None:
    steady = decopa.run_detailed(QUERY, stream([(900, RARE_A)]), trace=SMALL, adapt=OFTEN)
    assert steady.switches == ()


def test_the_number_of_units_follows_the_load() -> None:
    low = dict.fromkeys("ABC", 60.0)
    events = stream([(240, low), (240, {name: 5 * rate for name, rate in low.items()}), (240, low)])
    planning = Planning(units=2, capacity=Capacity.per_second(100, 25))
    adapt = Adapt(overhead=1.0, units=(2, 8))
    followed = decopa.run_detailed(QUERY, events, runtime="local", planning=planning, trace=SMALL, adapt=adapt)
    units = [plan_units(switch.plan) for switch in followed.switches]
    assert max(units) > 5 and units[-1] == 2
    assert followed.matches.equals(decopa.run(QUERY, events, trace=SMALL))


def test_counts_figures_and_folders_are_the_same_with_changes(
    events: pa.Table, adapted: tuple[RunResult, Path], tmp_path: Path
) -> None:
    matches = adapted[0].match_count
    counted = decopa.run_detailed(QUERY, events, trace=SMALL, adapt=OFTEN, count=True)
    figures = decopa.run_detailed(f"{QUERY} RETURN count(*), max(b.x)", events, trace=SMALL, adapt=OFTEN)
    written = decopa.run_detailed(QUERY, events, trace=SMALL, adapt=OFTEN, out=tmp_path / "matches")
    for run in (counted, figures, written):
        assert len(run.switches) == 2 and run.match_count == matches
    assert figures.matches["count(*)"].to_pylist() == [matches]


def test_a_live_stream_is_measured_and_planned_while_it_runs() -> None:
    """Nobody knows its rates beforehand, so it begins with a plan in the order of the query."""
    reversed_rates = stream([(300, RARE_C)])
    batches = reversed_rates.to_batches(max_chunksize=32)
    run = decopa.watch(QUERY, iter(batches), adapt=Adapt(every_s=1e-6, overhead=1.0, horizon_s=1e6))
    found = pa.concat_tables(list(run)).sort_by(
        [("end_ts", "ascending"), ("start_ts", "ascending"), ("b", "ascending")]
    )
    expected = decopa.run(QUERY, reversed_rates).sort_by(
        [("end_ts", "ascending"), ("start_ts", "ascending"), ("b", "ascending")]
    )
    assert found.select(["a", "b", "c"]).to_pylist() == expected.select(["a", "b", "c"]).to_pylist()
    summary = run.summary()
    assert summary.switches and "the stream was measured" in summary.switches[0].reason
    assert summary.plan == summary.switches[-1].plan


def test_a_change_that_cannot_be_written_down_is_given_up_and_the_run_goes_on(events: pa.Table) -> None:
    """/dev/full is a disk without room."""
    full = decopa.run_detailed(
        QUERY, events, trace=SMALL, adapt=Adapt(overhead=1.0, cool_down_s=500.0, log="/dev/full")
    )
    assert full.matches.equals(decopa.run(QUERY, events, trace=SMALL))
    assert full.switches and all("No space left" in str(one.given_up) for one in full.switches)


def test_nested_nots_keep_their_plan_where_matches_are_out_already() -> None:
    query = "PATTERN SEQ(A a, NOT(SEQ(B b, NOT(C c))), C d) WHERE a.x = d.x WITHIN 20 s"
    events = mirrored(120)
    followed = decopa.run_detailed(query, events, trace=SMALL, adapt=OFTEN)
    assert followed.switches == () and followed.matches.equals(decopa.run(query, events, trace=SMALL))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"limits": Limits(spill=decopa.Spill(Path("folder")))}, "--adapt and --spill exclude each other"),
        ({"limits": Limits(on_limit="drop-query")}, "--adapt and --on-limit drop-query exclude each other"),
        ({"adapt": Adapt(units=(2, 8))}, "takes 2 to 8 units cannot begin with 1"),
        ({"units": 2, "count": True}, "hands over matches when the plan changes, which --out none does not make"),
        ({"units": 2, "out": Path("matches")}, "which a folder of matches does not make"),
    ],
)
def test_what_cannot_be_adapted_is_refused_with_one_line(events: pa.Table, options: Any, message: str) -> None:
    with pytest.raises(DecoPaError, match=message):
        decopa.run(QUERY, events, **({"adapt": OFTEN} | options))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"units": (8, 2)}, "units 8:2 name no number of units; write the smaller number first, as in 2:8"),
        ({"gain": 1.0}, "a gain must be above 1"),
        ({"every_s": 0.0}, "more than 0"),
        ({"overhead": 2.0}, "a share of a run's time"),
    ],
)
def test_values_that_mean_nothing_cannot_be_made(values: Any, message: str) -> None:
    with pytest.raises(DecoPaError, match=message):
        Adapt(**values)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--units", "8:2", "--adapt"], "write the smaller number first, as in 2:8"),
        (["--units", "2:8"], "lets a run take more or fewer units while it goes on; add --adapt"),
        (["--adapt-gain", "2"], "--adapt-gain is about plans that change; add --adapt"),
        (["--adapt", "--spill", "folder", "--runtime", "local"], "--adapt and --spill exclude each other"),
        (["--adapt", "--adapt-log", "nowhere/changes.jsonl"], "cannot write changes to 'nowhere/changes.jsonl'"),
    ],
)
def test_the_command_line_refuses_with_one_line(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import pyarrow.parquet as pq

    pq.write_table(stream([(60, RARE_A)]), tmp_path / "events.parquet")
    assert main(["run", QUERY, "--trace", str(tmp_path / "events.parquet"), *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error and "Traceback" not in error
