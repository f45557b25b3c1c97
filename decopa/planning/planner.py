"""`plan`: query or workload + statistics + capacity -> plan, by any strategy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from costmodel.capacity import Capacity
from costmodel.formulas import RateModel
from costmodel.logarithms import value_of
from costmodel.rates import QueryRates, model_for
from costmodel.statistics import Statistics
from decopa.choices import COST_BASED, WORKLOAD_STRATEGIES, Objective, Reading
from decopa.errors import PlanError, did_you_mean
from decopa.planning.plan import Plan, PlanOperator, QueryPlan
from decopa.planning.price import price_plan
from decopa.planning.split import SplitSpace
from decopa.planning.strategies import baselines
from decopa.planning.strategies.algorithm1 import construct_as_printed
from decopa.planning.strategies.choose import TRAVELLING, Choice, best_plans, least_work_splits, ranked
from decopa.planning.strategies.construct import construct
from decopa.planning.strategies.exhaustive import MAX_POSITIONS, MAX_WORK, best_assignment
from decopa.planning.strategies.left_deep import left_deep
from decopa.planning.strategies.units import assign_units, to_plan
from decopa.planning.validate import check_structure
from decopa.planning.workload.packing import packed
from decopa.planning.workload.planner import WorkloadPlanning, plan_shared
from decopa.query.conditions.constant import constant_notices
from decopa.query.query import Query

#: Strategies that choose a split of their own.
_SPLITTING = ("decopa", "decopa-paper", "exhaustive")


#: Candidates that are worth trying out.
_MOST_CANDIDATES = 3

#: Operators share units only where that is predicted to be faster by this factor: apart, each has a queue of its own.
_SHARING_GAIN = 1.2

#: Ends the notice that a plan has fewer units than operators.
MORE_UNITS = "give it more units to run them side by side"


@dataclass(frozen=True)
class PlanningResult:
    """A plan and what the user should know about it.

    `candidates` are the best few plans of a query, best first, where several were weighed against each other; empty
    for workloads and OR.
    """

    plan: Plan
    notices: tuple[str, ...] = ()
    candidates: tuple[Plan, ...] = ()


def plan_workload(
    queries: Sequence[Query],
    statistics: Statistics | Sequence[Statistics],
    capacity: Capacity,
    *,
    units: int,
    strategy: str = "decopa",
    reading: Reading = Reading.LINEAR,
    model: RateModel | None = None,
    seed: int = 1,
    objective: Objective | None = None,
    processors: int | None = None,
    seconds: float | None = None,
) -> PlanningResult:
    """Plans every OR-free query; the units are divided so that the slowest of them is as fast as possible.

    `statistics` are those of all queries, or one for each. `objective` is the capacity's own by default. `processors`
    is how many the units of a plan share: 1 in one process; by default each has its own. `seconds` is how long a
    search for what queries share may take.
    """
    if objective is not None:
        capacity = replace(capacity, objective=objective)
    known_strategies = (*COST_BASED, *WORKLOAD_STRATEGIES)
    if strategy not in known_strategies:
        raise PlanError(f"unknown strategy '{strategy}'{did_you_mean(strategy, known_strategies)}")
    if units < 1:
        raise PlanError(f"a plan needs at least one unit, got {units}")
    notices: list[str] = []
    known: dict[Query, Statistics] = {}
    each = [statistics] * len(queries) if isinstance(statistics, Statistics) else statistics
    for query, its_statistics in zip(queries, each, strict=True):
        notices += [*its_statistics.check_fits(query), *constant_notices(query)]
        known |= dict.fromkeys(query.branches, its_statistics)
    branches = [branch for query in queries for branch in query.branches]
    planner = _Planner(known, capacity, strategy, reading, model, seed, notices, processors)
    # DecoPa's own way to plan several queries is to share (6.3); alternatives of one query are planned side by side.
    sharing = strategy in WORKLOAD_STRATEGIES or (strategy == "decopa-paper" and len(queries) > 1)
    if strategy == "rip" and len(queries) > 1:
        notices.append(
            f"rip gives each of the {len(queries):,} queries slices of the stream of its own, so they share nothing; "
            "leave out the strategy to share what they have in common"
        )
    shares = None if sharing else planner.divide(branches, units)
    if sharing:
        plan = plan_shared(branches, planner.workload_planning(seconds), units=units, strategy=strategy)
    elif shares is None:
        plan = planner.packed(branches, units)
    else:
        plan = Plan(tuple(planner.part(branch, share) for branch, share in zip(branches, shares, strict=True)))
    check_structure(plan)
    candidates = planner.candidates.get(branches[0], ()) if len(branches) == 1 else ()
    return PlanningResult(plan, tuple(dict.fromkeys(notices)), tuple(Plan((one,)) for one in candidates))


class _Planner:
    def __init__(
        self,
        statistics: dict[Query, Statistics],
        capacity: Capacity,
        strategy: str,
        reading: Reading,
        model: RateModel | None,
        seed: int,
        notices: list[str],
        processors: int | None = None,
    ) -> None:
        self.processors = processors
        self.candidates: dict[Query, list[QueryPlan]] = {}
        self.statistics, self.capacity, self.strategy = statistics, capacity, strategy
        self.reading, self.model, self.seed, self.notices = reading, model, seed, notices
        self._parts: dict[tuple[Query, int], QueryPlan] = {}
        self._spaces: dict[Query, SplitSpace] = {}
        self._scalings: dict[tuple[Query, int], float] = {}

    def divide(self, branches: Sequence[Query], units: int) -> list[int] | None:
        """Units per query: the next ones always to the query that sustains least. None if there are more operators
        than units, so that queries have to share these."""
        if len(branches) == 1:
            return [units]
        least = [max(1, len(baselines.split_of_plan(baselines.state_parallel(branch)))) for branch in branches]
        if sum(least) > units:
            return None
        given = list(least)
        step = max(1, (units - sum(given)) // 16)  # coarse first: each step plans a query anew
        while (spare := units - sum(given)) > 0:
            slowest = min(range(len(branches)), key=lambda place: self._sustained(branches[place], given[place]))
            given[slowest] += min(step, spare)
        return given

    def packed(self, branches: Sequence[Query], units: int) -> Plan:
        """Each query planned for one unit per operator, and all operators packed on the units."""
        plan = Plan(tuple(self._narrow(branch) for branch in branches))
        loads = [self._loads(part) for part in plan.parts]
        return packed(plan, units, lambda part, operator: loads[part][operator.name])

    def workload_planning(self, seconds: float | None) -> WorkloadPlanning:
        known, capacity = self.statistics, self.capacity
        alone = _Planner(known, capacity, "decopa", self.reading, self.model, self.seed, [], 1)
        return WorkloadPlanning(known, capacity, alone._narrow, self.reading, self.model, self.seed, seconds)

    def _narrow(self, branch: Query) -> QueryPlan:
        if self.strategy in ("centralized", "rip"):
            return baselines.centralized(branch)
        space = self._space(branch)
        return self._on_one_unit(space, len(baselines.split_of_plan(baselines.state_parallel(branch))))

    def _loads(self, part: QueryPlan) -> dict[str, float]:
        """The share of a unit's time that each operator takes."""
        priced = price_plan(part, self.statistics[part.query], self.capacity, reading=self.reading, model=self.model)
        return {one.operator.name: one.busy_share for one in priced.operators}

    def _sustained(self, branch: Query, units: int) -> float:
        if (branch, units) not in self._scalings:
            self._scalings[branch, units] = self._log_scaling(branch, units)
        return self._scalings[branch, units]

    def _log_scaling(self, branch: Query, units: int) -> float:
        if self.strategy == "decopa":  # the final plan is searched for once the units are divided
            capacity = self.capacity.for_window(branch.window_us)
            found = construct(self._space(branch), units, capacity, self.reading, search=False)
            return found.scaling.log_scaling
        priced = price_plan(
            self.part(branch, units), self.statistics[branch], self.capacity, reading=self.reading, model=self.model
        )
        return priced.scaling.log_scaling

    def part(self, branch: Query, units: int) -> QueryPlan:
        if (branch, units) not in self._parts:
            self._parts[branch, units] = self._plan(branch, units)
        return self._parts[branch, units]

    def _plan(self, branch: Query, units: int) -> QueryPlan:
        space = self._space(branch)
        capacity = self.capacity.for_window(branch.window_us)
        match self.strategy:
            case "centralized":
                return baselines.centralized(branch)
            case "rip":
                return baselines.rip(branch, units)
        operators = len(baselines.split_of_plan(baselines.state_parallel(branch)))
        chooses = self.strategy == "decopa" and space.rates.statistics.measured
        if units < operators and not (chooses and units > 1 and self.processors != 1):
            self.notices.append(_all_on_one_unit(branch, operators, units))
            return self._on_one_unit(space, operators)
        match self.strategy:
            case "state":
                return baselines.state_parallel(branch)
            case "hybrid":
                return baselines.hybrid(space, units)
            case "decopa-paper" if not branch.chosen_in_order:  # which it does not describe
                return to_plan(space, construct_as_printed(space, units, capacity, self.reading, seed=self.seed))
            case "exhaustive":
                if len(branch.aliases) > MAX_POSITIONS:
                    raise PlanError(
                        f"{branch.pattern} has {len(branch.aliases)} events; `exhaustive` looks at all splits of up "
                        f"to {MAX_POSITIONS}; use `decopa`"
                    )
                found = best_assignment(space, units, capacity, self.reading, max_work=MAX_WORK)
                assert found is not None
                return to_plan(space, found)
        if space.rates.statistics.measured:
            choices = self._choices(space, units, capacity)
            best, *others = choices
            self.candidates[branch] = best_plans(choices, space, _MOST_CANDIDATES)
            sharing = self._sharing_units(space, units) if self.processors is None else None
            gain = _SHARING_GAIN * (TRAVELLING if best.candidate.hosts else 1.0)
            if sharing is not None and gain * sharing[1] <= best.seconds_per_second:
                self.candidates[branch].insert(0, sharing[0])
                return sharing[0]
            if best.candidate.together and units < operators:
                self.notices.append(_all_on_one_unit(branch, operators, units))
            apart = [one for one in others if not one.candidate.together]
            if best.candidate.together and apart and self.processors is None:
                times = apart[0].seconds_per_second / best.seconds_per_second
                self.notices.append(
                    f"{branch.pattern}: all operators run on one unit; the best plan found that spreads them over "
                    f"{units} units is predicted to take {times:.3g} times as long"
                )
            return best.candidate.plan(space)
        return to_plan(space, construct(space, units, capacity, self.reading))

    def _sharing_units(self, space: SplitSpace, units: int) -> tuple[QueryPlan, float] | None:
        """The split with the least work, with operators that share units and heavy joins on several of them; and the
        share of its time that the busiest unit needs. None if nothing would be shared.

        Where one operator has most of the work, units of their own for the others would be idle.
        """
        capacity = self.capacity.for_window(space.query.window_us)
        split = next(least_work_splits(space, capacity))
        if not 1 < len(split) <= units:
            return None
        plan = Plan((to_plan(space, assign_units(space, split, len(split), capacity, self.reading)),))
        loads = self._loads(plan.parts[0])
        rates = space.rates

        def rate(_: int, operator: PlanOperator) -> float:
            return value_of(rates.formula(operator.sub_query.aliases, operator.sub_query.closed).log_at(0.0))

        part = packed(plan, units, lambda _, operator: loads[operator.name], rate).parts[0]
        if sum(operator.units for operator in part.operators if operator.inputs) <= units:
            return None
        known = self.statistics[space.query]
        priced = price_plan(part, known, self.capacity, reading=self.reading, model=self.model)
        busy = [0.0] * units
        for figures in priced.operators:
            for host in figures.operator.hosts:
                busy[host] += figures.busy_share
        return part, max(busy)

    def _choices(self, space: SplitSpace, units: int, capacity: Capacity) -> list[Choice]:
        return ranked(space, units, capacity, self.reading, processors=self.processors, seed=self.seed)

    def _on_one_unit(self, space: SplitSpace, operators: int) -> QueryPlan:
        """The plan that the strategy makes for one unit per operator, all on one unit."""
        plan = self._plan(space.query, operators) if self.strategy in _SPLITTING else left_deep(space.query)
        return replace(plan, operators=tuple(replace(one, units=1, hosts=(0,)) for one in plan.operators))

    def _space(self, branch: Query) -> SplitSpace:
        if branch not in self._spaces:
            known = self.statistics[branch]
            self._spaces[branch] = SplitSpace(branch, QueryRates(branch, known, self.model or model_for(known)))
        return self._spaces[branch]


def _all_on_one_unit(branch: Query, operators: int, units: int) -> str:
    return f"{branch.pattern} needs {operators} operators but has {units} unit(s): all run on one unit; {MORE_UNITS}"
