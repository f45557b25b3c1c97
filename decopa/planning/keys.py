"""Equalities between positions, which the engine looks up in an index: pairs whose keys differ are never compared."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping

from costmodel.statistics import Statistics
from decopa.planning.subquery import SubQuery
from decopa.query.conditions.implied import implied_comparisons
from decopa.query.conditions.predicate import Attr, Compare, Predicate, aliases_of
from decopa.query.query import Query


class Keys:
    """The equalities of one OR-free query, and how often they hold."""

    def __init__(self, query: Query, statistics: Statistics) -> None:
        self._query = query
        #: Pair of aliases -> share of pairs with equal keys; None where statistics do not tell it.
        self._shares: dict[frozenset[str], float | None] = {}
        conditions = _between_two(query)
        for pair, predicates in conditions.items():
            if any(map(_is_key, predicates)):
                alone = all(map(_is_key, predicates))
                self._shares[pair] = _selectivity(query, statistics, pair) if alone else None
        implied = implied_comparisons(query.where, lambda one, other: True)
        #: Keys that follow from others: the engine uses them, the rate model does not know of them.
        self._implied = {
            aliases: found.through for found in implied if found.predicate.op == "="
            and (aliases := frozenset(aliases_of(found.predicate))) not in self._shares
        }  # fmt: skip

    def unknown_within(self, aliases: frozenset[str]) -> bool:
        """Whether an implied key makes the matches on these positions fewer than their rate says."""
        return any(pair <= aliases and not through <= aliases for pair, through in self._implied.items())

    def log_within(self, aliases: frozenset[str]) -> float:
        """The logarithm of the share of combinations with all keys equal, if each is a single event."""
        shares = [value for pair, value in self._shares.items() if pair <= aliases and value is not None]
        return sum(math.log(max(value, 1e-300)) for value in shares)

    def share(self, left: SubQuery, right: SubQuery) -> tuple[float, bool]:
        """Of the pairs of a left and a right match: the share with equal keys, and whether that is all of it.

        Groups are not looked up by key.
        """
        share, known = 1.0, True
        both = left.aliases | right.aliases
        sides = (left.aliases - right.aliases - left.closed, right.aliases - left.aliases - right.closed)
        for one, other in itertools.product(*map(sorted, sides)):
            pair = frozenset((one, other))
            if pair in self._shares:
                one_share = self._shares[pair]
                share, known = share * (1.0 if one_share is None else one_share), known and one_share is not None
            elif pair in self._implied and not self._implied[pair] <= both:
                known = False
        return share, known


def _between_two(query: Query) -> Mapping[frozenset[str], list[Predicate]]:
    found: dict[frozenset[str], list[Predicate]] = {}
    for predicate in query.where:
        aliases = frozenset(aliases_of(predicate))
        if len(aliases) == 2:
            found.setdefault(aliases, []).append(predicate)
    return found


def _is_key(predicate: Predicate) -> bool:
    return (
        isinstance(predicate, Compare)
        and predicate.op == "="
        and isinstance(predicate.left, Attr)
        and isinstance(predicate.right, Attr)
    )


def _selectivity(query: Query, statistics: Statistics, pair: frozenset[str]) -> float | None:
    one, other = (query.position(alias) for alias in sorted(pair))
    if one.scope != other.scope:  # between a NOT and what is outside of it: not part of statistics
        return None
    return statistics.selectivity(one, other, connected=True)
