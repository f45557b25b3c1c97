"""Statistics of fragments, from those of the queries that use them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from costmodel.statistics import PairSelectivity, Statistics, pair_of
from decopa.planning.plan import Plan
from decopa.planning.workload.packing import part_order
from decopa.query.conditions.bounds import bound_of
from decopa.query.conditions.predicate import Among, Predicate, aliases_of, renamed
from decopa.query.query import Query


@dataclass(frozen=True)
class User:
    """Someone who takes matches of a fragment: what is known of it, and what its events are called there."""

    statistics: Statistics
    query: Query
    names: Mapping[str, str]


def part_statistics(plan: Plan, known: Sequence[Statistics | None]) -> list[Statistics | None]:
    """One for each part of a plan, from those of the parts that report matches; of a fragment, as its users see it."""
    found: list[Statistics | None] = [None] * len(plan.parts)
    for place, one in zip(plan.reported, known, strict=True):
        found[place] = one
    users: dict[int, list[User]] = {}
    for place in reversed(part_order(plan)):
        part = plan.parts[place]
        if part.fragment and place in users:
            found[place] = statistics_of_users(part.query, users[place])
        mine = found[place]
        for operator in part.views if mine is not None else ():
            assert operator.view is not None and mine is not None
            source = plan.place_of[operator.view.part]
            users.setdefault(source, []).append(User(mine, part.query, operator.view.names))
    return found


def statistics_of_users(fragment: Query, users: Sequence[User]) -> Statistics:
    """The statistics of a fragment, in its own names and its own window. It demands no more than any of its users, so
    a selectivity is at least the largest that a user has."""
    pairs: dict[tuple[str, str], PairSelectivity] = {}
    for user in users:
        names = user.names
        for one in user.statistics.alias_pairs:
            if one.first in names and one.second in names:
                there = PairSelectivity(names[one.first], names[one.second], one.selectivity, one.standard_error)
                known = pairs.get(pair_of(there.first, there.second))
                if known is None or known.selectivity < there.selectivity:
                    pairs[pair_of(there.first, there.second)] = there
    first = users[0].statistics
    narrow = replace(
        first,
        alias_pairs=tuple(pairs.values()),
        filter_shares=_filter_shares(fragment, users),
        sub_queries=(),
        groups=(),
        negations=(),
        measured_for=(),
    )
    return narrow if first.window_us == fragment.window_us else narrow.rescaled(fragment.window_us)


def _filter_shares(fragment: Query, users: Sequence[User]) -> dict[str, float]:
    """The share of events that pass a fragment's conditions on one event, where it has the same ones as its users but
    for constants: the largest, or for constants that events equal the sum."""
    shares: dict[str, float] = {}
    for alias in fragment.aliases:
        wanted = _filters(fragment, alias, {})
        adds_up = any(isinstance(one, Among) for one in wanted)
        by_text: dict[str, float] = {}
        for user in users:
            here = next(mine for mine, there in user.names.items() if there == alias)
            mine = _filters(user.query, here, user.names)
            if here in user.statistics.filter_shares and sorted(map(_shape, mine)) == sorted(map(_shape, wanted)):
                by_text[" AND ".join(sorted(map(str, mine)))] = user.statistics.filter_shares[here]
        if by_text:
            shares[alias] = min(1.0, sum(by_text.values())) if adds_up else max(by_text.values())
    return shares


def _filters(query: Query, alias: str, names: Mapping[str, str]) -> list[Predicate]:
    """The conditions on one event alone, by what it is called in the fragment."""
    alone = [one for one in query.where if aliases_of(one) == {alias}]
    return [renamed(one, names) for one in alone]  # type: ignore[misc]


def _shape(predicate: Predicate) -> str:
    """A condition without its constants."""
    bound = bound_of(predicate)
    if bound is not None:
        return f"{bound.of} {bound.op}"
    return f"{predicate.operand} =" if isinstance(predicate, Among) else str(predicate)
