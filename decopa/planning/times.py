"""Which times of its events a match must carry: those that a later order check or NOT looks at."""

from __future__ import annotations

from collections.abc import Iterable

from decopa.planning.subquery import SubQuery
from decopa.query.query import Query


def needed_times(query: Query, sub_query: SubQuery, *, lasting: bool = False) -> list[str]:
    """Times of positions that a later order check or negation looks at, as `alias.first` and `alias.last`; `lasting`
    says that events have an end besides their start."""
    positive, scope = sub_query.positive(query), sub_query.scope(query)
    later = [p.alias for p in query.positions if p.scope == scope and p.alias not in positive]
    found: dict[str, None] = {}
    if lasting and len(positive) > 1:
        # Of events that last, the one that ends first comes next: a run of a NEXT says when its first event ends.
        found |= {
            f"{alias}.last": None for alias in earliest(query.order_constraints, positive & query.followers.keys())
        }
    for other in later:
        for alias in last_before(query.order_constraints, positive, other):
            found[f"{alias}.last"] = None
        for alias in first_after(query.order_constraints, positive, other):
            found[f"{alias}.first"] = None
    for negation in query.negations:
        if negation.scope[:-1] == scope and not negation.aliases & sub_query.aliases:
            for alias in latest(query.order_constraints, negation.after & positive):
                found[f"{alias}.last"] = None
            for alias in earliest(query.order_constraints, negation.before & positive):
                found[f"{alias}.first"] = None
    return sorted(found)


def last_before(order: frozenset[tuple[str, str]], aliases: Iterable[str], other: str) -> frozenset[str]:
    """Those of `aliases` that must precede `other` and are not themselves before another such one."""
    return latest(order, {alias for alias in aliases if (alias, other) in order})


def first_after(order: frozenset[tuple[str, str]], aliases: Iterable[str], other: str) -> frozenset[str]:
    """Those of `aliases` that must follow `other` and are not themselves after another such one."""
    return earliest(order, {alias for alias in aliases if (other, alias) in order})


def latest(order: frozenset[tuple[str, str]], aliases: Iterable[str]) -> frozenset[str]:
    group = frozenset(aliases)
    return frozenset(alias for alias in group if not any((alias, other) in order for other in group))


def earliest(order: frozenset[tuple[str, str]], aliases: Iterable[str]) -> frozenset[str]:
    group = frozenset(aliases)
    return frozenset(alias for alias in group if not any((other, alias) in order for other in group))
