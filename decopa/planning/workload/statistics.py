"""Statistics of fragments, from those of the queries that use them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from costmodel.statistics import PairSelectivity, Statistics
from decopa.planning.plan import Plan, QueryPlan, View
from decopa.planning.workload.packing import part_order
from decopa.query.predicate import Predicate, aliases_of, renamed
from decopa.query.query import Query


def part_statistics(plan: Plan, known: Sequence[Statistics | None]) -> list[Statistics | None]:
    """One for each part of a plan, from those of the parts that report matches; of a fragment, as its first user with
    statistics sees it."""
    found: list[Statistics | None] = [None] * len(plan.parts)
    for place, one in zip(plan.reported, known, strict=True):
        found[place] = one
    for user in reversed(part_order(plan)):
        mine = found[user]
        for operator in plan.parts[user].views:
            assert operator.view is not None
            source = plan.place_of[operator.view.part]
            if mine is not None and found[source] is None:
                found[source] = _seen_through(mine, plan.parts[user], operator.view, plan.parts[source].query)
    return found


def _seen_through(statistics: Statistics, part: QueryPlan, view: View, fragment: Query) -> Statistics:
    """The statistics of a fragment, in its own names and its own window."""
    names = view.names
    pairs = tuple(
        PairSelectivity(names[one.first], names[one.second], one.selectivity, one.standard_error)
        for one in statistics.alias_pairs
        if one.first in names and one.second in names
    )
    shares = {
        names[alias]: share
        for alias, share in statistics.filter_shares.items()
        if alias in names and _filters(part.query, alias, names) == _filters(fragment, names[alias], {})
    }
    same = statistics.window_us == fragment.window_us
    narrow = replace(
        statistics,
        alias_pairs=pairs,
        filter_shares=shares,
        sub_queries=(),
        groups=(),
        negations=(),
        measured_for=(),
    )
    return narrow if same else narrow.rescaled(fragment.window_us)


def _filters(query: Query, alias: str, names: dict[str, str]) -> set[str]:
    """The conditions on one event alone, by what it is called in the fragment."""
    alone: list[Predicate] = [one for one in query.where if aliases_of(one) == {alias}]
    return {str(renamed(one, names)) for one in alone}
