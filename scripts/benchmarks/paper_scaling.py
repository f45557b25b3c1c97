"""Emulated scaling of the paper's queries: gains of `decopa` and `hybrid` over `centralized`, measured on Ray.

Units take as long as ones with the paper's iota and kappa would. Points are kept in the folder of the report and not
measured again; run it as often as there is time.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

from cluster.ray_session import ray_session
from decopa.choices import Objective
from decopa.report import table
from decopa.report.scale_report import EMULATED, markdown_table, write_plots
from decopa.runs.preparation.measure import measure
from decopa.runs.scaling.scale_points import Point, PointStore, gain, gain_over, measure_points, point_keys
from decopa.runs.scaling.scale_test import ScaleSettings, ScaleTest
from scripts.benchmarks.paper_traces import PaperCase, paper_case
from scripts.experiments.as_published.published import load, paper_queries
from shuffler.source.trace import open_trace

STRATEGIES = ("decopa", "hybrid", "centralized")
COLUMNS = {"decopa": "DecoPa", "hybrid": "Hybrid"}
WITHIN = 0.2
#: Events of a trace, about: a window of observation sees all of it, so that rare types weigh the same in each.
EVENTS = 80_000


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/paper_scaling", description=__doc__)
    parser.add_argument("--shared", type=Path, default=Path("../shared"), help="folder with data/ (default: ../shared)")
    parser.add_argument("--out", type=Path, default=Path("docs/benchmarks/scaling"), help="folder of the report")
    parser.add_argument("--units", default="5,10,15,20", help="numbers of units (default: %(default)s)")
    parser.add_argument("--queries", default="", help="queries whose name contains this")
    parser.add_argument("--seconds", type=float, default=10.0, help="window of observation (default: 10)")
    parser.add_argument("--rate", type=float, default=8_000.0, help="events/s that should really pass (default: 8000)")
    parser.add_argument("--report-only", action="store_true", help="write the report of the points that there are")
    args = parser.parse_args()
    units = [int(count) for count in args.units.split(",")]
    cases = [paper_case(paper) for paper in paper_queries(load(args.shared))]
    chosen = [case for case in cases if args.queries in case.name]
    if not args.report_only:
        with ray_session(cpus=max(units) + 4, dashboard=False):
            for case in chosen:
                _measure(case, units, args)
    found = {case.name: stored(case, args) for case in cases}
    text = report({case.name: case for case in cases}, {name: points for name, points in found.items() if points})
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "paper.md").write_text(text, encoding="utf-8")
    document = {name: [asdict(point) for point in points] for name, points in found.items()}
    (args.out / "paper.json").write_text(json.dumps({"emulated": True, "queries": document}, indent=1), "utf-8")
    for case in chosen:
        if len(found[case.name]) > 2:
            folder = args.out / case.name
            folder.mkdir(exist_ok=True)
            write_plots(found[case.name], folder, case.name)
    print(text)
    return 0


def _settings(case: PaperCase, args: argparse.Namespace) -> ScaleSettings:
    return ScaleSettings(
        case.capacity.for_window(1_000_000),
        emulate=True,
        objective=Objective.BUSY,
        seconds=args.seconds,
        precision=0.08,
        most_trials=5,
        target_rate=args.rate,
        flush_s=0.4,
    )


def _store(case: PaperCase, args: argparse.Namespace) -> PointStore:
    settings = _settings(case, args).document() | {"query": str(case.query), "events": EVENTS}
    return PointStore(args.out / case.name, settings)


def stored(case: PaperCase, args: argparse.Namespace) -> list[Point]:
    store = _store(case, args)
    points = [store.load(key) for key in point_keys(STRATEGIES, (5, 10, 15, 20))]
    return [point for point in points if point is not None]


def _measure(case: PaperCase, units: list[int], args: argparse.Namespace) -> None:
    windows = max(3, round(EVENTS / sum(case.rates.values())))
    source = open_trace(case.trace(windows))
    statistics = [one.statistics for one in measure([case.query], source)]
    test = ScaleTest([case.query], statistics, source, _settings(case, args))

    def tell(key: object, point: Point, known: bool) -> None:
        shown = "-" if point.error is None else f"{point.error:+.1%}"
        how = "kept" if known else f"{point.seconds:.0f} s"
        print(f"{case.name} {key}: {point.measured:,.4g}/s, predicted {point.predicted:,.4g}/s ({shown}), {how}",
              file=sys.stderr, flush=True)  # fmt: skip

    measure_points(point_keys(STRATEGIES, units), _store(case, args), test.measure, tell)


def report(cases: dict[str, PaperCase], found: dict[str, list[Point]]) -> str:
    points = [point for mine in found.values() for point in mine]
    errors = [abs(point.error) for point in points if point.error is not None]
    within = sum(error <= WITHIN for error in errors)
    lines = [
        "# Emulated scaling of the paper's queries",
        "",
        f"Command: `scripts/paper_scaling`. {EMULATED}. Capacities are the paper's (iota 2500 events a window, Google "
        "2400; kappa 80,000, Google 500,000), rates and selectivities those that its authors published; the events are "
        "made up from them, because the recovered traces lack types of four of the six queries. Predictions are those "
        "of the model nearest to the engine for the same plan, which meets each pair once and in order, where the "
        "paper's formulas count it twice and in any order: so printed gains and ours differ by more than noise, and "
        "the printed ones come from formulas, too. What the planner reaches under those formulas is in "
        "[the experiments' report](../../experiments/report.md).",
        "",
        f"{len(points)} points; rate within {WITHIN:.0%} of the prediction at {within} of {len(errors)}.",
        "",
    ]
    header = (
        "query", "units", "strategy", "gain, measured", "gain, predicted", "difference", "over hybrid",
        "paper's Table 3",
    )  # fmt: skip
    rows = []
    for name, mine in found.items():
        for point in mine:
            measured, predicted = gain(point, mine), gain(point, mine, predicted=True)
            if point.strategy not in COLUMNS or measured is None or predicted is None:
                continue
            over = gain_over(point, "hybrid", mine) if point.strategy == "decopa" else None
            printed = cases[name].gains[point.units][COLUMNS[point.strategy]]
            rows.append(
                [
                    name,
                    str(point.units),
                    f"{point.strategy} (emulated)",
                    f"{measured:.4g}x",
                    f"{predicted:.4g}x",
                    f"{measured / predicted - 1:+.1%}",
                    "" if over is None else f"{over:.3g}x",
                    f"{printed:g}x",
                ]
            )
    lines.append(table.markdown_table(header, rows, words=(0, 2)))
    for name, mine in found.items():
        lines += ["", f"## {name}", "", f"`{' '.join(str(cases[name].query).split())}`", "", markdown_table(mine)]
        if len(mine) > 2:
            lines += [f"![throughput]({name}/throughput.png) ![predicted against measured]({name}/predicted.png)"]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
