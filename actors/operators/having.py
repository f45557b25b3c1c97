"""Having: conditions with aggregates over the members of groups, decided on whole batches of matches.

An operator decides what its matches can show and none of its inputs could: all events named are there, and the groups
are formed. Whatever the plan, each condition is decided on every way to the root.
"""

from __future__ import annotations

import numpy as np

from actors.columnar.group_values import GroupValues
from actors.operators.base import OperatorSpec
from decopa.planning.subquery import SubQuery
from decopa.query.conditions.predicate import Predicate, aliases_of, groups_of
from shuffler.rows.batch import Batch
from shuffler.rows.layout import layout_of


class Having:
    """The conditions that one operator decides; made by `having_of`."""

    def __init__(self, spec: OperatorSpec, conditions: tuple[Predicate, ...]) -> None:
        self._bound, self._code_of = spec.bound, spec.code_of
        self._layout = layout_of(spec.bound, spec.operator.sub_query)
        self._conditions = conditions

    def passing(self, batch: Batch) -> Batch:
        """The matches that fulfil all of them."""
        if not batch.length:
            return batch
        values = GroupValues(self._bound, self._layout, batch)
        mask = np.logical_and.reduce([values.mask(one, self._code_of) for one in self._conditions])
        return batch if bool(mask.all()) else batch.take(np.flatnonzero(mask))


def having_of(spec: OperatorSpec) -> Having | None:
    """What an operator decides on the groups of its matches; None if that is nothing."""
    inputs = [source.sub_query for source in spec.plan.inputs(spec.operator)]
    conditions = tuple(
        one
        for one in spec.bound.having
        if _shows(spec.operator.sub_query, one) and not any(_shows(source, one) for source in inputs)
    )
    return Having(spec, conditions) if conditions else None


def _shows(sub_query: SubQuery, condition: Predicate) -> bool:
    return aliases_of(condition) <= sub_query.aliases and groups_of(condition) <= sub_query.closed
