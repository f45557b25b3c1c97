"""The strategies that the paper compares with (7.1): all of them on the left-deep split in query order."""

from __future__ import annotations

from dataclasses import replace

from costmodel.throughput import load_at
from decopa.choices import Reading
from decopa.errors import PlanError
from decopa.planning.plan import PlanOperator, QueryPlan
from decopa.planning.split import Split, SplitSpace, Step, split_of
from decopa.planning.strategies.left_deep import left_deep
from decopa.planning.strategies.units import plan_with_units
from decopa.planning.subquery import SubQuery
from decopa.query.query import Query


def query_order(query: Query) -> QueryPlan:
    """The left-deep split of the baselines: positions in the order of the query, each KL closed by a binary split where
    it stands (the first one with the position after it), as the authors' published Hybrid plans do.

    With NOT, NEXT, ITER or KL over several events, or KL only, it is the engine's left-deep plan, which the paper does
    not describe.
    """
    plain = [position for position in query.positions if not position.kleene]
    if query.negations or query.chosen_in_order or not plain or len(plain) == len(query.positions):
        return left_deep(query)
    order = list(query.aliases)
    first = next(alias for alias in order if alias not in query.kleene_aliases)
    order.remove(first)
    operators = [PlanOperator("o1", SubQuery(frozenset({first})))]
    done = operators[0]
    for alias in order:
        leaf = PlanOperator(f"o{len(operators) + 1}", SubQuery(frozenset({alias})))
        closed = done.sub_query.closed | ({alias} & query.kleene_aliases)
        joined = SubQuery(done.sub_query.aliases | {alias}, closed)
        done = PlanOperator(f"o{len(operators) + 2}", joined, (done.name, leaf.name))
        operators += [leaf, done]
    return QueryPlan(query, tuple(operators))


def centralized(query: Query) -> QueryPlan:
    """All operators on one processing unit."""
    plan = query_order(query)
    return replace(plan, operators=tuple(replace(one, hosts=(0,)) for one in plan.operators))


def state_parallel(query: Query) -> QueryPlan:
    """Every operator on a unit of its own, however many more there are."""
    return query_order(query)


def hybrid(space: SplitSpace, units: int) -> QueryPlan:
    """Units in proportion to the comparisons of each operator, the larger input dealt out."""
    split = split_of_plan(query_order(space.query))
    return plan_with_units(space, split, proportional_units(space, split, units))


def rip(query: Query, units: int) -> QueryPlan:
    """Batches of two windows, each overlapping the next by one, in turn to units that evaluate the whole query."""
    return replace(centralized(query), slices=units)


def split_of_plan(plan: QueryPlan) -> Split:
    """The split that a plan runs."""
    return split_of(
        Step(operator.sub_query, tuple(source.sub_query for source in plan.inputs(operator)))
        for operator in plan.operators
        if operator.inputs
    )


def proportional_units(space: SplitSpace, split: Split, units: int) -> tuple[int, ...]:
    """At least one unit per step; the others in proportion to comparisons, largest remainders first."""
    if units < len(split):
        raise PlanError(f"the split has {len(split)} operators, more than {units} units")
    if not split:
        return ()
    loads = [load_at(space.price(step), 0.0, Reading.LINEAR).comparisons.log_per_unit(1) for step in split]
    heaviest = max(loads)
    weights = [2.0 ** min(0.0, max(-1000.0, (load - heaviest) / 0.6931471805599453)) for load in loads]
    total = sum(weights)
    shares = [weight / total * units for weight in weights]
    given = [max(1, int(share)) for share in shares]
    while sum(given) > units:
        given[max(range(len(given)), key=lambda index: (given[index] > 1, given[index] - shares[index]))] -= 1
    while sum(given) < units:
        given[max(range(len(given)), key=lambda index: shares[index] - given[index])] += 1
    return tuple(given)
