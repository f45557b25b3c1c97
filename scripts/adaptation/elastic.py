"""The number of units follows the load: a live stream that is played at x1, x3 and x1 again, on emulated units.

Told are, for each change of the load, how long after it another number of units had taken over, in how many steps, and
the delays of matches once that has settled. That a change of plan leaves a node that is drained is the other half of
this check: see `python -m scripts.adaptation.drained`. Ends with status 1 unless all goals are reached.

Example: python -m scripts.adaptation.elastic --phase 100
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

import decopa
from cluster.change.switches import PlanSwitch
from decopa.planning.price import plan_units
from decopa.report.table import markdown_table
from scripts.adaptation.load import query_text, rates, watched
from scripts.adaptation.offered import Followed, Offered, Pace, followed, ids_of, stream

SPEEDS = (1.0, 3.0, 1.0)
#: Units must follow within so many seconds; once they have, delays are settled after as many, and then below this.
GOAL_S, SETTLED_S, MOST_DELAY_S = 15.0, 15.0, 2.0


@dataclass(frozen=True)
class Phase:
    """What came of a stretch at one speed; `steps` are when changes of plan were seen in it, by the units they led to.
    `delays_s` are those of the matches after the last change has settled."""

    speed: float
    begin_s: float
    end_s: float
    steps: tuple[tuple[float, int], ...]
    delays_s: tuple[float, ...]

    @property
    def followed_s(self) -> float | None:
        """From the change of the load to the last change of plan; None if there was none."""
        return self.steps[-1][0] - self.begin_s if self.steps else None


def phases_of(found: Followed, made: Sequence[tuple[float, int]], pace: Pace) -> list[Phase]:
    """`made` are the moments of changes of plan and the units that they led to."""
    phases, begin_s = [], 0.0
    for lasts_s, speed in pace.stretches:
        end_s = begin_s + lasts_s
        steps = tuple(one for one in made if begin_s <= one[0] < end_s)
        settled_s = (steps[-1][0] if steps else begin_s) + SETTLED_S
        delays_s = tuple(delay_s for _, delay_s in found.within(settled_s, end_s))
        phases.append(Phase(speed, begin_s, end_s, steps, delays_s))
        begin_s = end_s
    return phases


def verdicts(phases: Sequence[Phase], fewest: int) -> list[tuple[str, bool]]:
    """For each phase but the first whether units followed, in one step, and for all whether delays stay low."""
    checks = []
    for before, phase in pairwise(phases):
        name, after_s = f"x{before.speed:g} to x{phase.speed:g}", phase.followed_s
        if after_s is None:
            checks.append((f"{name}: units followed (they did not)", False))
            continue
        units = phase.steps[-1][1]
        enough = units > fewest if phase.speed > before.speed else units == fewest
        checks.append(
            (f"{name}: {units} units {after_s:.1f} s after it (goal {GOAL_S:.0f} s)", enough and after_s <= GOAL_S)
        )
        checks.append((f"{name}: in {len(phase.steps)} steps (goal 1)", len(phase.steps) == 1))
    for phase in phases:
        most_s = max(phase.delays_s, default=float("inf"))
        checks.append(
            (
                f"x{phase.speed:g}: delays settled at {most_s:.2f} s at most (goal {MOST_DELAY_S:.0f} s)",
                most_s < MOST_DELAY_S,
            )
        )
    return checks


def report(phases: Sequence[Phase]) -> str:
    rows = [
        [
            f"x{phase.speed:g}",
            f"{phase.begin_s:.0f} to {phase.end_s:.0f} s",
            ", ".join(f"{units} after {at_s - phase.begin_s:.1f} s" for at_s, units in phase.steps) or "-",
            f"{len(phase.delays_s):,}",
            *(f"{np.quantile(phase.delays_s, share):.2f} s" if phase.delays_s else "-" for share in (0.5, 0.99, 1.0)),
        ]
        for phase in phases
    ]
    return markdown_table(["load", "time", "units", "matches once settled", "delay p50", "p99", "most"], rows)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m scripts.adaptation.elastic",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--phase", type=float, default=100.0, metavar="S", help="seconds at each speed (default: %(default)s)"
    )
    parser.add_argument("--window", type=float, default=5.0, metavar="S", help="of the query (default: %(default)s)")
    parser.add_argument("--most", type=int, default=8, help="units (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args(arguments)
    pace = Pace(tuple((args.phase, speed) for speed in SPEEDS))
    length_s = sum(lasts_s * speed for lasts_s, speed in pace.stretches)
    events = stream(args.window, [(length_s / args.window, rates(args.window))], args.seed)
    with decopa.session():
        offered = Offered(events, pace)
        run = watched(offered, args.window, (2, args.most))
        found = followed(run, offered)
        switches = run.summary().switches
    for switch, seen_s in zip(switches, found.seen_s, strict=True):
        print(f"- {seen_s:.1f} s, {plan_units(switch.plan)} units: {switch}")
    phases = phases_of(found, made_of(switches, found.seen_s), pace)
    print(report(phases))
    same = ids_of(found.matches, "ab").equals(ids_of(decopa.run(query_text(args.window), events), "ab"))
    checks = [*verdicts(phases, 2), (f"{found.matches.num_rows:,} matches are those without a change", same)]
    for claim, holds in checks:
        print(f"- {'yes' if holds else 'NO'}: {claim}")
    return 0 if all(holds for _, holds in checks) else 1


def made_of(switches: Sequence[PlanSwitch], seen_s: Sequence[float]) -> list[tuple[float, int]]:
    """When each change that was made was seen, and the units of its plan."""
    each = zip(seen_s, switches, strict=True)
    return [(at_s, plan_units(one.plan)) for at_s, one in each if one.given_up is None]


if __name__ == "__main__":
    sys.exit(main())
