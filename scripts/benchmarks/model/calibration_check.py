"""Calibrated against measured: what real units of this machine sustain on Ray, and what `decopa calibrate` said.

Nothing is emulated. Every query is calibrated, then runs on one unit (all operators in one process), which is offered
one rate after the other.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
from dataclasses import dataclass, replace
from pathlib import Path

from cluster.measure.calibrate import calibrate_cluster, calibration_spec
from cluster.ray_session import ray_session
from costmodel.calibration import Calibration
from costmodel.capacity import Capacity
from decopa.choices import Objective
from decopa.commands.calibrate import summary
from decopa.language.text.parser import parse
from decopa.report.table import markdown_table
from decopa.runs.preparation.measure import measure
from decopa.runs.scaling.scale_points import Point, PointKey
from decopa.runs.scaling.scale_test import ScaleSettings, ScaleTest
from scripts.benchmarks.model.model_cases import AB, BC, Case, open_case
from scripts.benchmarks.peers.machine import cpu_name

_AB, _BC = AB.predicate("a", "b"), BC.predicate("b", "c")
#: Windows long enough for one unit to have more to do than the processes before and after it.
CASES = (
    Case("comparisons", "even", f"QUERY q PATTERN SEQ(A a, B b) WHERE {_AB} AND a.x < b.x * 0.01 WITHIN 20 s"),
    Case("any order", "even", f"QUERY q PATTERN AND(A a, B b) WHERE {_AB} AND a.x < b.x * 0.01 WITHIN 10 s"),
    Case("two joins", "even", f"QUERY q PATTERN SEQ(A a, B b, C c) WHERE {_AB} AND {_BC} WITHIN 300 ms"),
    Case("skewed rates", "skewed", f"QUERY q PATTERN SEQ(A a, B b) WHERE {_AB} AND a.x < b.x * 0.01 WITHIN 20 s"),
    Case("matches", "even", f"QUERY q PATTERN SEQ(A a, B b) WHERE {_AB} WITHIN 1 s"),
    Case(
        "citibike",
        "citibike",
        "QUERY q PATTERN SEQ(E e, B b) WHERE dist_km(e.start_lat, e.start_lon, b.start_lat, b.start_lon) >= 8 "
        "WITHIN 24 h",
    ),
)


@dataclass(frozen=True)
class Checked:
    case: Case
    calibration: Calibration
    point: Point


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/calibration_check", description=__doc__)
    parser.add_argument("--shared", type=Path, default=Path("../shared"), help="folder with data/ (default: ../shared)")
    parser.add_argument("--out", type=Path, default=Path("docs/benchmarks/calibration.md"), help="the report")
    parser.add_argument("--seconds", type=float, default=8.0, help="window of observation (default: %(default)g)")
    parser.add_argument("--repeats", type=int, default=2, help="of every calibration (default: %(default)s)")
    parser.add_argument("--only", default="", help="cases whose name contains this")
    args = parser.parse_args()
    found: list[Checked] = []
    with ray_session(cpus=4, dashboard=False):
        for case in CASES:
            if args.only in case.name:
                found.append(_check(case, args))
                args.out.write_text(report(found, args), encoding="utf-8")
    print(report(found, args))
    return 0


def _check(case: Case, args: argparse.Namespace) -> Checked:
    source, query = open_case(case, args.shared), parse(case.query)
    calibration = calibrate_cluster(calibration_spec(query, source, events=100_000, repeats=args.repeats))
    for line in summary(calibration):
        print(f"{case.name}: {line[0]} {line[1]}", file=sys.stderr, flush=True)
    known = [one.statistics for one in measure([query], source)]
    capacity = replace(calibration.capacity, objective=Objective.BUSY)
    settings = ScaleSettings(capacity, seconds=args.seconds, most_trials=6)
    point = ScaleTest([query], known, source, settings).measure(PointKey("centralized", 1))
    shown = "-" if point.error is None else f"{point.error:+.1%}"
    print(f"{case.name}: {point.measured:,.4g}/s, calibrated {point.predicted:,.4g}/s ({shown})", file=sys.stderr)
    return Checked(case, calibration, point)


def report(found: list[Checked], args: argparse.Namespace) -> str:
    errors = [abs(one.point.error) for one in found if one.point.error is not None]
    median = statistics.median(errors) if errors else None
    lines = [
        "# Calibrated units against what they sustain",
        "",
        f"Command: `scripts/calibration_check --seconds {args.seconds:g} --repeats {args.repeats}` ({cpu_name()}, "
        f"{os.cpu_count()} cores). Nothing here is emulated: every query is calibrated (`decopa calibrate`), planned "
        "for one unit, deployed on Ray, and offered one rate after the other until delays grow. Busy is the share of "
        "the time that the unit's process worked at the largest rate that was sustained.",
        "",
        f"Median error of the rate: {'-' if median is None else f'{median:.1%}'} over {len(errors)} queries.",
        "",
    ]
    header = (
        "query", "iota/s", "kappa/s", "epsilon/s", "median error of the fit", "queues grow, rows/s", "model, rows/s",
        "sustained on Ray, events/s", "predicted, events/s", "error", "busy",
    )  # fmt: skip
    rows = []
    for one in found:
        (node,), point = one.calibration.nodes, one.point
        capacity, ramp = node.capacity, sorted(node.ramps, key=lambda ramp: ramp.queueing_rate)[len(node.ramps) // 2]
        error = "-" if point.error is None else f"{point.error:+.1%}"
        cells = [one.case.name, *(f"{rate:.3g}" for rate in _rates(capacity)), f"{node.median_error:.1%}"]
        cells += [f"{ramp.queueing_rate:.3g}", f"{ramp.predicted_rate:.3g}", f"{point.measured:,.4g}"]
        rows.append([*cells, f"{point.predicted:,.4g}", error, f"{point.busiest:.0%}"])
    lines.append(markdown_table(header, rows))
    return "\n".join([*lines, "", *(f"- {one.case.name}: `{one.case.query}`" for one in found), ""])


def _rates(capacity: Capacity) -> tuple[float, float, float]:
    assert capacity.max_emission is not None
    return capacity.max_ingestion, capacity.max_comparisons, capacity.max_emission


if __name__ == "__main__":
    sys.exit(main())
