"""How soon a plan follows on Ray when the rate of one type doubles: until the run asks for another plan, and until the
cut. A live stream of 2,000 events a second; every repeat is a run of its own, half of them from each side.
"""

from __future__ import annotations

import argparse
import math
import sys

import numpy as np

import decopa
from costmodel.statistics import PairSelectivity, Statistics
from decopa import Adapt, Capacity, Planning, RayOptions
from decopa.report.table import markdown_table
from scripts.adaptation.mirrored import Offered, stream

#: Events a second before and after; the cheapest plan joins the rarest two types first.
_OTHERS = {"B": 680.0, "C": 540.0}
_FEW, _MANY = 390.0, 780.0
_WINDOW_S = 5.0
_SELECTIVITY = 0.001
#: Comparing decides about plans, and no unit is the limit.
_CAPACITY = Capacity.per_second(1e9, 1e8)


def query_text() -> str:
    near = 1 - math.sqrt(1 - _SELECTIVITY)
    conditions = f"abs(a.x - b.x) < {near!r} AND abs(b.y - c.y) < {near!r} AND abs(a.z - c.z) < {near!r}"
    return f"QUERY reaction PATTERN SEQ(A a, B b, C c) WHERE {conditions} WITHIN {_WINDOW_S:.0f} s"


def per_window(a_per_s: float) -> dict[str, float]:
    return {name: rate * _WINDOW_S for name, rate in {"A": a_per_s, **_OTHERS}.items()}


def followed(before: float, after: float, calm_s: float, units: int, seed: int) -> tuple[float, float] | None:
    """Seconds from the change of the rate until a plan was asked for, and until the cut; None if none was made."""
    pairs = tuple(PairSelectivity(one, other, _SELECTIVITY) for one, other in ("AB", "AC", "BC"))
    known = Statistics(round(1e6 * _WINDOW_S), per_window(before), pairs)
    phases = [(calm_s / _WINDOW_S, per_window(before)), (4.0, per_window(after))]
    offered = Offered(stream(_WINDOW_S, phases, seed), 1.0)
    run = decopa.watch(
        query_text(),
        iter(offered),
        units=units,
        runtime="ray",
        planning=Planning(statistics=known, capacity=_CAPACITY),
        ray=RayOptions(metrics=False),
        adapt=Adapt(),
    )
    for _ in run:
        pass
    made = [one for one in run.summary().switches if one.given_up is None and one.at_us / 1e6 > calm_s]
    if not made:
        return None
    cut_s = made[0].at_us / 1e6 - calm_s
    return cut_s - made[0].warm_up_s, cut_s


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m scripts.adaptation.reaction", description=__doc__)
    parser.add_argument("--repeats", type=int, default=20, help="runs (default: %(default)s)")
    parser.add_argument("--units", type=int, default=2)
    parser.add_argument("--calm", type=float, default=12.0, metavar="S", help="before (default: %(default)s)")
    args = parser.parse_args(arguments)
    asked, cut = [], []
    with decopa.session():
        for number in range(args.repeats):
            before, after = (_FEW, _MANY) if number % 2 == 0 else (_MANY, _FEW)
            found = followed(before, after, args.calm, args.units, seed=number)
            told = "no change" if found is None else f"asked for after {found[0]:.1f} s, cut after {found[1]:.1f} s"
            print(f"{number + 1:>3}: A {before:.0f} -> {after:.0f} a second: {told}", flush=True)
            if found is not None:
                asked.append(found[0])
                cut.append(found[1])
    rows = [
        [name, *(f"{np.quantile(values, share):.1f} s" for share in (0.5, 0.95))]
        for name, values in (("another plan is asked for", asked), ("it has taken over", cut))
        if values
    ]
    print(markdown_table([f"{len(cut)} of {args.repeats} changes", "p50", "p95"], rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
