"""How soon a plan follows on Ray: until the run asks for another plan, and until the cut.

Streams are live, and every repeat is a run of its own.

With --kind split the rate of one type doubles or halves in turns, at 2,000 events a second, and another split becomes
the right one. With --kind units the stream is played twice as fast, and its emulated units have to become more.

Example: python -m scripts.adaptation.reaction --kind units --repeats 20
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

import decopa
from cluster.change.switches import PlanSwitch
from costmodel.statistics import PairSelectivity, Statistics
from decopa import Adapt, Capacity, Planning, RayOptions
from decopa.report.table import markdown_table
from scripts.adaptation import load
from scripts.adaptation.offered import Offered, Pace, followed, stream

#: Events a second before and after. The plan that joins C with the rarer one of A and B first sustains 1.41 times as
#: much as the other one, both ways: few partial matches reach the last join, so that the first one decides.
_OTHERS = {"B": 608.0, "C": 580.0}
_FEW, _MANY = 430.0, 860.0
_WINDOW_S = 5.0
_SELECTIVITIES = {"AB": 0.1, "AC": 1e-4, "BC": 1e-4}
#: Comparing decides about plans, and no unit is the limit.
_CAPACITY = Capacity.per_second(1e9, 1e8)
#: How long the stream goes on after the change.
_AFTER_S = 30.0
#: Of the p95: until a plan is asked for, and until its cut, by kind.
GOALS_S = {"split": (3.0, 10.0), "units": (3.0, 7.0)}


@dataclass(frozen=True)
class Reaction:
    """Seconds from the change of the stream until a plan was asked for, and until the cut."""

    asked_s: float
    cut_s: float


def query_text() -> str:
    near = {pair: 1 - math.sqrt(1 - share) for pair, share in _SELECTIVITIES.items()}
    attributes = zip(near.items(), "xzy", strict=True)
    conditions = " AND ".join(
        f"abs({one}.{attribute} - {other}.{attribute}) < {distance!r}"
        for ((one, other), distance), attribute in attributes
    ).lower()
    return f"QUERY reaction PATTERN SEQ(A a, B b, C c) WHERE {conditions} WITHIN {_WINDOW_S:.0f} s"


def per_window(a_per_s: float) -> dict[str, float]:
    return {name: rate * _WINDOW_S for name, rate in {"A": a_per_s, **_OTHERS}.items()}


def another_split(number: int, calm_s: float, units: int) -> Reaction | None:
    """A run in which the rate of A doubles or halves; None if no change was made."""
    before, after = (_FEW, _MANY) if number % 2 == 0 else (_MANY, _FEW)
    pairs = tuple(PairSelectivity(*pair, share) for pair, share in _SELECTIVITIES.items())
    known = Statistics(round(1e6 * _WINDOW_S), per_window(before), pairs)
    phases = [(calm_s / _WINDOW_S, per_window(before)), (_AFTER_S / _WINDOW_S, per_window(after))]
    offered = Offered(stream(_WINDOW_S, phases, number), Pace.steady(1.0))
    run = decopa.watch(
        query_text(),
        iter(offered),
        units=units,
        runtime="ray",
        planning=Planning(statistics=known, capacity=_CAPACITY),
        ray=RayOptions(metrics=False),
        adapt=Adapt(),
    )
    found = followed(run, offered)
    return first_after(run.summary().switches, found.seen_s, calm_s)


def more_units(number: int, calm_s: float, units: int) -> Reaction | None:
    """A run whose stream is played twice as fast from a moment on; None if no change was made."""
    pace = Pace(((calm_s, 1.0), (_AFTER_S, 2.0)))
    windows = (calm_s + 2 * _AFTER_S) / _WINDOW_S
    offered = Offered(stream(_WINDOW_S, [(windows, load.rates(_WINDOW_S))], number), pace)
    run = load.watched(offered, _WINDOW_S, (units, 2 * units))
    found = followed(run, offered)
    return first_after(run.summary().switches, found.seen_s, calm_s)


def first_after(switches: Sequence[PlanSwitch], seen_s: Sequence[float], changed_s: float) -> Reaction | None:
    """The first change of plan that was asked for after the stream had changed, and made.

    A change is seen when the old plan has handed over its matches, `stall_s` after the cut or a little later.
    """
    for switch, at_s in zip(switches, seen_s, strict=True):
        cut_s = at_s - switch.stall_s - changed_s
        if switch.given_up is None and cut_s > switch.warm_up_s:
            return Reaction(cut_s - switch.warm_up_s, cut_s)
    return None


KINDS = {"split": another_split, "units": more_units}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m scripts.adaptation.reaction",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--kind", choices=KINDS, default="split", help="what becomes right (default: %(default)s)")
    parser.add_argument("--repeats", type=int, default=20, help="runs (default: %(default)s)")
    parser.add_argument("--units", type=int, default=2)
    parser.add_argument("--calm", type=float, default=12.0, metavar="S", help="before (default: %(default)s)")
    args = parser.parse_args(arguments)
    found: list[Reaction] = []
    with decopa.session():
        for number in range(args.repeats):
            one = KINDS[args.kind](number, args.calm, args.units)
            told = "no change" if one is None else f"asked for after {one.asked_s:.1f} s, cut after {one.cut_s:.1f} s"
            print(f"{number + 1:>3}: {told}", flush=True)
            found += [] if one is None else [one]
    if not found:
        return 1
    steps = (("another plan is asked for", "asked_s"), ("it has taken over", "cut_s"))
    rows, reached = [], len(found) == args.repeats
    for (name, step), goal_s in zip(steps, GOALS_S[args.kind], strict=True):
        middle, most = np.quantile([getattr(one, step) for one in found], (0.5, 0.95))
        reached &= bool(most <= goal_s)
        rows.append([name, f"{middle:.1f} s", f"{most:.1f} s", f"{goal_s:.0f} s", "yes" if most <= goal_s else "NO"])
    print(markdown_table([f"{len(found)} of {args.repeats} changes", "p50", "p95", "goal (p95)", "reached"], rows))
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main())
