"""Ladder, comparison of matches and report of the benchmark against peers."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from scripts.benchmarks.peers import report, results
from scripts.benchmarks.peers.cases import Absent, catalogue
from scripts.benchmarks.peers.contenders import BY_NAME
from scripts.benchmarks.peers.job import Outcome, answer
from scripts.benchmarks.peers.ladder import climb
from scripts.benchmarks.peers.main import disagreement
from scripts.benchmarks.peers.results import CaseResult


def result(**outcomes: Outcome) -> CaseResult:
    named = {"decopa local": Outcome(160, 10, 0.001), "decopa local, batches of 10,000": Outcome(160, 10, 0.002)}
    named |= {name.replace("_", " "): outcome for name, outcome in outcomes.items()}
    return CaseResult("window-1", "window", "three", "PATTERN ...", 126.0, 10, 160, named, {}, "scripts/bench_peers")


def test_a_ratio_compares_events_per_second() -> None:
    case = result(FlinkCEP=Outcome(16, 1, 0.2))  # 5 events/s, and decopa 10,000
    assert case.ratio("FlinkCEP") == pytest.approx(2000)


def test_batches_are_compared_with_batches_of_the_same_size() -> None:
    slow = Outcome(160, 10, 0.02)
    case = result(**{"DuckDB,_batches_of_10,000": slow, "DuckDB,_time-bucket_join": slow})
    assert case.ratio("DuckDB, batches of 10,000") == pytest.approx(10)
    assert case.ratio("DuckDB, time-bucket join") == pytest.approx(20)


def test_targets_say_reached_missed_or_not_measured() -> None:
    case = result(FlinkCEP=Outcome(16, 1, 0.2), **{"DuckDB,_time-bucket_join": Outcome(160, 10, 0.0019)})
    rows = report.target_table([case])[2:]
    assert rows[0] == "| three | FlinkCEP | 1,000x | 2,000x | reached |"
    assert "| 1.9x | MISSED |" in rows[1]
    assert "not measured" in rows[2]


def test_what_decopa_loses_is_in_the_table() -> None:
    case = result(**{"DuckDB,_plain_join": Outcome(160, 10, 0.0005)})
    assert any("DuckDB, plain join" in row and "0.5x (slower)" in row for row in report.case_table(case))


def test_the_report_has_commands_machine_failures_and_what_was_not_run() -> None:
    text = report.markdown(
        [result()],
        {"machine": "a computer"},
        commands=["scripts/bench_peers --only window"],
        limit_s=15,
        skipped={"google": "no file"},
        plots={"Growth": "peers_window.png"},
    )
    for part in ("scripts/bench_peers --only window", "a computer", "16 an event", "google: no file", "in 15 s"):
        assert part in text
    assert "![Growth](peers_window.png)" in text


def test_other_matches_are_told_with_name_and_place() -> None:
    case = catalogue(Path("nowhere"))["window-1"]
    assert disagreement(case, BY_NAME["FlinkCEP"], Outcome(7, 100, 1.0), lambda events: 7) is None
    told = disagreement(case, BY_NAME["FlinkCEP"], Outcome(7, 100, 1.0), lambda events: 8)
    assert told == "window-1: FlinkCEP found 7 matches in the first 100 events, decopa local 8"


def test_results_survive_the_store(tmp_path: Path) -> None:
    case = result(FlinkCEP=Outcome(16, 1, 0.2))
    results.save([case], {"machine": "a computer"}, tmp_path / "out" / "peers.json")
    assert results.load(tmp_path / "out" / "peers.json") == [case]
    assert results.load(tmp_path / "none.json") == []


def test_the_csv_has_a_row_for_each_contender(tmp_path: Path) -> None:
    results.write_csv([result(FlinkCEP=Outcome(16, 1, 0.2))], tmp_path / "peers.csv")
    rows = list(csv.DictReader((tmp_path / "peers.csv").read_text().splitlines()))
    assert [row["contender"] for row in rows][-1] == "FlinkCEP"
    assert rows[-1]["decopa_is_faster_by"] == "2000"


def test_the_answer_is_the_last_line() -> None:
    told = {"matches": 1, "events": 2, "seconds": 0.5}
    assert answer(f"warning\n{json.dumps(told)}\n") == Outcome(1, 2, 0.5)
    with pytest.raises(ValueError, match="nothing was printed"):
        answer("\n")


def test_a_slow_contender_stops_at_the_beginning_that_fits() -> None:
    asked = []

    def quadratic(events: int) -> Outcome:
        asked.append(events)
        return Outcome(0, events, (events / 1000) ** 2 * 0.05)

    outcome = climb(quadratic, 1_000_000, limit_s=2, repeat=2)
    assert outcome is not None
    assert (outcome.events, outcome.runs) == (4_000, 2)
    assert max(asked) == 4_000  # 16,000 events would take 12.8 s


def test_a_contender_that_takes_a_while_to_begin_is_not_stopped_early() -> None:
    outcome = climb(lambda events: Outcome(0, events, 1 + events / 1e6), 1_000_000, limit_s=8, repeat=1)
    assert outcome is not None
    assert outcome.events == 1_000_000


def test_a_contender_that_starts_slowly_is_not_stopped_early() -> None:
    times = iter([5.0])
    outcome = climb(lambda events: Outcome(0, events, next(times, events / 1e6)), 1_000_000, limit_s=15, repeat=1)
    assert outcome is not None
    assert outcome.events == 1_000_000


def test_a_contender_that_compiles_for_a_new_size_is_not_stopped_early() -> None:
    seen: set[int] = set()

    def compiling(events: int) -> Outcome:
        known = events in seen
        seen.add(events)
        return Outcome(0, events, events / 1e6 + (0 if known else 1.5))

    outcome = climb(compiling, 1_000_000, limit_s=8, repeat=2)
    assert outcome is not None
    assert outcome.events == 1_000_000
    assert outcome.seconds == pytest.approx(1.0)


def test_a_fast_contender_does_the_whole_trace() -> None:
    outcome = climb(lambda events: Outcome(0, events, events / 1e6), 100_000, limit_s=15, repeat=3)
    assert outcome is not None
    assert outcome.events == 100_000
    assert outcome.runs >= 3


def test_who_is_stopped_keeps_the_last_beginning_that_was_done() -> None:
    outcome = climb(lambda events: Outcome(0, events, 0.01) if events < 10_000 else None, 50_000, limit_s=9, repeat=1)
    assert outcome is not None
    assert outcome.events == 4_000


def test_a_missing_trace_is_told() -> None:
    with pytest.raises(Absent, match=r"google_cluster\.parquet is not in nowhere/"):
        catalogue(Path("nowhere"))["google"].load(1)
