"""Instance: one OR-free query in one network, in numbers that planners can be fast with.

Positions and nodes are numbered; a projection is a bit mask of positions. `box` restricts positions to some origins:
the instance is then that part of the query's bindings.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cached_property

from costmodel.networks.transmission import ProjectionRates
from decopa.planning.network.problem.combination import bits
from decopa.planning.network.problem.conditions import is_beneficial_projection
from decopa.planning.network.problem.identity import canonical_text
from decopa.planning.subquery import SubQuery, whole

#: Origins by number of the position; positions that are not named have all their producers.
Box = Mapping[int, frozenset[int]]
#: What a row of a projection weighs on the network: 1 for matches, its bytes otherwise.
Weight = Callable[[frozenset[str]], float]


class Instance:
    def __init__(self, rates: ProjectionRates, *, weight: Weight | None = None, box: Box | None = None) -> None:
        self.rates, self.query, self.network = rates, rates.query, rates.network
        self.weight, self.box = weight, dict(box or {})
        self.aliases = self.query.aliases
        self.nodes = self.network.nodes
        self.types = tuple(self.query.position(alias).type for alias in self.aliases)
        self.full = (1 << len(self.aliases)) - 1
        number_of = {node: number for number, node in enumerate(self.nodes)}
        self.producers = tuple(
            tuple(
                number
                for node in rates.producers(alias)
                if (number := number_of[node]) in self.box.get(place, range(len(self.nodes)))
            )
            for place, alias in enumerate(self.aliases)
        )
        #: What is born somewhere, as masks: all positions of one type together, since its events travel once for all of
        #: them (the authors' tool, too, takes all or none of them into a projection).
        self.primitives = _by_type(self.types)
        counted = rates.counted
        #: Positions whose origins multiply, as a mask.
        self.counted = sum(1 << place for place, alias in enumerate(self.aliases) if alias in counted)
        self._totals: dict[int, float] = {}
        self._usable: dict[int, bool] = {}
        self._identities: dict[int, str] = {}

    def restricted(self, box: Box) -> Instance:
        """The same query over fewer origins."""
        part = Instance(self.rates, weight=self.weight, box={**self.box, **box})
        part._usable, part._identities = self._usable, self._identities  # neither depends on origins
        return part

    def identity(self, mask: int) -> str:
        """Equal for projections, of any query, that have the same matches at the same rate."""
        if mask not in self._identities:
            aliases = self.aliases_of(mask)
            query = self.sub_query(mask).as_query(self.query)
            self._identities[mask] = f"{canonical_text(query)} {self.rates.total(aliases):.12g}"
        return self._identities[mask]

    def aliases_of(self, mask: int) -> frozenset[str]:
        return frozenset(self.aliases[place] for place in bits(mask))

    def sub_query(self, mask: int) -> SubQuery:
        """The projection as the rest of the system names it; groups of KL positions are formed unless it is a leaf."""
        if mask == self.full:
            return whole(self.query)
        aliases = self.aliases_of(mask)
        return SubQuery(aliases, aliases & self.query.kleene_aliases if len(aliases) > 1 else frozenset())

    def text(self, mask: int) -> str:
        return self.sub_query(mask).text(self.query)

    def is_primitive(self, mask: int) -> bool:
        """Whether a mask stands for the events of one type, not for matches."""
        return mask in self.primitives or mask.bit_count() == 1

    def bindings(self, mask: int) -> int:
        """|E(p)| inside of the box."""
        if self.is_primitive(mask):
            return len(self.producers[mask.bit_length() - 1])
        return math.prod(len(self.producers[place]) for place in bits(mask & self.counted))

    def total(self, mask: int) -> float:
        """What all matches of a projection, or events of a type, together weigh per window."""
        if mask not in self._totals and self.is_primitive(mask):
            place = mask.bit_length() - 1
            self._totals[mask] = math.fsum(self.event_weight(mask, node) for node in self.producers[place])
        elif mask not in self._totals:
            aliases = self.aliases_of(mask)
            origins = {self.aliases[place]: self._names(place) for place in bits(mask) if place in self.box}
            weight = 1.0 if self.weight is None else self.weight(aliases)
            self._totals[mask] = self.rates.over(aliases, origins) * weight
        return self._totals[mask]

    def per_binding(self, mask: int) -> float:
        return self.total(mask) / self.bindings(mask)

    def event_weight(self, mask: int, node: int) -> float:
        """What the events of a type that are born at a node, and pass for one of its positions, weigh per window."""
        aliases = [self.aliases[place] for place in bits(mask)]
        weight = 1.0 if self.weight is None else self.weight(frozenset(aliases[:1]))
        rate = sum(self.rates.event_rate(alias, self.nodes[node]) for alias in aliases)
        return min(rate, self.network.rates[self.nodes[node]].get(self.types[mask.bit_length() - 1], 0.0)) * weight

    def share(self, place: int, node: int) -> float:
        """The share of a position's events inside of the box that is born at a node."""
        return self._shares[place].get(node, 0.0)

    @cached_property
    def _shares(self) -> tuple[dict[int, float], ...]:
        found = []
        for place, producers in enumerate(self.producers):
            rates = {node: self.event_weight(1 << place, node) for node in producers}
            total = math.fsum(rates.values())
            found.append({node: rate / total for node, rate in rates.items()})
        return tuple(found)

    @cached_property
    def axes(self) -> tuple[int, ...]:
        """Positions that a placement may be partitioned by: counted ones whose type has no other position.

        Events of a repeated type travel to every host anyway, for its other positions.
        """
        return tuple(place for place in bits(self.counted) if self.types.count(self.types[place]) == 1)

    def usable(self, mask: int) -> bool:
        """Whether a projection may be evaluated on its own: leaves, the whole, and negation-closed parts without KL."""
        if mask not in self._usable:
            self._usable[mask] = mask == self.full or self.is_primitive(mask) or self._is_closed(mask)
        return self._usable[mask]

    def parts(self, mask: int) -> tuple[int, ...]:
        """The primitives that a projection is made of."""
        return tuple(one for one in self.primitives if one & mask)

    def beneficial(self, mask: int) -> bool:
        """Def. 13 for the primitive combination, on rates per binding."""
        return is_beneficial_projection(self.per_binding(mask), map(self.per_binding, self.parts(mask)))

    @cached_property
    def projections(self) -> tuple[int, ...]:
        """Every composite projection other than the query that may be evaluated on its own, smallest first."""
        found = {0}
        for primitive in self.primitives:
            found |= {one | primitive for one in found}
        composite = [mask for mask in found if mask not in (0, self.full) and not self.is_primitive(mask)]
        return tuple(sorted(filter(self.usable, composite), key=lambda mask: (mask.bit_count(), mask)))

    @cached_property
    def beneficial_projections(self) -> tuple[int, ...]:
        """Those that Def. 13 keeps."""
        return tuple(filter(self.beneficial, self.projections))

    def _is_closed(self, mask: int) -> bool:
        query, aliases = self.query, self.aliases_of(mask)
        if aliases & query.kleene_aliases:  # groups are formed where the whole match is known
            return False
        sub_query = SubQuery(aliases)
        if sub_query.scope(query):
            return False
        depth = {len(query.scope_of(alias)) for alias in aliases}
        if max(depth) > 1:
            return False
        return all(
            negation.aliases <= aliases and query.context_of(negation) <= aliases
            for negation in sub_query.negations(query)
        )

    def _names(self, place: int) -> tuple[str, ...]:
        return tuple(self.nodes[number] for number in self.producers[place])


def _by_type(types: tuple[str, ...]) -> tuple[int, ...]:
    """One mask per type; one per position if there is no other type."""
    if len(set(types)) == 1:
        return tuple(1 << place for place in range(len(types)))
    masks: dict[str, int] = {}
    for place, event_type in enumerate(types):
        masks[event_type] = masks.get(event_type, 0) | 1 << place
    return tuple(masks.values())
