"""Plans of one query, run: the choice of every strategy and random valid plans, each bounded in time."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from actors.group import Limits
from cluster.local import LocalRuntime
from costmodel.rates import QueryRates, model_for
from costmodel.statistics import Statistics
from decopa.api import make_plan
from decopa.choices import COST_BASED
from decopa.errors import LimitError, PlanError
from decopa.language.text.parser import parse
from decopa.planning.plan import Plan, QueryPlan
from decopa.planning.planner import plan_workload
from decopa.planning.split import SplitSpace, Step, split_of
from decopa.planning.strategies.units import assign_units, to_plan
from decopa.planning.subquery import SubQuery, whole
from decopa.query.query import Query
from decopa.runs.guard import Guard
from decopa.runs.preparation.measure import measure
from decopa.runs.spec import DEFAULT_CAPACITY
from scripts.benchmarks.regret.regret_cases import RegretCase
from shuffler.rows.events import TraceColumns
from shuffler.source.trace import TraceSource, open_trace

STRATEGIES = ("decopa", "left-deep", *(one for one in COST_BASED if one != "decopa"))
#: A plan is cut off after this multiple of the best time so far, but not before this many seconds.
_OF_INTEREST, _LEAST_BOUND_S = 4.0, 2.0
#: Plans within this factor of the best are run again, in turn, so that neither luck nor other load decides.
_NEAR = 1.3
_MOST_NEAR = 5
_ROUNDS = 4
#: A near plan that takes longer is run again only once.
_SHORT_S = 1.0


@dataclass(frozen=True)
class Measured:
    """A plan that was run: what its operators did, and its least processor and wall seconds in several runs.

    `ended` unless the bound cut it off; then the seconds are the bound. `shape` tells plans apart.
    """

    shape: str
    seconds: float
    ended: bool
    wall_s: float = 0.0
    comparisons: int = 0
    ingested: int = 0
    emitted: int = 0
    matches: int = 0


@dataclass(frozen=True)
class CaseResult:
    """What was measured for one query: the plans, which strategy chose which, and how long it took to choose."""

    name: str
    measuring_s: float
    plans: dict[str, Measured]
    chosen: dict[str, str]
    planning_s: dict[str, float] = field(default_factory=dict)

    @property
    def ended(self) -> list[Measured]:
        return [one for one in self.plans.values() if one.ended]

    @property
    def best(self) -> Measured:
        return min(self.ended, key=lambda one: one.seconds)

    @property
    def least_comparisons(self) -> int:
        return min(one.comparisons for one in self.ended)

    @property
    def matches(self) -> int:
        return max(one.matches for one in self.ended)

    def of(self, strategy: str) -> Measured | None:
        return self.plans[self.chosen[strategy]] if strategy in self.chosen else None

    def regret(self, strategy: str) -> float | None:
        """Time over the best time; None for a strategy that has no plan for the query or did not end in time."""
        one = self.of(strategy)
        return None if one is None or not one.ended else one.seconds / self.best.seconds


def measure_case(bench: Bench, *, units: int, plans: int, strategies: Sequence[str] = STRATEGIES) -> CaseResult:
    query = bench.query
    begun = time.process_time()
    known = measure([query], bench.source())[0].statistics
    measuring_s = time.process_time() - begun
    chosen: dict[str, str] = {}
    planning_s: dict[str, float] = {}
    for strategy in strategies:
        begun = time.process_time()
        try:
            plan = plan_of(strategy, query, known, units)
        except PlanError:
            continue  # `exhaustive` has a largest query
        planning_s[strategy] = time.process_time() - begun
        chosen[strategy] = bench.run(plan)
    for plan in random_plans(query, known, units, plans):
        bench.run(plan)
    bench.run_near_plans_again(chosen["decopa"])
    return CaseResult(bench.name, measuring_s, bench.found, chosen, planning_s)


class Bench:
    """Runs plans of one query over one table, and keeps the best run of each; plans that ran before are known."""

    def __init__(self, case: RegretCase, shared: Path, bound_s: float, before: CaseResult | None = None) -> None:
        self.name, self.query, self._table = case.name, parse(case.query), case.table(shared)
        self._columns = TraceColumns(id=case.id_column)
        self._bound_s = bound_s
        self._plans: dict[str, Plan] = {}
        self.found: dict[str, Measured] = {} if before is None else dict(before.plans)

    def source(self) -> TraceSource:
        return open_trace(self._table, columns=self._columns)

    def run(self, plan: Plan) -> str:
        """Runs a plan that was not run yet, with its loops compiled; returns its shape."""
        shape = shape_of(plan)
        self._plans[shape] = plan
        if shape not in self.found:
            LocalRuntime(plan, self.source()).warm_up()
            self.found[shape] = self._measured(shape)
            if self._is_near(shape):
                self._run_again(shape)
        return shape

    def run_near_plans_again(self, chosen: str) -> None:
        """The best plans and the chosen one, in turn: what is called best may have been lucky."""
        order = sorted((one for one in self.found.values() if one.ended), key=lambda one: one.seconds)
        near = [one.shape for one in order if one.shape in self._plans and self._is_near(one.shape)][:_MOST_NEAR]
        if self.found[chosen].ended and chosen not in near:
            near.append(chosen)
        for shape in near:
            LocalRuntime(self._plans[shape], self.source()).warm_up()
        for round_number in range(_ROUNDS):
            for shape in near:
                if not round_number or self.found[shape].seconds < _SHORT_S:
                    self._run_again(shape)

    def _is_near(self, shape: str) -> bool:
        return self.found[shape].ended and self.found[shape].seconds <= _NEAR * self._best_s

    def _run_again(self, shape: str) -> None:
        again = self._measured(shape)
        if again.ended and again.seconds < self.found[shape].seconds:
            self.found[shape] = again

    @property
    def _best_s(self) -> float:
        return min((one.seconds for one in self.found.values() if one.ended), default=self._bound_s)

    def _measured(self, shape: str) -> Measured:
        bound_s = min(self._bound_s, max(_LEAST_BOUND_S, _OF_INTEREST * self._best_s))
        limits = Limits(
            max_matches=10**9,
            max_state_bytes=2**31,
            max_groups=20_000_000,
            max_comparisons=4_000_000_000,
            max_seconds=bound_s,
        )
        begun, begun_wall = time.process_time(), time.perf_counter()
        plan = self._plans[shape]
        # By processor time, so that other load cuts no plan off.
        guard = Guard(plan, limits, [None], clock=time.process_time)
        runtime = LocalRuntime(plan, self.source(), limits=limits, watch=guard)
        try:
            runtime.run()
        except LimitError:
            return Measured(shape, bound_s, False)
        matches, _ = runtime.matches, runtime.outcomes  # the tables are made here, which belongs to the run
        seconds, wall_s = time.process_time() - begun, time.perf_counter() - begun_wall
        reports = runtime.reports()
        done = [sum(getattr(one, what) for one in reports) for what in ("comparisons", "ingested", "emitted")]
        return Measured(shape, seconds, True, wall_s, *done, matches)


def shape_of(plan: Plan) -> str:
    """The operators of a plan, their inputs, units and what is dealt out: the same for plans that do the same."""
    (part,) = plan.parts
    texts = {one.name: one.sub_query.text(part.query) for one in part.operators}
    steps = [
        f"{texts[one.name]}<-{'+'.join(texts[name] + '*' * part.operator(name).partitioned for name in one.inputs)}"
        f" x{one.units}{'' if not one.hosts else '@' + ','.join(map(str, one.hosts))}"
        for one in part.operators
        if one.inputs
    ]
    return "; ".join([*steps, *([f"{part.slices} slices"] if part.slices > 1 else [])])


def plan_of(strategy: str, query: Query, known: Statistics, units: int) -> Plan:
    if strategy == "left-deep":
        return make_plan(query, units=units)
    return plan_workload([query], known, DEFAULT_CAPACITY, units=units, strategy=strategy, processors=1).plan


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
