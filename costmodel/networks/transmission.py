"""What crosses a network: rates of projections over covers, and the costs of the two simplest plans (MuSE 4.4).

Output rates are multilinear. So the rate of a projection times the number of bindings that a vertex covers equals the
rate with each position's rate summed over the origins that it covers; nodes may then produce a type at different rates.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterable, Mapping
from functools import cached_property

from costmodel.formulas import PAPER, RateModel
from costmodel.logarithms import log_of
from costmodel.networks.network import EventSourcedNetwork
from costmodel.rates import QueryRates
from costmodel.sampling.partners import PartnerShares
from costmodel.statistics import Statistics, connected_pairs, pair_of
from decopa.query.conditions.predicate import Attr, Compare
from decopa.query.query import Query

Origins = Mapping[str, Collection[str]]


class ProjectionRates:
    """Rates of the projections of one OR-free query in a network, named by their positions.

    `statistics` gives selectivities and filters; rates come from the network. All rates are per window of the network,
    whatever the query's own window is. With `implied`, equalities that follow from others count: k events of one key
    have the selectivity of k - 1 equalities, whichever k events these are. `partners` are counted shares of events that
    have a partner, by types.
    """

    def __init__(
        self,
        query: Query,
        network: EventSourcedNetwork,
        statistics: Statistics,
        model: RateModel = PAPER,
        *,
        implied: bool = False,
        partners: PartnerShares | None = None,
    ) -> None:
        network.check_fits(query)
        self.query, self.network, self._partners = query, network, dict(partners or {})
        self._windows = network.window_us / query.window_us
        totals = {event_type: network.total_rate(event_type) / self._windows for event_type in query.event_types}
        self._statistics = Statistics(
            query.window_us,
            totals,
            statistics.type_pairs,
            statistics.alias_pairs,
            statistics.sub_queries,
            statistics.filter_shares,
            statistics.default_selectivity,
            meetings=statistics.meetings,
            name=statistics.name,
        )
        self._rates = QueryRates(query, self._statistics, model)
        self._classes = _key_classes(query) if implied else ()
        self._totals: dict[frozenset[str], float] = {}

    def producers(self, alias: str) -> tuple[str, ...]:
        return self.network.producers(self.query.position(alias).type)

    @cached_property
    def counted(self) -> frozenset[str]:
        """The positions whose origins multiply: positive ones without KL. A NOT or KL sees every origin at once."""
        return frozenset(one.alias for one in self.query.positions if not one.scope and not one.kleene)

    def event_rate(self, alias: str, node: str) -> float:
        """Events of a position per window that are born at a node and pass the conditions on them alone."""
        share = self._statistics.filter_shares.get(alias, 1.0)
        return self.network.rates[node].get(self.query.position(alias).type, 0.0) * share

    def bindings(self, aliases: Iterable[str]) -> int:
        """|E(p)|: one producing node per position (4.1)."""
        return math.prod(len(self.producers(alias)) for alias in aliases if alias in self.counted)

    def total(self, aliases: Collection[str]) -> float:
        """Matches per window over all origins: the output rate times |E(p)|."""
        key = frozenset(aliases)
        if key not in self._totals:
            if len(key) == 1:
                (alias,) = key
                self._totals[key] = math.fsum(self.event_rate(alias, node) for node in self.producers(alias))
            else:
                self._totals[key] = self._rates.rate(key) * self._windows * math.exp(self._log_correction(key))
        return self._totals[key]

    def per_binding(self, aliases: Collection[str]) -> float:
        """The output rate of 4.4: matches per window and binding, the mean if rates differ between nodes."""
        return self.total(aliases) / self.bindings(aliases)

    def share(self, alias: str, origins: Collection[str]) -> float:
        """The share of a position's events that is born at the given nodes."""
        if alias not in self.counted:
            return 1.0
        total = self.total((alias,))
        return math.fsum(self.event_rate(alias, node) for node in origins) / total

    def over(self, aliases: Collection[str], origins: Origins) -> float:
        """Matches per window whose events have the given origins; positions that are not named have all of theirs."""
        shares = (self.share(alias, origins[alias]) for alias in aliases if alias in origins)
        return self.total(aliases) * math.prod(shares)

    def reduced_share(self, alias: str, aliases: Collection[str]) -> float:
        """The share of a position's events that have a match with the other positions.

        At most the least share that was counted for one of them; else as if matches fell on events at random.
        """
        own = self.query.position(alias).type
        others = {self.query.position(other).type for other in aliases if other != alias}
        counted = [self._partners[own, other] for other in others if (own, other) in self._partners]
        random = -math.expm1(-self.total(aliases) / self.total((alias,)))
        return min(counted) if counted else random

    def _log_correction(self, aliases: frozenset[str]) -> float:
        """Replaces the product over all pairs of a key class by that over a spanning tree."""
        correction = 0.0
        for members in self._classes:
            inside = sorted(members & aliases)
            if len(inside) > 1:
                given = {pair: self._log_pair(*pair) for pair in itertools.combinations(inside, 2)}
                stated = [self._log_pair(*pair) for pair in itertools.combinations(sorted(members), 2)]
                usual = max((value for value in stated if value < 0), default=0.0)
                correction += _tree(inside, {pair: value or usual for pair, value in given.items()})
                correction -= sum(given.values())
        return correction

    def _log_pair(self, one: str, other: str) -> float:
        query = self.query
        joined = pair_of(one, other) in self._connected
        return log_of(self._statistics.selectivity(query.position(one), query.position(other), connected=joined))

    @cached_property
    def _connected(self) -> frozenset[tuple[str, str]]:
        return connected_pairs(self.query)


def _key_classes(query: Query) -> tuple[frozenset[str], ...]:
    """Aliases of positive positions whose attributes must all be equal, by the query's equalities."""
    class_of: dict[Attr, set[Attr]] = {}
    for predicate in query.where:
        if isinstance(predicate, Compare) and predicate.op == "=":
            ends = (predicate.left, predicate.right)
            if all(isinstance(end, Attr) and not query.scope_of(end.alias) for end in ends):
                merged = set[Attr]().union(*(class_of.get(end, {end}) for end in ends))  # type: ignore[arg-type]
                class_of |= dict.fromkeys(merged, merged)
    distinct = {id(members): members for members in class_of.values()}
    return tuple(frozenset(attr.alias for attr in members) for members in distinct.values())


def _tree(names: list[str], weights: Mapping[tuple[str, str], float]) -> float:
    """The sum of the largest spanning tree."""
    trees = {name: frozenset([name]) for name in names}
    total = 0.0
    for value, one, other in sorted(((value, *pair) for pair, value in weights.items()), reverse=True):
        if trees[one] is not trees[other]:
            merged = trees[one] | trees[other]
            trees |= dict.fromkeys(merged, merged)
            total += value
    return total


def referenced_types(queries: Iterable[Query]) -> tuple[str, ...]:
    """Each type that any of the queries names, once."""
    return tuple(dict.fromkeys(event_type for query in queries for event_type in query.event_types))


def central_cost(network: EventSourcedNetwork, event_types: Iterable[str]) -> float:
    """Every event of every referenced type leaves for an instance outside of the network (7.1)."""
    return math.fsum(network.total_rate(event_type) for event_type in event_types)


def gathering_cost(network: EventSourcedNetwork, event_types: Iterable[str], node: str) -> float:
    """Every event travels to one node inside of the network (Example 2)."""
    return math.fsum(
        rate * network.link(source, node).cost
        for event_type in event_types
        for source in network.producers(event_type)
        for rate in (network.rates[source][event_type],)
        if source != node
    )


def naive_cost(network: EventSourcedNetwork, event_types: Iterable[str]) -> tuple[str, float]:
    """The node where gathering everything costs least, and that cost."""
    types = tuple(event_types)
    return min(((node, gathering_cost(network, types, node)) for node in network.nodes), key=lambda found: found[1])
