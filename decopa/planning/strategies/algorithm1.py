"""The paper's own construction (Algorithm 1, with the slips of its listing corrected): strategy `decopa-paper`.

Sub-queries that are rate-reducing are built bottom-up; each keeps the split with the least sum of comparisons, out of
sampled left-deep splits and joins of two smaller such sub-queries. Units are given in proportion to what the operators
have to do, not to what limits them: that is how the published plans divide them, and it reproduces Google Q2 and Q3 of
Table 3.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator, Sequence

from costmodel.capacity import Capacity
from costmodel.logarithms import log_sum
from costmodel.throughput import load_at
from decopa.choices import Reading
from decopa.errors import PlanError
from decopa.planning.split import Split, SplitSpace, Step, split_of
from decopa.planning.strategies.construct import skeletons
from decopa.planning.strategies.units import Assignment, assignment_with
from decopa.planning.subquery import SubQuery, whole

#: Left-deep splits drawn per sub-query; all of them if there are no more.
SAMPLES = 24


def construct_as_printed(
    space: SplitSpace, units: int, capacity: Capacity, reading: Reading = Reading.LINEAR, *, seed: int = 1
) -> Assignment:
    """The plan of Algorithm 1. KL positions are closed where it costs least, by a unary or a binary split; with NOT,
    which the paper does not decompose, last.
    """
    if space.query.negations:
        split = _split_with_negation(space, units, seed)
    else:
        # 6.1 asks for more units than operators; a query that has just enough is planned all the same.
        plain = set(space.query.aliases) - space.query.kleene_aliases
        least = len(space.query.aliases) - (1 if plain else 0)
        roomy = max(units - 1, least)
        split = _DynamicProgram(space, roomy, random.Random(seed)).split()
    if len(split) > units:
        raise PlanError(f"no split of {space.query.pattern} has at most {units} operators")
    return assignment_with(space, split, load_proportional_units(space, split, units), capacity, reading)


def load_proportional_units(space: SplitSpace, split: Split, units: int) -> tuple[int, ...]:
    """Units in proportion to comparisons, and for joins what they take in as well, as the authors' tool divides them:
    shares are rounded, at least one; if that is too many, those with several are rounded anew among what the others
    leave; what is then still missing or too much is settled with the largest share.
    """
    return _proportional([_log_work(space, step) for step in split], units)


def _proportional(loads: Sequence[float], units: int) -> tuple[int, ...]:
    if not loads:
        return ()
    heaviest = max(loads)
    weights = [math.exp(max(-700.0, load - heaviest)) for load in loads]
    whole_weight = sum(weights)
    given = [max(1, round(weight / whole_weight * units)) for weight in weights]
    if sum(given) > units:
        several = [index for index, count in enumerate(given) if count > 1]
        left, total = units - (len(given) - len(several)), sum(weights[index] for index in several)
        for index in several:
            given[index] = max(1, round(weights[index] / total * left))
    while sum(given) > units:
        spare = [index for index, count in enumerate(given) if count > 1]
        given[min(spare, key=lambda index: weights[index] / (given[index] - 1))] -= 1
    given[max(range(len(given)), key=given.__getitem__)] += units - sum(given)
    return tuple(given)


class _DynamicProgram:
    """Algorithm 1 over sub-queries with their KL positions open or closed; `units` bounds the operators of a split."""

    def __init__(self, space: SplitSpace, units: int, rng: random.Random) -> None:
        self.space, self.units, self.rng = space, units, rng
        self.splits: dict[SubQuery, dict[SubQuery, Step]] = {}
        self.costs: dict[SubQuery, float] = {}
        self._work: dict[Step, float] = {}

    def split(self) -> Split:
        root = whole(self.space.query)
        if len(root.aliases) == 1 and not root.closed:
            return ()
        considered = [*(one for one in self._sub_queries() if one != root), root]
        for sub_query in considered:
            for split in self._left_deep_samples(sub_query):
                self._keep(sub_query, {step.sub_query: step for step in split})
        total = log_sum(*self.costs.values())  # the root included, or it would be given more units than there are
        for sub_query in considered:
            share = max(1, round(math.exp(self.costs[sub_query] - total) * self.units))
            self.costs[sub_query] = self._log_cost(self.splits[sub_query], share)
            for step in self.space.steps(sub_query):
                combined = self._combined(step, self.costs[sub_query])
                if combined is not None and len(combined) <= self.units:
                    self._keep(sub_query, combined, share)
        return split_of(self.splits[root].values())

    def _combined(self, step: Step, cost: float) -> dict[SubQuery, Step] | None:
        """The step with the best splits of its inputs: events, or sub-queries that cost less than `cost` (line 10)."""
        steps = {step.sub_query: step}
        for one in step.inputs:
            if len(one.aliases) == 1:
                if one.closed:
                    return None
                continue
            if self.costs.get(one, math.inf) >= cost:
                return None
            for sub_query, part in self.splits[one].items():
                if steps.setdefault(sub_query, part) != part:
                    return None
        return steps

    def _keep(self, sub_query: SubQuery, split: dict[SubQuery, Step], units: int | None = None) -> None:
        cost = self._log_cost(split, units)
        if cost < self.costs.get(sub_query, math.inf):
            self.splits[sub_query], self.costs[sub_query] = split, cost

    def _log_cost(self, split: dict[SubQuery, Step], units: int | None) -> float:
        """The sum of the work per unit, with units in proportion to work; without `units`, one for each operator."""
        works = []
        for step in split.values():
            if step not in self._work:
                self._work[step] = _log_work(self.space, step)
            works.append(self._work[step])
        if units is None or units <= len(works):
            return log_sum(*works)
        counts = _proportional(works, units)
        return log_sum(*(work - math.log(count) for work, count in zip(works, counts, strict=True)))

    def _sub_queries(self) -> Iterator[SubQuery]:
        """The rate-reducing ones, smaller ones first, open KL before closed."""
        query = self.space.query
        for size in range(2, len(query.aliases) + 1):
            for aliases in itertools.combinations(query.aliases, size):
                kleene = [alias for alias in aliases if alias in query.kleene_aliases]
                for count in range(len(kleene) + 1):
                    for closed in itertools.combinations(kleene, count):
                        if self.space.rates.is_rate_reducing(aliases, closed):
                            yield SubQuery(frozenset(aliases), frozenset(closed))

    def _left_deep_samples(self, sub_query: SubQuery) -> list[Split]:
        """Left-deep splits; each KL to close is closed as it comes in (binary), right after (unary) or at the end."""
        aliases = [alias for alias in self.space.query.aliases if alias in sub_query.aliases]
        if math.factorial(len(aliases)) <= 2 * SAMPLES:
            orders = list(itertools.permutations(aliases))
        else:
            orders = [tuple(self.rng.sample(aliases, len(aliases))) for _ in range(SAMPLES)]
        found = []
        for order in orders:
            for ways in itertools.product(("binary", "after", "end"), repeat=len(sub_query.closed)):
                split = _left_deep(order, dict(zip(sorted(sub_query.closed), ways, strict=True)))
                found.append(split)
        fitting = [split for split in found if len(split) <= self.units]
        return fitting or [min(found, key=len)]


def _left_deep(order: Sequence[str], ways: dict[str, str]) -> Split:
    done = SubQuery(frozenset(order[:1]))
    steps = []

    def closed(alias: str) -> None:
        nonlocal done
        joined = SubQuery(done.aliases, done.closed | {alias})
        steps.append(Step(joined, (done,)))
        done = joined

    pending = [order[0]] if order[0] in ways else []  # the first has nothing to be joined with yet
    for alias in order[1:]:
        way = ways.get(alias)
        events = SubQuery(frozenset({alias}))
        joined = SubQuery(done.aliases | {alias}, done.closed | ({alias} if way == "binary" else frozenset()))
        steps.append(Step(joined, (done, events)))
        done = joined
        if way == "after":
            closed(alias)
        elif way == "end":
            pending.append(alias)
        if pending and pending[0] == order[0] and ways[order[0]] != "end":
            closed(pending.pop(0))
    for alias in pending:
        closed(alias)
    return split_of(steps)


def _split_with_negation(space: SplitSpace, units: int, seed: int) -> Split:
    best: tuple[float, Split] | None = None
    for skeleton in skeletons(space):
        steps: tuple[Step, ...] = skeleton.fixed
        for core in skeleton.cores:
            steps += _core_split(space, core, units - len(skeleton.fixed), random.Random(seed))
        split = split_of(steps)
        cost = _log_cost(space, split)
        if len(split) <= units and (best is None or cost < best[0]):
            best = cost, split
    if best is None:
        raise PlanError(f"no split of {space.query.pattern} has at most {units} operators")
    return best[1]


def _core_split(space: SplitSpace, core: Sequence[str], units: int, rng: random.Random) -> Split:
    if len(core) < 2:
        return ()
    orders = [order for order in itertools.permutations(core) if order[0] < order[1]]
    drawn = orders if len(orders) <= SAMPLES else rng.sample(orders, SAMPLES)
    return min((_left_deep(order, {}) for order in drawn), key=lambda one: _log_cost(space, one))


def _log_cost(space: SplitSpace, split: Split) -> float:
    return log_sum(*(_log_work(space, step) for step in split))


def _log_work(space: SplitSpace, step: Step) -> float:
    """Comparisons on one unit, and what it takes in unless groups are formed or joined. The paper names comparisons
    only (6.2); its tool adds the input, without which its plans do not come out.
    """
    load = load_at(space.price(step), 0.0, Reading.LINEAR)
    compared = load.comparisons.log_per_unit(1)
    return compared if step.sub_query.closed else log_sum(compared, load.ingestion.log_per_unit(1))
