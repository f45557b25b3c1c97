"""A stream whose load changes by its speed alone, for runs that change their number of emulated units."""

from __future__ import annotations

import math

import decopa
from costmodel.capacity import Capacity
from costmodel.statistics import Statistics
from decopa import Adapt, Planning, RayOptions
from decopa.planning.change.pricing import Pricing
from decopa.planning.planner import plan_workload
from decopa.runs.streams.live import LiveRun
from scripts.adaptation.offered import Offered

_SELECTIVITY = 0.005
#: Events of a type in a second of event time.
PER_S = 100.0
#: Two units have a little more than the room that a plan must have at speed 1 (1/0.7), so that nothing drives them out.
_ROOM = 1.05 / 0.7


def query_text(window_s: float) -> str:
    near = 1 - math.sqrt(1 - _SELECTIVITY)
    return f"QUERY load PATTERN AND(A a, B b) WHERE abs(a.x - b.x) < {near!r} WITHIN {round(1000 * window_s)} ms"


def rates(window_s: float) -> dict[str, float]:
    """Events of a type in a window."""
    return dict.fromkeys("AB", PER_S * window_s)


def known(window_s: float) -> Statistics:
    return Statistics.of(round(1e6 * window_s), rates(window_s), {("A", "B"): _SELECTIVITY})


def capacity_of(window_s: float) -> Capacity:
    """Comparisons limit units; two of them are enough at speed 1, and four at twice that."""
    endless = Capacity.per_second(1e9, 1e9)
    plan = plan_workload([decopa.parse(query_text(window_s))], known(window_s), endless, units=2).plan
    sustained = Pricing(endless).value(plan, [known(window_s)]).scaling_factor
    return Capacity.per_second(1e9, 1e9 * _ROOM / sustained)


def watched(offered: Offered, window_s: float, units: tuple[int, int]) -> LiveRun:
    """A live run on emulated units, as many as the load needs."""
    capacity = capacity_of(window_s)
    return decopa.watch(
        query_text(window_s),
        iter(offered),
        units=units[0],
        runtime="ray",
        planning=Planning(statistics=known(window_s), capacity=capacity),
        ray=RayOptions(emulate={"": capacity}, metrics=False),
        adapt=Adapt(units=units),
    )
