"""A window of a day: how long a plan of 4 units takes to become one of 8, whatever the window.

Rides of August 2013 are played at a day a second, and after a few days the plan is changed to one with the same split.
The same with a window of 6 hours: the time from the request to the cut must not depend on the window. Told are the
events that were worked on again and the state that the units held, and matches are compared with those of a run whose
plan does not change. Without the Citi Bike trace synthetic rides stand in (`decopa trace rides`), or with --synthetic.

Example: python -m scripts.adaptation.long_window --shared ../shared --repeats 5
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import decopa
from actors.ray_unit import UnitStatus
from cluster.change.deployed.plan_changes import PlanChanges
from cluster.change.deployed.ray_run import ChangingRayRuntime
from cluster.change.outcome import Switched
from cluster.options import RayOptions
from cluster.ray_session import ray_session
from decopa.planning.plan import Plan
from decopa.planning.spread import spread_units
from decopa.planning.strategies.left_deep import left_deep
from decopa.query.query import Query
from decopa.report.table import markdown_table
from decopa.traces.rides import RideSpec
from scripts.benchmarks.changing.setting import LIMITS, UntilDone, same_matches
from scripts.benchmarks.processes import answers
from shuffler.source.pacing import Replay
from shuffler.source.trace import open_trace

_DAY_US = 86_400_000_000
#: Days before the change, and after it.
_BEFORE, _AFTER = 4, 1
#: The trace is played again where a change takes long; it has 31 days.
_MONTHS = 3
#: From the request to the cut, at most; and by which share of the time of the shorter window the longer one may differ.
GOAL_S, SAME = 6.0, 0.2


@dataclass(frozen=True)
class Rides:
    """A trace, a chain of three types in it, and how the place of a ride's start is called."""

    name: str
    path: Path
    types: tuple[str, str, str]
    place: tuple[str, str]

    def query(self, hours: float) -> Query:
        """Far apart, so that matches are few."""
        latitude, longitude = self.place
        far = [
            f"dist_km({one}.{latitude}, {one}.{longitude}, {other}.{latitude}, {other}.{longitude}) >= 9"
            for one, other in ("ab", "bc")
        ]
        inputs = ", ".join(f"{name} {alias}" for name, alias in zip(self.types, "abc", strict=True))
        return decopa.parse(f"PATTERN SEQ({inputs}) WHERE {' AND '.join(far)} WITHIN {hours * 60:.0f} min")


def citibike(shared: Path, folder: Path) -> Rides | None:
    """The Citi Bike trace, if it is there."""
    stored, path = shared / "data" / "citibike.parquet", folder / "citibike.parquet"
    if not stored.is_file():
        return None
    month = pq.read_table(stored).drop_columns("event_id")
    again = [month.set_column(0, "ts", pc.add(month.column("ts"), timedelta(days=31 * n))) for n in range(_MONTHS)]
    rides = pa.concat_tables(again)
    pq.write_table(rides.append_column("id", pa.array(np.arange(rides.num_rows))), path)
    return Rides("Citi Bike, August 2013", path, ("E", "H", "B"), ("start_lat", "start_lon"))


def synthetic(folder: Path) -> Rides:
    path = folder / "rides.parquet"
    pq.write_table(RideSpec(days=31 * _MONTHS, busyness=0.3).table(), path)
    return Rides("synthetic rides", path, ("VLongO", "LongC", "LongO"), ("lat", "lon"))


class OneChange(PlanChanges):
    """Asks for another plan after some days of the trace, and lets the run end a day after that was done."""

    def __init__(self, plans: tuple[Plan, Plan], source: UntilDone) -> None:
        super().__init__(plans[0])
        self._other, self._source = plans[1], source
        self._first_us: int | None = None
        self.asked: Future[Switched] | None = None
        self.state_bytes = 0
        self._done_us: int | None = None

    def between_blocks(self, next_us: int | None = None) -> None:
        assert next_us is not None, "a stored trace tells when its next event is"
        self._first_us = next_us if self._first_us is None else self._first_us
        if self.asked is None and next_us - self._first_us >= _BEFORE * _DAY_US:
            self.state_bytes = state_bytes()
            self.asked = self.change(self._other)
        elif self.asked is not None and self.asked.done() and self._done_us is None:
            self._done_us = next_us
        elif self._done_us is not None and next_us - self._done_us >= _AFTER * _DAY_US:
            self._source.done = True
        super().between_blocks(next_us)


def state_bytes() -> int:
    """What all units say they hold."""
    statuses = [one for one in answers("status").values() if isinstance(one, UnitStatus)]
    return sum(unit.state_bytes for status in statuses for unit in status.units)


@dataclass(frozen=True)
class Change:
    """One change under one window: what it took, the state before it, and whether matches are right."""

    made: Switched
    state_bytes: int
    matches: int
    same: bool


def measured(rides: Rides, hours: float, speed: float, units: tuple[int, int]) -> Change:
    query = rides.query(hours)
    few, many = (Plan((spread_units(left_deep(query), number),)) for number in units)
    replay = Replay(speed=speed)
    source = UntilDone(open_trace(rides.path), replay)
    changes = OneChange((few, many), source)
    options = RayOptions(replay=replay, metrics=False)
    run = ChangingRayRuntime(few, source, changes, limits=LIMITS, options=options).run()
    if changes.asked is None:
        raise SystemExit(f"the trace ended before day {_BEFORE}; play it slower (--speed)")
    (found,) = run.matches
    expected = decopa.run(query, pq.read_table(rides.path).slice(0, run.events), limits=LIMITS)
    return Change(changes.asked.result(), changes.state_bytes, found.num_rows, same_matches(found, expected))


def report(found: Mapping[float, Sequence[Change]]) -> str:
    header = ("window", "changes", "request to cut p50 / most", "feed pause p50", "stall p50", "events replayed p50",
              "state before p50", "matches p50", "the same")  # fmt: skip
    rows = [
        [
            f"{hours:g} h",
            str(len(each)),
            f"{np.median(warm_ups_s(each)):.2f} / {max(warm_ups_s(each)):.2f} s",
            f"{1000 * np.median([one.made.pause_s for one in each]):.1f} ms",
            f"{1000 * np.median([one.made.stall_s for one in each]):.0f} ms",
            f"{np.median([one.made.seeded for one in each]):,.0f}",
            f"{np.median([one.state_bytes for one in each]) / 2**20:,.1f} MiB",
            f"{np.median([one.matches for one in each]):,.0f}",
            "yes" if all(one.same for one in each) else "NO",
        ]
        for hours, each in found.items()
    ]
    return markdown_table(header, rows)


def verdicts(found: Mapping[float, Sequence[Change]]) -> list[tuple[str, bool]]:
    most_s = max(one for each in found.values() for one in warm_ups_s(each))
    longest, shortest = (float(np.median(warm_ups_s(found[hours]))) for hours in (max(found), min(found)))
    same = all(one.same for each in found.values() for one in each)
    return [
        (f"from the request to the cut {most_s:.1f} s at most (goal {GOAL_S:.0f} s)", most_s <= GOAL_S),
        (
            f"{longest / shortest:.2f} of the time with the longest window as with the shortest "
            f"(goal {1 - SAME:.1f} to {1 + SAME:.1f})",
            abs(longest / shortest - 1) <= SAME,
        ),
        ("the matches are those of a plan that does not change", same),
    ]


def warm_ups_s(each: Sequence[Change]) -> list[float]:
    return [one.made.warm_up_s for one in each]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m scripts.adaptation.long_window",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--shared", type=Path, default=Path("../shared"), help="folder with data/ (default: ../shared)")
    parser.add_argument("--synthetic", action="store_true", help="rides that are made up")
    parser.add_argument("--hours", type=float, nargs="+", default=[24.0, 6.0], help="windows (default: 24 6)")
    parser.add_argument("--speed", type=float, default=86_400.0, help="of the trace (default: %(default)g)")
    parser.add_argument("--units", type=int, nargs=2, default=(4, 8), help="before and after (default: 4 8)")
    parser.add_argument("--repeats", type=int, default=5, help="changes under each window (default: %(default)s)")
    args = parser.parse_args(arguments)
    found: dict[float, list[Change]] = {hours: [] for hours in args.hours}
    with TemporaryDirectory() as folder, ray_session(cpus=sum(args.units) + 8, dashboard=False):
        rides = None if args.synthetic else citibike(args.shared, Path(folder))
        if rides is None:
            if not args.synthetic:
                print(f"no {args.shared}/data/citibike.parquet: synthetic rides stand in", file=sys.stderr)
            rides = synthetic(Path(folder))
        for repeat in range(args.repeats):
            for hours in args.hours:
                found[hours].append(measured(rides, hours, args.speed, tuple(args.units)))
                print(f"{repeat + 1}: {hours:g} h, {found[hours][-1]}", file=sys.stderr, flush=True)
    print(f"{rides.name}, {args.speed:,.0f} times real time, {args.units[0]} to {args.units[1]} units")
    print(report(found))
    checks = verdicts(found)
    for claim, holds in checks:
        print(f"- {'yes' if holds else 'NO'}: {claim}")
    return 0 if all(holds for _, holds in checks) else 1


if __name__ == "__main__":
    sys.exit(main())
