"""Events of one type on their way to a node: one row each, whichever positions of whichever queries read them there.

If one position reads them, rows are those of its leaf: its conditions are decided and only the columns it needs
travel. If several do, rows are raw events that pass for at least one of them, and the receiver makes the leaves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from decopa.planning.plan import PlanOperator, QueryPlan
from decopa.planning.subquery import SubQuery
from decopa.query.binding import BoundQuery, bind
from decopa.query.conditions.predicate import Attr, attributes
from decopa.query.pattern import EventRef, Kleene, Pattern
from decopa.query.query import Query
from decopa.query.schema import Kind
from shuffler.routing.leaves import LeafSplitter
from shuffler.rows.batch import Array, Batch
from shuffler.rows.events import EventBatch
from shuffler.rows.layout import layout_of
from shuffler.rows.strings import StringPool

_RAW = "e"
#: (number of the query, position)
LeafName = tuple[int, str]


class EventCarrier:
    """Packs and unpacks the events of one type for the leaves that read them."""

    def __init__(
        self,
        event_type: str,
        leaves: Sequence[LeafName],
        bounds: Sequence[BoundQuery],
        strings: StringPool,
    ) -> None:
        self._type, self._leaves = event_type, tuple(leaves)
        self._splitters = {leaf: _splitter(bounds[leaf[0]], leaf[1], strings) for leaf in leaves}
        if len(self._leaves) == 1:
            part, alias = self._leaves[0]
            self.bound = bounds[part]
            self.layout = layout_of(self.bound, SubQuery(frozenset({alias})))
            self._raw: LeafSplitter | None = None
            return
        needed = sorted({name for part, alias in leaves for name in attributes_of(bounds[part], alias)})
        event = EventRef(event_type, _RAW)
        grouped = any(alias in bounds[part].query.kleene_aliases for part, alias in leaves)
        pattern: Pattern = Kleene(event) if grouped else event  # only a KL position keeps its place in the stream
        schema = bounds[leaves[0][0]].schema
        query = Query(pattern, (), bounds[leaves[0][0]].query.window_us, returns=tuple(Attr(_RAW, n) for n in needed))
        self.bound = bind(query, schema)
        self.layout = layout_of(self.bound, SubQuery(frozenset({_RAW})))
        self._raw = _splitter(self.bound, _RAW, strings)
        self._columns = tuple(needed)
        self._has_ordinals = grouped

    def packed(self, events: EventBatch, mine: Array) -> Batch | None:
        """The events flagged in `mine` that some leaf wants, as rows for the wire."""
        if self._raw is None:
            return next((batch for _, batch in self._splitters[self._leaves[0]].split(events, mine)), None)
        wanted = np.zeros(len(events), dtype=bool)
        for splitter in self._splitters.values():
            wanted |= splitter.passing(events, mine)
        return next((batch for _, batch in self._raw.split(events, wanted)), None)

    def unpacked(self, rows: Batch) -> Iterator[tuple[LeafName, Batch]]:
        """The rows of each leaf; leaves without any are left out."""
        if self._raw is None:
            yield self._leaves[0], rows
            return
        events = self._events(rows)
        for leaf, splitter in self._splitters.items():
            for _, batch in splitter.split(events):
                yield leaf, batch

    def _events(self, rows: Batch) -> EventBatch:
        columns = {name: rows.columns[self.layout.place(f"{_RAW}.{_column(self.bound, name)}")]
                   for name in self._columns}  # fmt: skip
        ordinals = rows.columns[f"{_RAW}.ordinal"] if self._has_ordinals else None
        codes = np.zeros(rows.length, dtype=np.int32)
        ids = rows.columns[f"{_RAW}.id"]
        return EventBatch(rows.columns["min_ts"], ids, codes, (self._type,), 0, columns, ordinals)


def attributes_of(bound: BoundQuery, alias: str) -> frozenset[str]:
    """The attributes of the trace that a position's conditions, derived columns and results read; its time and an
    integer id travel anyway."""
    derived = bound.derived.get(alias, ())
    made = {one.name for one in derived}
    read = [attr for predicate in bound.filters.get(alias, ()) for attr in attributes(predicate)]
    read += [attr for condition in bound.conditions for attr in attributes(condition.predicate)]
    read += [attr for one in bound.having for attr in attributes(one)]
    read += list(bound.query.returns)
    names = {attr.name for attr in read if attr.alias == alias}
    between = (*bound.self_pairs.get(alias, ()), *bound.members_of(alias).all)
    names |= {attr.name for pair in between for attr in attributes(pair)}
    names = names.union(*(one.attributes for one in derived)) - made
    if bound.schema.attributes["id"].kind is Kind.STRING:
        return frozenset(names | {"id"}) - {"ts"}
    return frozenset(names) - {"ts", "id"} | (frozenset({"id"}) & names)


def _column(bound: BoundQuery, name: str) -> str:
    return "id text" if name == "id" and bound.schema.attributes["id"].kind is Kind.STRING else name


def _splitter(bound: BoundQuery, alias: str, strings: StringPool) -> LeafSplitter:
    leaf = PlanOperator(alias, SubQuery(frozenset({alias})))
    return LeafSplitter(bound, QueryPlan(bound.query, (leaf,)), strings)
