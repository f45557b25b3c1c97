"""A bound query's conditions on combinations of events in memory: whole columns at a time, derived columns once."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from costmodel.sampling.events import Array, EventColumns, Ints
from costmodel.sampling.meeting import Mask
from decopa.query.binding import BoundQuery, Derived
from decopa.query.conditions.members import EARLIER, LATER
from decopa.query.conditions.predicate import Attr, Node, Predicate, rewrite
from decopa.query.conditions.vector import ColumnEvaluator
from decopa.query.schema import Column


class EventConditions:
    """Evaluates conditions as `bind` has rewritten them; `rows` has the events' numbers for each alias named."""

    def __init__(self, bound: BoundQuery, events: EventColumns) -> None:
        self._bound, self._events = bound, events
        self._derived: dict[tuple[str, str], Array] = {}

    def mask(self, predicate: Predicate, rows: Mapping[str, Ints]) -> Mask:
        """Which combinations fulfil a condition on several aliases."""
        return self._mask(predicate, rows, {alias: alias for alias in rows})

    def between_members(self, predicate: Predicate, alias: str, earlier: Ints, later: Ints) -> Mask:
        """Which pairs of members of a KL alias fulfil a condition between members."""
        return self._mask(predicate, {EARLIER: earlier, LATER: later}, {EARLIER: alias, LATER: alias})

    def _mask(self, predicate: Predicate, rows: Mapping[str, Ints], owners: Mapping[str, str]) -> Mask:
        length = len(next(iter(rows.values())))

        def read(name: str) -> Array:
            side, _, attribute = name.partition(".")
            return np.asarray(self._column(owners[side], attribute)[rows[side]])

        def column_of(attr: Attr) -> Column:
            side, _, attribute = attr.name.partition(".")
            return self._bound.column(Attr(owners[side], attribute))

        evaluator = ColumnEvaluator(length, read, column_of, self._events.code_of, self._events.texts_of)
        return evaluator.mask(rewrite(predicate, _qualified))  # type: ignore[arg-type]

    def _column(self, alias: str, name: str) -> Array:
        derived = next((one for one in self._bound.derived.get(alias, ()) if one.name == name), None)
        if derived is None:
            return self._events.column(name)
        key = alias, name
        if key not in self._derived:
            self._derived[key] = self._derive(derived)
        return self._derived[key]

    def _derive(self, derived: Derived) -> Array:
        evaluator = ColumnEvaluator(
            len(self._events),
            self._events.column,
            lambda attr: self._bound.schema.attributes[attr.name],
            self._events.code_of,
            self._events.texts_of,
        )
        return evaluator.derive(derived)


def _qualified(node: Node) -> Node | None:
    """`a.x` as an attribute called 'a.x', since the evaluator knows attributes by name only."""
    return Attr(node.alias, f"{node.alias}.{node.name}") if isinstance(node, Attr) else None
