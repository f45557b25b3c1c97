"""The same operators on other numbers of units: states for the new units out of those of the old ones.

What an operator holds is a set of rows for each of its inputs, wherever they are. So all rows are gathered, then dealt
out as the new plan would have dealt them out. Every pair of rows that have both arrived has met already, and each
later row meets exactly the units that the new plan sends it to, so nothing is found twice or missed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from actors.columnar.output import Counters
from actors.group import GroupState
from actors.operators.base import LogicState
from actors.operators.row_sets import RowSet, row_sets
from actors.state.codec import check_split, plan_document
from actors.unit import Channel, UnitState
from decopa.errors import CheckpointError
from decopa.planning.plan import PlanOperator, QueryPlan
from decopa.planning.roles import BOTH
from shuffler.routing.feeder import FeederState
from shuffler.routing.partitioner import Broadcast, HashByEventIds, Partitioner, RoundRobin
from shuffler.routing.table import RoutingTable, SenderState
from shuffler.rows.batch import Array, Batch, joined, length_of, start_of


def rescale(old: RoutingTable, new: RoutingTable, states: Iterable[GroupState], *, counted: bool = True) -> GroupState:
    """All units of the plan of `new`, from `states` that together hold all units of the plan of `old`.

    String codes must be those of one pool. Units, shufflers and partition flags may differ; another query, another
    split, or slices are refused. What was counted is the first unit's from now on, or nobody's.
    """
    check_rescalable(old, new)
    units: dict[tuple[str, int], UnitState] = {}
    senders: dict[tuple[str, int], SenderState] = {}
    views: dict[tuple[str, int], SenderState] = {}
    for state in states:
        units.update(state.units)
        senders.update(state.senders)
        views.update(state.views)
    new_units: dict[tuple[str, int], UnitState] = {}
    new_senders: dict[tuple[str, int], SenderState] = {}
    for operator in new.plan.operators:
        if operator.inputs:
            before = old.plan.roles(old.plan.operator(operator.name))
            keys = [(operator.name, number) for number in range(before.active_units)]
            missing = [f"{name}/{number}" for name, number in keys if (name, number) not in units]
            if missing:
                raise CheckpointError(f"the checkpoint has no state of unit {missing[0]}; it is not complete")
            for number, unit in enumerate(_dealt(old, new, operator, [units[key] for key in keys])):
                new_units[operator.name, number] = unit if counted else replace(unit, counters=Counters())
                new_senders[operator.name, number] = _fresh_sender(new, operator, [senders[key] for key in keys])
    new_views: dict[tuple[str, int], SenderState] = {}
    for operator in new.plan.views:
        saved = [sender for (name, _), sender in views.items() if name == operator.name]
        if len(saved) != len(old.senders(operator)):
            raise CheckpointError(f"the checkpoint has no state of view {operator.name}; it is not complete")
        for number in range(len(new.senders(operator))):
            new_views[operator.name, number] = _fresh_sender(new, operator, saved)
    return GroupState(new_units, new_senders, new_views)


def rescale_feeders(old: RoutingTable, new: RoutingTable, states: Sequence[FeederState]) -> tuple[FeederState, ...]:
    """Feeders for the shufflers of `new`, from those of all shufflers of `old`."""
    check_rescalable(old, new)
    if len(states) != old.shufflers:
        raise CheckpointError(f"the checkpoint has {len(states)} of {old.shufflers} shufflers; it is not complete")
    senders = {
        leaf.name: _fresh_sender(new, leaf, [state[0][leaf.name] for state in states]) for leaf in new.plan.leaves
    }
    return tuple((senders,) for _ in range(new.shufflers))


def may_rescale(old: RoutingTable, new: RoutingTable) -> bool:
    """Whether `rescale` would not refuse."""
    try:
        check_rescalable(old, new)
    except CheckpointError:
        return False
    return True


def check_rescalable(old: RoutingTable, new: RoutingTable) -> None:
    if old.plan.query != new.plan.query:
        raise CheckpointError("the checkpoint is of another query; go on with that query")
    check_split(plan_document(old)["operators"], plan_document(new)["operators"], "the checkpoint")
    if old.plan.slices > 1 or new.plan.slices > 1:
        # Which copy holds an event depends on the number of copies, and each would have to see events again.
        raise CheckpointError("a plan with slices cannot be rescaled; go on with the plan of the checkpoint")


def _dealt(old: RoutingTable, new: RoutingTable, operator: PlanOperator, units: Sequence[UnitState]) -> list[UnitState]:
    """The units of one operator."""
    roles, sources = new.plan.roles(operator), new.plan.inputs(operator)
    count, dealt_before = roles.active_units, old.plan.roles(old.plan.operator(operator.name)).dealt
    # A later watermark of one unit promises nothing about rows that come from others.
    watermarks = tuple(min(unit.logic.watermarks[side] for unit in units) for side in range(len(sources)))
    channels = [
        {
            Channel(side, sender): watermarks[side]
            for side, source in enumerate(sources)
            for sender in new.senders_to(source, number)
        }
        for number in range(count)
    ]
    rows: list[dict[str, Batch]] = [{} for _ in range(count)]
    for name, kind in row_sets(new.plan, operator).items():
        copies = [unit.logic.rows[name] for unit in units]
        whole = joined(copies) if dealt_before in (kind.side, BOTH) else _united(copies, new.plan, kind)
        nothing = whole.take(np.empty(0, dtype=np.int64))
        parts = dict(_partitioner(kind, count, dealt=roles.dealt in (kind.side, BOTH)).split(whole))
        for number in range(count):
            rows[number][name] = parts.get(number, nothing)
    return [
        UnitState(LogicState(rows[number], watermarks), channels[number], _total(units) if number == 0 else Counters())
        for number in range(count)
    ]


def _partitioner(kind: RowSet, units: int, *, dealt: bool) -> Partitioner:
    """Which units must have a row; for a unary Kleene split and with a key it is the rule that senders go by."""
    if not dealt:
        return Broadcast(units)
    return RoundRobin(units) if kind.together is None else HashByEventIds(units, kind.together)


def _united(copies: Sequence[Batch], plan: QueryPlan, kind: RowSet) -> Batch:
    """What any of the units holds of rows that went to all of them. One copy is not enough: a negation forgets
    negated matches as its own positive ones allow, and these may now go to another unit."""
    if len(copies) == 1:
        return copies[0]
    rows = joined(copies)
    identity = [
        _numbered_groups(rows, alias) if alias in kind.sub_query.closed else rows.columns[f"{alias}.id"]
        for alias in sorted(kind.sub_query.positive(plan.query))
    ]
    _, first = np.unique(np.stack(identity, axis=1), axis=0, return_index=True)
    return rows.take(np.sort(first))


def _numbered_groups(rows: Batch, alias: str) -> Array:
    """For each row a number that only equal groups share; keys are hashes, which different groups may share."""
    starts, lengths = rows.columns[start_of(alias)], rows.columns[length_of(alias)]
    ids = rows.heaps[alias]["id"]
    numbers: dict[bytes, int] = {}
    return np.array(
        [
            numbers.setdefault(ids[start : start + length].tobytes(), len(numbers))
            for start, length in zip(starts.tolist(), lengths.tolist())
        ],
        dtype=np.int64,
    )


def _fresh_sender(new: RoutingTable, operator: PlanOperator, senders: Iterable[SenderState]) -> SenderState:
    return SenderState(min(sender.watermark_us for sender in senders), (0,) * len(new.edges_from(operator)))


def _total(units: Sequence[UnitState]) -> Counters:
    counters = [unit.counters for unit in units]
    return Counters(
        sum(one.ingested for one in counters),
        sum(one.comparisons for one in counters),
        sum(one.emitted for one in counters),
    )
