"""Regret: what the plan that a strategy chooses takes, over what the best plan found takes; both are run.

Every query is run with the plan of every strategy and with random valid plans, in one process and bounded in time. Work
is comparisons; time is processor time of the run, the least of several if it is short, after a run that loads the
compiled loops.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import pyarrow as pa

from actors.group import Limits
from costmodel.rates import QueryRates, model_for
from costmodel.statistics import Statistics
from decopa.api import make_plan, run_detailed
from decopa.choices import COST_BASED
from decopa.errors import DecoPaError, LimitError
from decopa.language.text.parser import parse
from decopa.planning.plan import Plan, QueryPlan
from decopa.planning.planner import plan_workload
from decopa.planning.split import SplitSpace, Step, split_of
from decopa.planning.strategies.units import assign_units, to_plan
from decopa.planning.subquery import SubQuery, whole
from decopa.query.query import Query
from decopa.runs.measure import measure
from decopa.runs.spec import DEFAULT_CAPACITY, Planning, TraceOptions
from scripts.benchmarks.regret_cases import RegretCase, all_cases
from shuffler.rows.events import TraceColumns
from shuffler.source.trace import open_trace

GOALS = {"median": 1.1, "worst": 1.5}
STRATEGIES = ("decopa", "left-deep", *(one for one in COST_BASED if one != "decopa"))
#: A run shorter than this is repeated, and the shortest counts.
_SHORT_S = 1.0


@dataclass(frozen=True)
class Measured:
    """A plan that was run: comparisons and processor seconds; `ended` unless the bound cut it off."""

    comparisons: int
    seconds: float
    ended: bool
    planning_s: float = 0.0


@dataclass(frozen=True)
class CaseResult:
    name: str
    matches: int
    measuring_s: float
    strategies: dict[str, Measured]
    drawn: list[Measured]

    @property
    def best_s(self) -> float:
        return min(one.seconds for one in [*self.strategies.values(), *self.drawn] if one.ended)

    @property
    def least_comparisons(self) -> int:
        return min(one.comparisons for one in [*self.strategies.values(), *self.drawn] if one.ended)

    def regret(self, strategy: str) -> float | None:
        """Time over the best time; None for a strategy that has no plan for the query or did not end in time."""
        one = self.strategies.get(strategy)
        return None if one is None or not one.ended else one.seconds / self.best_s


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/plan_regret", description=__doc__)
    parser.add_argument("--shared", type=Path, default=Path("../shared"), help="folder with data/ (default: ../shared)")
    parser.add_argument("--out", type=Path, default=Path("docs/benchmarks"), help="folder of the report")
    parser.add_argument("--units", type=int, default=4, help="processing units of every plan (default: 4)")
    parser.add_argument("--plans", type=int, default=20, help="random plans for each query (default: 20)")
    parser.add_argument("--bound", type=float, default=10.0, help="seconds after which a plan is cut off (default: 10)")
    parser.add_argument("--only", default="", help="cases whose name contains this; others keep their last result")
    parser.add_argument("--resume", action="store_true", help="leave out queries that were measured already")
    parser.add_argument("--budget", type=float, default=float("inf"), help="seconds after which no query is begun")
    parser.add_argument("--report", action="store_true", help="run nothing: write the report of what was measured")
    args = parser.parse_args()
    store = args.out / "plan_regret.json"
    found = _load(store)
    begun = time.monotonic()
    for case in all_cases():
        done = args.resume and case.name in found
        if args.report or args.only not in case.name or done or time.monotonic() - begun > args.budget:
            continue
        result = measure_case(case, args)
        found = {**_load(store), case.name: result}
        _save(store, found)
        own = result.regret("decopa")
        print(f"{case.name}: decopa {own and f'{own:.2f}'} of {result.best_s:.3f} s", file=sys.stderr, flush=True)
    names = [case.name for case in all_cases() if case.name in found]
    text = report([found[name] for name in names], args)
    (args.out / "plan_regret.md").write_text(text, encoding="utf-8")
    print(text)
    return 0


def measure_case(case: RegretCase, args: argparse.Namespace) -> CaseResult:
    query, table = parse(case.query), case.table(args.shared)
    columns = TraceColumns(id=case.id_column)
    begun = time.process_time()
    known = measure([query], open_trace(table, columns=columns))[0].statistics
    measuring_s = time.process_time() - begun
    strategies: dict[str, Measured] = {}
    matches = 0
    bound = args.bound
    for strategy in STRATEGIES:
        begun = time.process_time()
        try:
            plan = plan_of(strategy, query, known, args.units)
        except DecoPaError:
            continue  # `exhaustive` has a largest query
        planning_s = time.process_time() - begun
        one, rows = run_plan(query, plan, table, columns, bound)
        strategies[strategy] = Measured(one.comparisons, one.seconds, one.ended, planning_s)
        matches = max(matches, rows)
        bound = _bound(strategies.values(), args.bound)
    drawn = []
    for plan in random_plans(query, known, args.units, args.plans):
        drawn.append(run_plan(query, plan, table, columns, bound)[0])
        bound = _bound([*strategies.values(), *drawn], args.bound)
    return CaseResult(case.name, matches, measuring_s, strategies, drawn)


def _bound(runs: Iterable[Measured], most: float) -> float:
    """Plans that take several times as long as the best so far are of no interest; loading loops takes a while, too."""
    ended = [one.seconds for one in runs if one.ended]
    return min(most, max(3.0, 5 * min(ended, default=most)))


def plan_of(strategy: str, query: Query, known: Statistics, units: int) -> Plan:
    if strategy == "left-deep":
        return make_plan(query, units=units)
    return plan_workload([query], known, DEFAULT_CAPACITY, units=units, strategy=strategy, processors=1).plan


def run_plan(query: Query, plan: Plan, table: pa.Table, columns: TraceColumns, bound_s: float) -> tuple[Measured, int]:
    """The least processor time of a few runs; one that is cut off counts with the bound."""
    limits = Limits(max_matches=10**9, max_state_bytes=2**31, max_groups=10**9, max_seconds=bound_s)
    # The first run loads compiled loops, however long that takes; a plan that explodes is cut off by what it does.
    first = replace(limits, max_groups=3_000_000, max_comparisons=1_000_000_000, max_seconds=60 + bound_s)
    best: Measured | None = None
    rows = 0
    for repeat in range(3):
        begun = time.process_time()
        try:
            result = run_detailed(
                query,
                table,
                planning=Planning(plan=plan, force=True),
                trace=TraceOptions(columns),
                limits=limits if repeat else first,
                runtime="local",
            )
        except LimitError:
            return best or Measured(0, bound_s, False), rows
        seconds = time.process_time() - begun
        rows = result.matches.num_rows
        if repeat and (best is None or seconds < best.seconds):
            best = Measured(result.comparisons, seconds, True)
        if repeat and seconds > _SHORT_S:
            break
    assert best is not None
    return best, rows


def random_plans(query: Query, known: Statistics, units: int, count: int) -> Iterator[Plan]:
    """Different valid plans, every split drawn step by step; fewer if there are no more."""
    (branch,) = query.branches
    space = SplitSpace(branch, QueryRates(branch, known, model_for(known)))
    rng = random.Random(7)
    seen: set[QueryPlan] = set()
    for _ in range(40 * count):
        steps = _drawn_steps(space, whole(branch), rng)
        split = split_of(steps.values())
        if len(split) > units:
            continue
        plan = to_plan(space, assign_units(space, split, units, DEFAULT_CAPACITY.for_window(branch.window_us)))
        if plan not in seen:
            seen.add(plan)
            yield Plan((plan,))
        if len(seen) >= count:
            return


def _drawn_steps(space: SplitSpace, root: SubQuery, rng: random.Random) -> dict[SubQuery, Step]:
    steps: dict[SubQuery, Step] = {}
    pending = [root]
    while pending:
        sub_query = pending.pop()
        options = [] if sub_query in steps else list(space.steps(sub_query))
        if options:
            # Joins with shared positions outnumber the others by far, and need more operators.
            plain = [one for one in options if len(one.inputs) < 2 or not one.inputs[0].aliases & one.inputs[1].aliases]
            steps[sub_query] = rng.choice(plain if plain and rng.random() < 0.7 else options)
            pending += steps[sub_query].inputs
    return steps


def report(found: list[CaseResult], args: argparse.Namespace) -> str:
    lines = [
        "# Plan regret: the chosen plan against the best plan found",
        "",
        f"Command: `scripts/plan_regret --units {args.units} --plans {args.plans} --bound {args.bound:g}`. "
        f"{len(found)} queries; each was run with the plan of every strategy and with up to {args.plans} random valid "
        "plans, in one process, each cut off after the bound or five times the best so far. Time is processor time of "
        "a run with compiled loops; regret is the time of the choice over that of the best plan found, by anybody.",
        "",
        "| strategy | queries | median regret | worst | did not end | longest planning |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]  # fmt: skip
    for strategy in STRATEGIES:
        planned = [one for one in found if strategy in one.strategies]
        regrets = [regret for one in planned if (regret := one.regret(strategy)) is not None]
        slowest = max((one.strategies[strategy].planning_s for one in planned), default=0.0)
        if regrets:
            cells = [strategy, str(len(planned)), f"{statistics.median(regrets):.2f}", f"{max(regrets):.2f}"]
            lines.append("| " + " | ".join([*cells, str(len(planned) - len(regrets)), f"{slowest:.2f} s"]) + " |")
    own = [one.regret("decopa") or float("inf") for one in found]
    if own:
        for what, value in (("median", statistics.median(own)), ("worst", max(own))):
            verdict = "reached" if value <= GOALS[what] else "MISSED"
            lines.append(f"\nGoal for `decopa`, {what} at most {GOALS[what]}: {value:.2f}, {verdict}.")
    lines += [
        "",
        "| query | matches | best, s | " + " | ".join(STRATEGIES) + " | comparisons: decopa / least |",
        "| --- | ---: | ---: |" + " ---: |" * (len(STRATEGIES) + 1),
    ]
    for one in found:
        cells = [one.name, f"{one.matches:,}", f"{one.best_s:.3f}"]
        cells += ["-" if (regret := one.regret(name)) is None else f"{regret:.2f}" for name in STRATEGIES]
        least = max(1, one.least_comparisons)
        cells.append(f"{one.strategies['decopa'].comparisons / least:.2f}" if "decopa" in one.strategies else "-")
        lines.append("| " + " | ".join(cells) + " |")
    lines += ["", "A dash: no plan (`exhaustive` has a largest query), or cut off.", ""]
    return "\n".join(lines)


def _load(path: Path) -> dict[str, CaseResult]:
    if not path.exists():
        return {}
    documents = json.loads(path.read_text(encoding="utf-8"))
    return {
        one["name"]: CaseResult(
            one["name"],
            one["matches"],
            one["measuring_s"],
            {name: Measured(**values) for name, values in one["strategies"].items()},
            [Measured(**values) for values in one["drawn"]],
        )
        for one in documents
    }


def _save(path: Path, found: dict[str, CaseResult]) -> None:
    path.write_text(json.dumps([asdict(one) for one in found.values()], indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
