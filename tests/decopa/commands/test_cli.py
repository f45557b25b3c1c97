"""The command line, run on real files: what it prints, what it writes, and with which status it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import decopa
from decopa.choices import STRATEGIES
from decopa.commands.cli import main
from decopa.commands.terminal import Progress
from tests.support.command_line import EVENTS, MATCHES, QUERY, ROOT, RUN, in_new_process

# ------------------------------------------------------------------ run


def test_matches_are_shown_on_stdout_and_the_summary_on_stderr(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*RUN, QUERY, "--trace", str(trace)]) == 0
    captured = capsys.readouterr()
    assert captured.out == (
        "query  start_ts  end_ts  a  b\n"
        "q             0       8  1  3\n"
        "q             4       8  2  3\n"
    )  # fmt: skip
    summary = dict(line.split(maxsplit=1) for line in captured.err.splitlines() if len(line.split()) > 1)
    assert summary["q:"] == "SEQ(A a, B b) WITHIN 10 us"
    assert summary["events"] == "4 over 30 us"
    assert summary["matches"] == "2"
    assert "events/s" in summary["time"]
    assert int(summary["comparisons"]) >= 2


def test_a_quiet_run_prints_matches_alone(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*RUN, QUERY, "--trace", str(trace), "--quiet"]) == 0
    assert capsys.readouterr().err == ""


def test_no_matches_print_nothing_on_stdout(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*RUN, QUERY.replace("10 us", "1 us"), "--trace", str(trace)]) == 0
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("suffix", ["parquet", "csv", "jsonl"])
def test_matches_are_written_in_the_format_of_the_suffix(trace: Path, out: Path, suffix: str) -> None:
    path = out / f"matches.{suffix}"
    assert main([*RUN, QUERY, "--trace", str(trace), "--out", str(path)]) == 0
    if suffix == "jsonl":
        rows = [json.loads(line) for line in path.read_text().splitlines()]
    else:
        rows = (pq.read_table(path) if suffix == "parquet" else pyarrow.csv.read_csv(path)).to_pylist()
    assert [{"a": row["a"], "b": row["b"]} for row in rows] == MATCHES
    assert list(out.iterdir()) == [path]


def test_the_query_may_be_a_file_of_several(trace: Path, out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (out / "queries.txt").write_text(f"QUERY one {QUERY}\nQUERY two {QUERY}")
    assert main([*RUN, str(out / "queries.txt"), "--trace", str(trace)]) == 0
    captured = capsys.readouterr()
    assert [line.split()[0] for line in captured.out.splitlines()] == ["query", "one", "one", "two", "two"]
    assert "matches      4 (one 2, two 2)" in captured.err


def test_columns_can_be_named(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pq.write_table(EVENTS.rename_columns(["event", "when", "kind", "x", "s"]), trace)
    assert main([*RUN, QUERY, "--trace", str(trace), "--id", "event", "--ts", "when", "--type", "kind"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3


def test_long_results_are_cut_with_a_hint(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pq.write_table(
        pa.table({"id": range(20), "ts": range(20), "type": ["A"] * 19 + ["B"], "x": [0.0] * 19 + [1.0]}),
        tmp_path / "t.parquet",
    )
    assert main([*RUN, QUERY.replace("10 us", "1 s"), "--trace", str(tmp_path / "t.parquet")]) == 0
    captured = capsys.readouterr()
    assert len(captured.out.splitlines()) == 11
    assert "19; 10 shown, write all with --out FILE" in captured.err


def test_unsorted_events_are_sorted_with_a_note(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pq.write_table(EVENTS.take([2, 0, 1, 3]), trace)
    assert main([*RUN, QUERY, "--trace", str(trace)]) == 0
    captured = capsys.readouterr()
    assert len(captured.out.splitlines()) == 3
    assert "timestamps were not in order: sorted 4 events" in captured.err


def test_a_plan_file_is_run(trace: Path, out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", QUERY, "--out", str(out / "plan.json")]) == 0
    assert main([*RUN, QUERY, "--trace", str(trace), "--plan", str(out / "plan.json")]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3


def test_progress_rewrites_one_line_now_and_then(capsys: pytest.CaptureFixture[str]) -> None:
    times = iter([1.0, 1.1, 3.0, 4.0])
    progress = Progress(clock=lambda: next(times))
    progress.phase("planning")
    for events, matches in ((10, 0), (20, 5), (4_010, 7), (4_010, 0)):
        progress(events, matches)
    progress.clear()
    last = "running: 4,010 events, 2,000 events/s, 7 matches"  # the rate is that of the time in which events came
    lines = ["planning", "running: 10 events, 0 matches", last, last, ""]
    assert capsys.readouterr().err == "".join(f"\r\x1b[K{line}" for line in lines)


def test_a_summary_holds_predictions_against_what_was_done(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*RUN, QUERY, "--trace", str(trace)]) == 0
    told = capsys.readouterr().err
    assert "predicted" in told
    assert "measured" in told
    assert main([*RUN, QUERY, "--trace", str(trace), "--strategy", "left-deep"]) == 0
    told = capsys.readouterr().err
    assert "predicted" not in told
    assert "comparisons" in told


def test_a_trace_that_cannot_be_measured_is_planned_left_deep(
    trace: Path, out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pq.write_table(EVENTS.set_column(1, "ts", pa.array([5, 5, 5, 5])), trace)
    assert main([*RUN, QUERY, "--trace", str(trace)]) == 0
    assert "planned left-deep: rates cannot be measured" in capsys.readouterr().err
    # A strategy that was asked for falls back as well: every strategy finds the exact matches.
    assert main([*RUN, QUERY, "--trace", str(trace), "--strategy", "decopa"]) == 0
    assert "planned left-deep: rates cannot be measured" in capsys.readouterr().err


# ------------------------------------------------------------------ live streams


LINES = "".join(json.dumps(row) + "\n" for row in EVENTS.to_pylist())


def live(text: str, *options: str) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own, whose standard input is the text."""
    command = [sys.executable, "-m", "decopa", *RUN, QUERY, "--trace", "-", *options]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.run(command, env=environment, input=text, capture_output=True, text=True, check=False)


def test_standard_input_is_a_live_stream_of_json_lines() -> None:
    ended = live(LINES)
    assert ended.returncode == 0
    assert [json.loads(line)["query"] for line in ended.stdout.splitlines()] == ["q", "q"]
    assert "planned left-deep: a live stream cannot be measured" in ended.stderr


def test_late_events_of_a_live_stream_are_refused_allowed_or_dropped() -> None:
    first, second, third, fourth = LINES.splitlines(keepends=True)
    late = first + third + second + fourth
    refused = live(late)
    assert refused.returncode == 2
    assert "--allowed-lateness" in refused.stderr
    assert len(live(late, "--allowed-lateness", "5 us").stdout.splitlines()) == 2
    dropped = live(late, "--late", "drop")
    assert len(dropped.stdout.splitlines()) == 1
    assert "dropped 1 late event" in dropped.stderr


def test_a_live_stream_without_events_or_without_an_attribute_is_refused() -> None:
    assert "ended before its first event" in live("").stderr
    assert "--schema x=float" in live(LINES.replace('"x"', '"y"')).stderr
    assert live(LINES.replace('"x"', '"y"'), "--schema", "x=float").returncode == 0
    assert "JSON parse error" in live(LINES + "{").stderr


# ------------------------------------------------------------------ plan, explain, trace, help


def test_a_plan_is_printed_and_explained_as_a_tree(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", QUERY]) == 0
    text = capsys.readouterr().out
    assert json.loads(text)["format"] == "decopa-plan"
    (out / "plan.json").write_text(text)
    assert main(["explain", str(out / "plan.json")]) == 0
    shown = capsys.readouterr().out
    assert "SEQ(A,B)" in shown
    assert "├─" in shown


def test_a_cost_based_plan_needs_statistics_and_says_where_from(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", QUERY, "--strategy", "decopa"]) == 2
    assert "--stats FILE" in capsys.readouterr().err


def test_statistics_plan_explanation_and_page_fit_together(
    trace: Path, out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stats, plan, page = (str(out / name) for name in ("stats.json", "plan.json", "plans.html"))
    assert main(["stats", QUERY, "--trace", str(trace), "--out", stats]) == 0
    for strategy in ("decopa", "hybrid"):
        flags = ["--stats", stats, "--units", "3", "--strategy", strategy, "--out", plan, "--overwrite"]
        assert main(["plan", QUERY, *flags]) == 0
    assert main(["explain", plan, plan, "--stats", stats, "--html", page]) == 0
    assert "limit" in capsys.readouterr().out
    assert "<svg" in Path(page).read_text()
    assert main([*RUN, QUERY, "--trace", str(trace), "--stats", stats, "--strategy", "rip", "--units", "3"]) == 0


def test_statistics_of_another_query_are_refused(trace: Path, out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stats = str(out / "stats.json")
    assert main(["stats", QUERY, "--trace", str(trace), "--out", stats]) == 0
    other = "PATTERN SEQ(A a, B b) WHERE a.x > b.x WITHIN 10 us"
    assert main(["plan", other, "--stats", stats, "--strategy", "decopa", "--units", "2"]) == 2
    assert "another query" in capsys.readouterr().err


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_a_synthetic_trace_can_be_searched(out: Path, capsys: pytest.CaptureFixture[str], suffix: str) -> None:
    path = out / f"trace.{suffix}"
    options = ["--types", "3", "--selectivity", "A,B=0.05", "--window", "50 ms", "--seed", "7"]
    assert main(["trace", "synthetic", "--events", "2e3", "--out", str(path), *options]) == 0
    told = dict(line.split(maxsplit=1) for line in capsys.readouterr().err.splitlines())
    assert told["events"] == "2,000 of 3 types over about 2 s"
    assert told["per"].startswith("window   A 29.36, B 12.78, C 7.8")
    assert told["selectivity"].startswith("0.05 for A a, B b: min(abs(a.a_b - b.a_b), 1 - abs(a.a_b - b.a_b)) < 0.025")
    query = told["query"].removeprefix("to try ")
    assert main([*RUN, query, "--trace", str(path)]) == 0
    assert capsys.readouterr().out.startswith("query  start_ts  end_ts")


def test_the_same_seed_writes_the_same_file(out: Path) -> None:
    for name in ("one", "two"):
        assert main(["trace", "synthetic", "--events", "100", "--out", str(out / f"{name}.csv"), "--quiet"]) == 0
    assert (out / "one.csv").read_text() == (out / "two.csv").read_text()


@pytest.mark.parametrize(
    "command", [[], ["run"], ["plan"], ["explain"], ["trace"], ["trace", "synthetic"], ["trace", "rides"]]
)
def test_every_command_has_help(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main([*command, "--help"])
    assert caught.value.code == 0
    assert capsys.readouterr().out.startswith(" ".join(["usage: decopa", *command]))


def test_help_loads_nothing_heavy() -> None:
    code = "import sys; from decopa.commands.cli import make_parser; make_parser(); print(*sys.modules)"
    loaded = in_new_process("-c", code).stdout.split()
    assert "decopa.commands.cli" in loaded
    assert not {"numba", "numpy", "pyarrow", "lark"} & set(loaded)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_strategy_of_the_command_line_runs(strategy: str, trace: Path, tmp_path: Path) -> None:
    out = tmp_path / "matches.parquet"
    assert main([*RUN, QUERY, "--trace", str(trace), "--strategy", strategy, "--units", "3", "--out", str(out)]) == 0
    assert pq.read_table(out).select(["a", "b"]).to_pylist() == MATCHES


# ------------------------------------------------------------------ endings


def test_an_interrupt_ends_with_130_and_leaves_nothing_behind(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    previous = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    try:
        assert main(["trace", "synthetic", "--events", "1e9", "--out", str(out / "t.parquet")]) == 130
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    assert capsys.readouterr().err == "decopa: interrupted\n"
    assert list(out.iterdir()) == []


def test_a_reader_that_goes_away_is_no_crash(out: Path) -> None:
    query = "PATTERN AND(" + ", ".join(f"A a{number}" for number in range(30)) + ") WITHIN 1 s"
    read_end, write_end = os.pipe()
    os.close(read_end)
    with subprocess.Popen(
        [sys.executable, "-m", "decopa", "plan", query],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=write_end,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        os.close(write_end)
        _, errors = process.communicate()
    assert process.returncode == 141
    assert errors == ""


def test_the_package_runs_as_a_module() -> None:
    assert in_new_process("-m", "decopa", "--version").stdout == f"decopa {decopa.__version__}\n"
