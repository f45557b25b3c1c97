"""A live stream on Ray whose rates are mirrored, with emulated units: how soon its plan follows, and what that saves.

Phase 1 has few A, phase 2 few C, phase 3 few A again (30, 1,000 and 1,000 events a window; iota 6,000, kappa 60,000 a
window, all selectivities 0.01). It is offered at 0.85 of what the right plan is predicted to sustain. Delays are from
the moment at which the last event of a match was due until the match is here. The plan that stays gets two windows of
phase 2 as fast as it takes them; what it takes in the second is compared with the right plan. Ends with status 1 unless
all goals are reached.

Example: python -m scripts.adaptation.mirrored --window 15 --windows 6
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Mapping, Sequence

import numpy as np

import decopa
from cluster.change.switches import PlanSwitch
from costmodel.statistics import PairSelectivity, Statistics
from decopa import Adapt, Capacity, Planning, RayOptions
from decopa.language.front import read_queries
from decopa.planning.plan import Plan
from decopa.planning.planner import plan_workload
from decopa.report.table import markdown_table
from decopa.runs.model_check import predicted_rate
from scripts.adaptation.offered import MOST_GROWTH, Followed, Offered, Pace, followed, ids_of, stable_from, stream

RARE_A = {"A": 30.0, "B": 1000.0, "C": 1000.0}
RARE_C = {"A": 1000.0, "B": 1000.0, "C": 30.0}
_SELECTIVITY = 0.01
_FASTER = 10
#: Windows after a change of rates by which delays must be stable, and how many times as much the right plan sustains.
_STABLE_AFTER, _SLOWER = 3, 15


def query_text(window_s: float) -> str:
    near = 1 - math.sqrt(1 - _SELECTIVITY)
    pairs = ("abs(a.x - b.x)", "abs(b.y - c.y)", "abs(a.z - c.z)")
    where = " AND ".join(f"{distance} < {near!r}" for distance in pairs)
    return f"QUERY mirrored PATTERN SEQ(A a, B b, C c) WHERE {where} WITHIN {round(1000 * window_s)} ms"


def statistics(window_s: float, rates: Mapping[str, float]) -> Statistics:
    pairs = (PairSelectivity("A", "B", _SELECTIVITY), PairSelectivity("B", "C", _SELECTIVITY))
    return Statistics(round(1e6 * window_s), dict(rates), (pairs[0], PairSelectivity("A", "C", _SELECTIVITY), pairs[1]))


def capacity_of(window_s: float) -> Capacity:
    return Capacity.per_second(6_000 / window_s, 60_000 / window_s)


def right_plan(window_s: float, rates: Mapping[str, float], units: int) -> tuple[Plan, float]:
    """The plan for some rates, and how many events a second it is predicted to sustain."""
    known, capacity = statistics(window_s, rates), capacity_of(window_s)
    plan = plan_workload(read_queries(query_text(window_s)), known, capacity, units=units, strategy="decopa").plan
    # Over many windows: the first one has fewer partners than those that follow.
    windows = 1_000
    return plan, predicted_rate(
        plan, [known], 1e6 * window_s * windows, round(sum(rates.values()) * windows), capacity
    )[0]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m scripts.adaptation.mirrored",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--window", type=float, default=30.0, metavar="S", help="seconds (default: %(default)s)")
    parser.add_argument("--windows", type=float, default=6.0, help="of each phase (default: %(default)s)")
    parser.add_argument("--units", type=int, default=4)
    parser.add_argument("--load", type=float, default=0.85, help="of what is sustained (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args(arguments)
    window_s, text = args.window, query_text(args.window)
    plan, sustained = right_plan(window_s, RARE_A, args.units)
    speed = args.load * sustained / (sum(RARE_A.values()) / window_s)
    events = stream(window_s, [(args.windows, RARE_A), (args.windows, RARE_C), (args.windows, RARE_A)], args.seed)
    planning = Planning(plan=plan, statistics=statistics(window_s, RARE_A), capacity=capacity_of(window_s))
    options = RayOptions(emulate={"": capacity_of(window_s)}, metrics=False)
    print(
        f"{events.num_rows:,} events at {args.load * sustained:.1f} a second, {speed:.2f} times real time", flush=True
    )
    with decopa.session():
        offered = Offered(events, Pace.steady(speed))
        run = decopa.watch(
            text, iter(offered), units=args.units, runtime="ray", planning=planning, ray=options, adapt=Adapt()
        )
        found = followed(run, offered)
        switches = run.summary().switches
        fixed = fixed_rate(text, plan, window_s, args.seed)
    same = ids_of(found.matches).equals(ids_of(decopa.run_detailed(text, events).matches))
    phase_s, step_s = args.windows * window_s / speed, window_s / speed
    print(report(found.delays, args.windows, step_s))
    for switch in switches:
        print(f"- {told(switch, args.windows * window_s, window_s, speed)}")
    checks = [*verdicts(found, phase_s, step_s), enough_switches(switches)]
    checks.append(
        (f"the plan of phase 1 sustains {fixed:.2f} events/s in phase 2, 1/{sustained / fixed:.0f} of the right one's "
         f"(goal 1/{_SLOWER})", sustained >= _SLOWER * fixed)
    )  # fmt: skip
    checks.append(
        (f"{found.matches.num_rows:,} matches, {'the same as' if same else 'NOT those'} without a change", same)
    )
    for claim, holds in checks:
        print(f"- {'yes' if holds else 'NO'}: {claim}")
    return 0 if all(holds for _, holds in checks) else 1


def told(switch: PlanSwitch, phase_s: float, window_s: float, speed: float) -> str:
    """A change of plan, and how long after the change of rates it was, in event time."""
    after_s = switch.at_us / 1e6 % phase_s
    begun = switch.at_us / 1e6 >= phase_s
    since = f", {after_s / window_s:.2f} windows ({after_s / speed:.1f} s) after the change of rates" if begun else ""
    return f"{switch}{since}"


def verdicts(found: Followed, phase_s: float, step_s: float) -> list[tuple[str, bool]]:
    """For both changes of rates from which window on delays are stable until the next one."""
    checks = []
    for number in (1, 2):
        begin_s, end_s = number * phase_s, (number + 1) * phase_s
        steps = stable_from(found.within(begin_s, end_s), begin_s, end_s, step_s)
        since = "never stable" if steps is None else f"stable from window {steps} on"
        goal = f"goal: growth of delays at most {100 * MOST_GROWTH:.0f} % from window {_STABLE_AFTER} on"
        checks.append(
            (f"after change {number} of rates {since} ({goal})", steps is not None and steps <= _STABLE_AFTER)
        )
    return checks


def enough_switches(switches: Sequence[PlanSwitch]) -> tuple[str, bool]:
    made = sum(switch.given_up is None for switch in switches)
    return f"{made} changes of plan were made, {len(switches) - made} given up (goal 2 and 0)", made == 2 == len(
        switches
    )


def fixed_rate(text: str, plan: Plan, window_s: float, seed: int) -> float:
    """Events a second that the plan of phase 1 takes in phase 2 once windows are full: in a run over two windows, those
    of the second. Units are emulated ten times as fast, or it would take too long."""
    per_second = capacity_of(window_s / _FASTER)
    options = RayOptions(emulate={"": per_second}, metrics=False)
    seconds = []
    for windows in (1.0, 2.0):
        events = stream(window_s, [(windows, RARE_C)], seed)
        done = decopa.run_detailed(text, events, planning=Planning(plan=plan), runtime="ray", ray=options)
        seconds.append(done.seconds)
    return sum(RARE_C.values()) / (seconds[1] - seconds[0]) / _FASTER


def report(delays: Sequence[tuple[float, float]], windows: float, step_s: float) -> str:
    """Delays by the window that the last events of matches were due in."""
    by_window: dict[int, list[float]] = {}
    for due_s, delay_s in delays:
        by_window.setdefault(int(due_s // step_s), []).append(delay_s)
    rows = []
    for window, found in sorted(by_window.items()):
        phase = 1 + int(window // windows)
        rows.append([f"{window}", f"{phase}", f"{len(found):,}", f"{np.median(found):.2f} s", f"{np.max(found):.2f} s"])
    return markdown_table(["window", "phase", "matches", "delay p50", "most"], rows)


if __name__ == "__main__":
    sys.exit(main())
