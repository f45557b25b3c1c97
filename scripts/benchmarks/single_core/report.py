"""Measurements as aligned tables on standard output."""

from collections.abc import Sequence

from decopa.report.table import text_table
from scripts.benchmarks.single_core.measurement import Measurement

MISSING = "-"


def print_peers(measurements: Sequence[Measurement]) -> None:
    """Our engine, the bare loop and DuckDB, with the targets."""
    header = ["workload", "events", "matches", "matches/event", "ours events/s", "ours comparisons/s"]
    header += ["bare s", "duckdb s", "ours s", "as table s", "ours/bare", "target", "ours/duckdb", "target", "ok?"]
    rows = []
    for each in measurements:
        ours = each.ours
        bare_target, duckdb_target = each.targets or (None, None)
        rows.append(
            [
                each.name,
                f"{each.events:,}",
                f"{each.matches:,}",
                f"{each.matches / each.events:.2f}",
                f"{each.events / ours.seconds:,.0f}" if ours else MISSING,
                f"{ours.comparisons / ours.seconds:,.0f}" if ours and ours.comparisons else MISSING,
                _number(each.bare_seconds, 3),
                _number(each.duckdb.seconds if each.duckdb else None, 3),
                _number(ours.seconds if ours else None, 3),
                _number(ours.table_seconds if ours else None, 3),
                _number(each.bare_ratio, 2),
                _number(bare_target, 2),
                _number(each.duckdb_ratio, 2),
                _number(duckdb_target, 2),
                {True: "yes", False: "NO", None: MISSING}[each.reached],
            ]
        )
    _print_table("one core, three engines", header, rows)


def print_bare_details(measurements: Sequence[Measurement]) -> None:
    """Where the bare loop's seconds go."""
    header = ["workload", "split s", "loop s", "candidate pairs", "pairs/s in loop", "events/s"]
    rows = [
        [
            each.name,
            _number(each.bare_split_seconds, 4),
            _number(each.bare_loop_seconds, 4),
            f"{each.candidates:,}",
            f"{each.candidates / each.bare_loop_seconds:,.0f}",
            f"{each.events / each.bare_seconds:,.0f}",
        ]
        for each in measurements
    ]
    _print_table("the bare loop in detail", header, rows)


def print_scaling(measurements: Sequence[Measurement]) -> None:
    """Cost of SEQ(A a, B b) at growing windows: it should follow the candidate pairs."""
    header = ["window", "matches", "candidate pairs", "bare loop s", "bare ns/pair"]
    header += ["ours comparisons", "ours s", "ours ns/pair"]
    rows = []
    for each in measurements:
        ours, pairs = each.ours, max(each.candidates, 1)
        rows.append(
            [
                each.name,
                f"{each.matches:,}",
                f"{each.candidates:,}",
                _number(each.bare_loop_seconds, 4),
                _number(each.bare_loop_seconds / pairs * 1e9, 2),
                f"{ours.comparisons:,}" if ours and ours.comparisons else MISSING,
                _number(ours.seconds if ours else None, 4),
                _number(ours.seconds / pairs * 1e9 if ours else None, 2),
            ]
        )
    _print_table("scaling with the window: SEQ(A a, B b) WHERE a.x < b.x", header, rows)


def _number(value: float | None, digits: int) -> str:
    return MISSING if value is None else f"{value:.{digits}f}"


def _print_table(title: str, header: list[str], rows: list[list[str]]) -> None:
    print(f"\n{title}\n{text_table(header, rows, words=())}")
