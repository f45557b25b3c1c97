"""Layout: which columns the matches of a sub-query carry, derived from the query alone.

Sender and receiver compute the same layout, so nothing about columns has to be agreed on. A match carries its event
ids, its time span, and what later operators or RETURN still need: attributes of conditions that are not decided yet
and times of positions whose order towards later positions is open (projection push-down).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from decopa.planning.subquery import SubQuery, whole
from decopa.planning.times import needed_times
from decopa.query.binding import BoundQuery
from decopa.query.conditions.predicate import Attr, attributes
from decopa.query.schema import Kind
from shuffler.rows.batch import Batch, key_of, length_of, start_of

INT = np.dtype(np.int64)
FLOAT = np.dtype(np.float64)


@dataclass(frozen=True)
class Layout:
    """Fixed-width columns by name, member columns of each closed Kleene alias, and where logical columns live.

    Logical columns are `alias.first` and `alias.last` (times of an alias; equal unless it is a group), `alias.ts`,
    `alias.id` and `alias.attribute`; several may share one physical column.
    """

    columns: dict[str, np.dtype]
    groups: dict[str, dict[str, np.dtype]]
    places: dict[str, str] = field(default_factory=dict)

    def place(self, logical: str) -> str:
        return self.places.get(logical, logical)

    def sample(self) -> Batch:
        """One row of zeros, with a group of one member for each closed Kleene alias."""
        columns = {name: np.zeros(1, dtype) for name, dtype in self.columns.items()}
        for alias in self.groups:
            columns[length_of(alias)][0] = 1
        members = {
            alias: {name: np.zeros(1, dtype) for name, dtype in group.items()} for alias, group in self.groups.items()
        }
        return Batch(1, columns, members)

    def empty(self) -> Batch:
        return Batch(
            0,
            {name: np.empty(0, dtype) for name, dtype in self.columns.items()},
            {alias: {name: np.empty(0, dtype) for name, dtype in members.items()}
             for alias, members in self.groups.items()},
        )  # fmt: skip


def layout_of(bound: BoundQuery, sub_query: SubQuery) -> Layout:
    """The layout of the matches of `sub_query`."""
    key = ("layout", sub_query)
    if key not in bound.derivations:
        bound.derivations[key] = _layout(bound, sub_query)
    found: Layout = bound.derivations[key]
    return found


def _layout(bound: BoundQuery, sub_query: SubQuery) -> Layout:
    query = bound.query
    positive = sorted(sub_query.positive(query), key=query.aliases.index)
    needed = _needed_attributes(bound, sub_query)
    columns: dict[str, np.dtype] = {"min_ts": INT}
    groups: dict[str, dict[str, np.dtype]] = {}
    places: dict[str, str] = {}
    lasting = bound.lasting
    single = len(positive) == 1 and positive[0] not in sub_query.closed and not lasting
    if single:
        places["max_ts"] = "min_ts"
    else:
        columns["max_ts"] = INT
    spread = frozenset(positive) if lasting else sub_query.closed  # first and last of a plain event are one time
    _place_times(query.order_constraints, positive, spread, places, single=single)
    for logical in needed_times(query, sub_query, lasting=bound.lasting):
        if logical not in places:
            columns[logical] = INT
            if logical.rpartition(".")[0] not in spread:
                alias = logical.rpartition(".")[0]
                places[f"{alias}.first"] = places[f"{alias}.last"] = logical
    for alias in positive:
        attrs = sorted(needed.get(alias, ()))
        if alias in sub_query.closed:
            columns[start_of(alias)] = columns[length_of(alias)] = INT
            if sub_query != whole(query):  # at the root nothing is left to compare groups with
                columns[key_of(alias)] = INT
            members = {member_column(bound, Attr(alias, name)): _dtype(bound, alias, name) for name in attrs}
            groups[alias] = {"id": INT, "ordinal": INT} | members
            continue
        columns[f"{alias}.id"] = INT
        if alias in query.kleene_aliases:  # members are listed in time order, ties by place in the stream
            columns[f"{alias}.ordinal"] = INT
        for name in attrs:
            if name == "ts":
                if f"{alias}.first" not in places:
                    columns[f"{alias}.first"] = INT
                    if not lasting:
                        places[f"{alias}.last"] = f"{alias}.first"
                places[f"{alias}.ts"] = places.get(f"{alias}.first", f"{alias}.first")
            elif name == "end" and bound.schema.intervals:
                if f"{alias}.last" not in places:
                    columns[f"{alias}.last"] = INT
                places[f"{alias}.end"] = places.get(f"{alias}.last", f"{alias}.last")
            else:
                columns[f"{alias}.{member_column(bound, Attr(alias, name))}"] = _dtype(bound, alias, name)
    return Layout(columns, groups, places)


def member_column(bound: BoundQuery, attr: Attr) -> str:
    """The column name, without alias, that holds an attribute. `id` is the identity of an event, which is the
    user's id if that is an integer; a string id is an attribute beside it."""
    if attr.name == "id" and bound.schema.attributes["id"].kind is Kind.STRING:
        return "id text"
    return attr.name


def _dtype(bound: BoundQuery, alias: str, name: str) -> np.dtype:
    return FLOAT if bound.column(Attr(alias, name)).kind is Kind.FLOAT else INT


def _needed_attributes(bound: BoundQuery, sub_query: SubQuery) -> dict[str, set[str]]:
    """Attributes per alias that a later operator or the result needs.

    A string id is needed by the result: the identity that operators compare is then the place in the stream.
    """
    needed: dict[str, set[str]] = {}
    positive = sub_query.positive(bound.query)

    def need(attr: Attr) -> None:
        if attr.alias in positive:
            needed.setdefault(attr.alias, set()).add(attr.name)

    for condition in bound.conditions:
        if not condition.decided_in(sub_query.aliases) and condition.useful_with(positive):
            for attr in attributes(condition.predicate):
                need(attr)
    for predicate in bound.having:  # to the end: the operator that decides it reads what it writes itself
        for attr in attributes(predicate):
            need(attr)
    for alias, pairs in bound.self_pairs.items():
        if alias not in sub_query.closed:
            for pair in pairs:
                for attr in attributes(pair):
                    need(Attr(alias, attr.name))
    for alias, members in bound.members.items():
        if alias not in sub_query.closed:
            for predicate in members.all:
                for attr in attributes(predicate):
                    need(attr)
    if not sub_query.scope(bound.query):
        for attr in bound.query.returns:
            need(attr)
        if bound.schema.attributes["id"].kind is Kind.STRING:
            for alias in positive:
                need(Attr(alias, "id"))
    for alias in positive & bound.query.kleene_aliases - sub_query.closed:
        needed.setdefault(alias, set()).add("ts")
    return needed


def _place_times(
    order: frozenset[tuple[str, str]],
    positive: list[str],
    closed: frozenset[str],
    places: dict[str, str],
    *,
    single: bool,
) -> None:
    """Finds the alias that comes before (after) all others: its time is the match's min_ts (max_ts)."""
    for alias in positive:
        others = [other for other in positive if other != alias]
        if single or all((alias, other) in order for other in others):
            places[f"{alias}.first"] = "min_ts"
            if alias not in closed:
                places[f"{alias}.last"] = "min_ts"
        if not single and all((other, alias) in order for other in others):
            places[f"{alias}.last"] = "max_ts"
            if alias not in closed:
                places[f"{alias}.first"] = "max_ts"
