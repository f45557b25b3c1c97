"""Predicted against measured: loads of every operator over at least 20 queries, and the rate that is sustained.

Loads come from runs in this process; rates from emulated units on Ray, whose capacity is declared, so that what is
checked is the model and not this machine.
"""

from __future__ import annotations

import argparse
import csv
import statistics
import sys
from dataclasses import dataclass
from pathlib import Path

import decopa
from actors.group import Limits
from cluster.ray_session import ray_session
from costmodel.capacity import Capacity
from costmodel.statistics import Statistics
from decopa.api import run_detailed
from decopa.choices import Objective
from decopa.language.text.parser import parse
from decopa.planning.planner import plan_workload
from decopa.report.run_summary import reports_of
from decopa.report.table import markdown_table
from decopa.runs.model_check import LoadCheck, check_loads, median_error
from decopa.runs.preparation.measure import measure
from decopa.runs.scaling.scale_points import Point, PointKey, PointStore
from decopa.runs.scaling.scale_test import ScaleSettings, ScaleTest
from scripts.benchmarks.model.model_cases import Case, all_cases, open_case
from shuffler.source.trace import TraceSource

#: Comparisons that an operator makes at least to be judged: fewer are chance.
LEAST = 1_000
GOALS = {"comparisons": 0.10, "rate": 0.20}
#: For the queries with KL and NOT: comparisons per operator, the worst factor of groups, the share of intervals.
KLEENE_GOALS = (0.15, 2.0, 0.9)
CAPACITY = Capacity.per_second(1_000, 50_000)
LIMITS = Limits(max_matches=10**8)


@dataclass(frozen=True)
class Checked:
    case: Case
    loads: list[LoadCheck]
    point: Point | None = None


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/model_check", description=__doc__)
    parser.add_argument("--shared", type=Path, default=Path("../shared"), help="folder with data/ (default: ../shared)")
    parser.add_argument("--out", type=Path, default=Path("docs/benchmarks"), help="folder of the report")
    parser.add_argument("--units", type=int, default=4, help="processing units of every plan (default: 4)")
    parser.add_argument("--rates", type=int, default=99, help="queries whose sustainable rate is measured, too")
    parser.add_argument("--seconds", type=float, default=6.0, help="window of observation (default: 6)")
    parser.add_argument("--only", default="", help="cases whose name contains one of these (commas between them)")
    args = parser.parse_args()
    cases = [case for case in all_cases() if any(part in case.name for part in args.only.split(","))]
    found = [Checked(case, _loads(case, args)) for case in cases]
    if args.rates:
        chosen = [one.case for one in found][:: max(1, len(found) // args.rates)][: args.rates]
        with ray_session(cpus=args.units + 2, dashboard=False):
            found = [
                Checked(one.case, one.loads, _rate(one.case, args) if one.case in chosen else None) for one in found
            ]
    text = report(found, args)
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "model_check.md").write_text(text, encoding="utf-8")
    _write_csv(found, args.out / "model_check.csv")
    print(text)
    return 0


def _opened(case: Case, args: argparse.Namespace) -> tuple[TraceSource, list[Statistics]]:
    source = open_case(case, args.shared)
    return source, [one.statistics for one in measure([parse(case.query)], source)]


def _loads(case: Case, args: argparse.Namespace) -> list[LoadCheck]:
    source, known = _opened(case, args)
    query = parse(case.query)
    plan = plan_workload([query], known, CAPACITY, units=args.units, objective=Objective.BUSY).plan
    result = run_detailed([query], source, planning=decopa.Planning(plan=plan, statistics=known), limits=LIMITS)
    checks = check_loads(plan, known, result.span_us, reports_of(plan, result.operators))
    error = median_error(checks, "comparisons", least=LEAST)
    shown = "-" if error is None else f"{error:.1%}"
    print(f"{case.name}: comparisons {result.comparisons:,}, median error {shown}", file=sys.stderr, flush=True)
    return checks


def _rate(case: Case, args: argparse.Namespace) -> Point:
    source, known = _opened(case, args)
    # Real traces have busy hours: each half of a window of observation sees all of them, and they are compared.
    seconds = 2 * args.seconds if case.is_real else args.seconds
    rate = 2 * (source.row_count or 0) / seconds if case.is_real else 1_000
    settings = ScaleSettings(
        CAPACITY,
        emulate=True,
        objective=Objective.BUSY,
        seconds=seconds,
        precision=0.08,
        most_trials=5,
        target_rate=rate,
        flush_s=0.1,
    )
    store = PointStore(args.out / "scaling" / "model_check" / case.name.replace(" ", "_"), settings.document())
    key = PointKey("decopa", args.units)
    point = store.load(key)
    if point is None:
        point = ScaleTest([parse(case.query)], known, source, settings).measure(key)
        store.save(key, point)
    shown = "-" if point.error is None else f"{point.error:+.1%}"
    print(
        f"{case.name}: {point.measured:,.4g}/s measured, {point.predicted:,.4g}/s predicted, {shown}", file=sys.stderr
    )
    return point


def report(found: list[Checked], args: argparse.Namespace) -> str:
    loads = [one for checked in found for one in checked.loads]
    errors = [abs(one.point.error) for one in found if one.point is not None and one.point.error is not None]
    lines = [
        "# Model check: predicted against measured",
        "",
        f"Command: `scripts/model_check --units {args.units} --seconds {args.seconds:g}`. "
        f"{len(found)} queries ({sum(one.case.is_real for one in found)} on the real traces), planned by `decopa` with "
        f"the `busy` objective for {args.units} units of {CAPACITY}. Statistics are those of the same trace. Loads are "
        "totals over a run in one process; an error is (predicted - measured) / measured; operators with fewer than "
        f"{LEAST:,} comparisons are not judged. Rates are those of emulated units on Ray (largest sustained, "
        f"{args.seconds:g} s of observation each, on real traces twice as long, so that each half of it sees the whole "
        "trace).",
        "",
    ]
    rows = []
    for quantity in ("ingested", "comparisons", "emitted"):
        error = median_error(loads, quantity, least=LEAST)
        goal = GOALS.get(quantity)
        rows.append((f"{quantity} per operator", _percent(error), _verdict(error, goal)))
    rate = statistics.median(errors) if errors else None
    rows.append((f"sustainable rate, {len(errors)} queries (emulated)", _percent(rate), _verdict(rate, 0.2)))
    lines += [markdown_table(("what", "median error", "goal"), rows, words=(0, 2)), ""]
    lines += _kleene_and_not(found)
    header = (
        "query", "operators", "comparisons, median error", "worst", "measured/s (emulated)", "predicted/s", "error",
    )  # fmt: skip
    cases = []
    for one in found:
        judged = [abs(check.error) for check in one.loads if check.quantity == "comparisons"
                  and check.measured >= LEAST and check.error is not None]  # fmt: skip
        cells = [one.case.name, str(len(one.loads) // 3), _percent(median_error(one.loads, "comparisons", least=LEAST))]
        cells.append(_percent(max(judged, default=None)))
        point = one.point
        if point is None:
            cells += ["-", "-", "-"]
        else:
            error = "-" if point.error is None else f"{point.error:+.1%}"
            cells += [f"{point.measured:,.4g}", f"{point.predicted:,.4g}", error]
        cases.append(cells)
    lines += [markdown_table(header, cases), "", "Every operator: [model_check.csv](model_check.csv).", ""]
    return "\n".join(lines)


def _kleene_and_not(found: list[Checked]) -> list[str]:
    """What is asked of the queries with KL and NOT."""
    mine = [one for one in found if " kl" in one.case.name or " not" in one.case.name]
    if not mine:
        return []
    loads = [check for one in mine for check in one.loads]
    compared = median_error(loads, "comparisons", least=LEAST)
    factors = [
        max(check.predicted / check.measured, check.measured / check.predicted)
        for check in loads
        if check.quantity == "emitted" and "KL(" in check.sub_query and check.measured >= 100 and check.predicted > 0
    ]
    told = [check.covered for checked in found for check in checked.loads if check.covered is not None]
    goal, factor, share = KLEENE_GOALS
    covered = sum(map(bool, told)) / max(1, len(told))
    worst = max(factors, default=1.0)
    return [
        f"Of the {len(mine)} queries with KL and NOT ({sum(one.case.is_real for one in mine)} on the real traces):",
        "",
        f"- comparisons per operator, median error: {_percent(compared)} ({_verdict(compared, goal)});",
        f"- groups per operator, worst factor: {worst:.2f} (at most {factor:g}: "
        f"{'reached' if worst <= factor else 'MISSED'}), median {statistics.median(factors or [1.0]):.2f};",
        f"- matches of all {len(told)} operators of all queries that lie in the interval told for them: {covered:.0%} "
        f"(at least {share:.0%}: {'reached' if covered >= share else 'MISSED'}).",
        "",
    ]


def _write_csv(found: list[Checked], path: Path) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["case", "operator", "sub_query", "quantity", "predicted", "measured", "error", "rough"])
        for checked in found:
            for one in checked.loads:
                error = "" if one.error is None else f"{one.error:.4f}"
                row = [checked.case.name, one.operator, one.sub_query, one.quantity]
                writer.writerow([*row, f"{one.predicted:.6g}", f"{one.measured:.6g}", error, int(one.rough)])
            if checked.point is not None:
                point = checked.point
                row = [checked.case.name, "", "", "sustainable rate (emulated)"]
                error = "" if point.error is None else f"{point.error:.4f}"
                writer.writerow([*row, f"{point.predicted:.6g}", f"{point.measured:.6g}", error, 0])


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


def _verdict(value: float | None, goal: float | None) -> str:
    if goal is None or value is None:
        return ""
    return f"below {goal:.0%}: {'reached' if value < goal else 'MISSED'}"


if __name__ == "__main__":
    sys.exit(main())
