"""MCEP's own objects (SIGMOD 2019): patterns, multi-pattern trees of orders, the multi-pattern graph, and its local
planner. Its tree-based plans are `multitree`s, its searches are in `search`."""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from costmodel.papers.instances import Pair, instances


@dataclass(frozen=True)
class TypePattern:
    """A SEQ or AND over distinct types in a window; a condition is a text and the types that it names."""

    operator: str
    types: tuple[str, ...]
    window: float
    conditions: tuple[tuple[frozenset[str], str], ...] = ()

    def projected(self, types: frozenset[str]) -> Hashable:
        """What the pattern demands of some of its types, equal for equal sub-patterns of other patterns."""
        kept = tuple(one for one in self.types if one in types)
        texts = frozenset(text for named, text in self.conditions if named <= types)
        return self.operator, kept if self.operator == "SEQ" else frozenset(kept), texts

    def text(self, types: frozenset[str]) -> str:
        return f"{self.operator}({','.join(one for one in self.types if one in types)})"


def common_sub_patterns(one: TypePattern, other: TypePattern) -> tuple[frozenset[str], ...]:
    """The sets of types on which both patterns demand the same, whatever else they have (M7)."""
    shared = [name for name in one.types if name in other.types]
    subsets = itertools.chain(*(itertools.combinations(shared, size) for size in range(1, len(shared) + 1)))
    sets = (frozenset(types) for types in subsets)
    return tuple(types for types in sets if one.projected(types) == other.projected(types))


def maximal(sets: Sequence[frozenset[str]]) -> tuple[frozenset[str], ...]:
    """Those that are part of no other."""
    return tuple(one for one in sets if not any(one < other for other in sets))


@dataclass
class MultiPatternGraph:
    """Patterns by name, and the maximal sub-patterns that each two of them have in common (M7).

    A pattern is added or removed in time proportional to the number of the others.
    """

    patterns: dict[str, TypePattern] = field(default_factory=dict)
    common: dict[tuple[str, str], tuple[frozenset[str], ...]] = field(default_factory=dict)

    def add(self, name: str, pattern: TypePattern) -> None:
        for other, theirs in self.patterns.items():
            found = common_sub_patterns(pattern, theirs)
            if found:
                self.common[other, name] = maximal(found)
        self.patterns[name] = pattern

    def remove(self, name: str) -> None:
        del self.patterns[name]
        self.common = {pair: sets for pair, sets in self.common.items() if name not in pair}

    def components(self) -> list[set[str]]:
        """Patterns that share nothing with those of other components, so that these are planned apart (M8)."""
        left, found = set(self.patterns), []
        while left:
            component, waiting = set(), [next(iter(sorted(left)))]
            while waiting:
                name = waiting.pop()
                if name not in component:
                    component.add(name)
                    waiting += [other for pair in self.common if name in pair for other in pair]
            left -= component
            found.append(component)
        return found


class PrefixTree:
    """Orders of patterns merged at common prefixes: the multi-pattern tree (M3, M4).

    A node is a prefix on whose types its patterns demand the same; its window is the largest of its patterns', since a
    state must keep partial matches as long as any pattern needs them (4.1 prints the smallest).
    """

    def __init__(self) -> None:
        self._users: dict[Hashable, list[float]] = {}
        self._prefixes: dict[Hashable, tuple[str, ...]] = {}

    def add(self, pattern: TypePattern, order: Sequence[str]) -> None:
        """Adds an order in time proportional to its length."""
        for key, prefix in _states(pattern, order):
            self._users.setdefault(key, []).append(pattern.window)
            self._prefixes[key] = prefix

    def remove(self, pattern: TypePattern, order: Sequence[str]) -> None:
        for key, _ in _states(pattern, order):
            self._users[key].remove(pattern.window)
            if not self._users[key]:
                del self._users[key], self._prefixes[key]

    def __len__(self) -> int:
        """The states besides the initial one."""
        return len(self._prefixes)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._prefixes

    def window(self, key: Hashable) -> float:
        return max(self._users[key])

    def instances(self, rates: Mapping[str, float], selectivities: Mapping[Pair, float]) -> float:
        """#inst: instances of all states but the initial one."""
        return sum(instances(prefix, self.window(key), rates, selectivities) for key, prefix in self._prefixes.items())

    def waiting_states(self) -> dict[str, list[str]]:
        """l_T for each type: the states that an event of it may lead on from, numbered q1, q2, ... breadth first."""
        following: dict[tuple[str, ...], list[tuple[str, ...]]] = {}
        for prefix in self._prefixes.values():
            after = following.setdefault(prefix[:-1], [])
            if prefix not in after:
                after.append(prefix)
        names: dict[tuple[str, ...], str] = {(): "q1"}
        waiting: list[tuple[str, ...]] = [()]
        lists: dict[str, set[str]] = {}
        while waiting:
            state = waiting.pop(0)
            for prefix in following.get(state, ()):
                lists.setdefault(prefix[-1], set()).add(names[state])
                if prefix in following:
                    names[prefix] = f"q{len(names) + 1}"
                waiting.append(prefix)
        return {name: sorted(states) for name, states in sorted(lists.items())}


def _states(pattern: TypePattern, order: Sequence[str]) -> Iterator[tuple[Hashable, tuple[str, ...]]]:
    for length in range(1, len(order) + 1):
        prefix = tuple(order[:length])
        yield (pattern.projected(frozenset(prefix)), prefix), prefix


@dataclass(frozen=True)
class OrderPlanner:
    """Orders of patterns for given statistics."""

    rates: Mapping[str, float]
    selectivities: Mapping[Pair, float]

    def best_order(self, pattern: TypePattern, prefix: Sequence[str] = ()) -> tuple[float, tuple[str, ...]]:
        """The cheapest order that begins with `prefix`, and what the states behind it cost: MCEP's local planner A."""
        begun = frozenset(prefix)
        best: dict[frozenset[str], tuple[float, tuple[str, ...]]] = {begun: (0.0, tuple(prefix))}
        rest = [one for one in pattern.types if one not in begun]
        for size in range(1, len(rest) + 1):
            for chosen in itertools.combinations(rest, size):
                types = begun | frozenset(chosen)
                held = instances(tuple(types), pattern.window, self.rates, self.selectivities)
                ways = ((best[types - {last}], last) for last in chosen)
                best[types] = min((cost + held, (*order, last)) for (cost, order), last in ways)
        return best[frozenset(pattern.types)]

    def tree(self, patterns: Sequence[TypePattern], orders: Sequence[Sequence[str]]) -> PrefixTree:
        tree = PrefixTree()
        for pattern, order in zip(patterns, orders, strict=True):
            tree.add(pattern, order)
        return tree

    def cost(self, patterns: Sequence[TypePattern], orders: Sequence[Sequence[str]]) -> float:
        return self.tree(patterns, orders).instances(self.rates, self.selectivities)

    def separate_orders(self, patterns: Sequence[TypePattern]) -> list[tuple[str, ...]]:
        """Each pattern's own best order: where local search begins (M10)."""
        return [self.best_order(pattern)[1] for pattern in patterns]

    def exhaustive(self, patterns: Sequence[TypePattern]) -> tuple[float, list[tuple[tuple[str, ...], ...]], int]:
        """The least cost over all combinations of orders, every combination that has it, and how many there are."""
        best, tried = math.inf, 0
        found: list[tuple[tuple[str, ...], ...]] = []
        for orders in itertools.product(*(itertools.permutations(pattern.types) for pattern in patterns)):
            tried += 1
            cost = self.cost(patterns, orders)
            if cost < best * (1 - 1e-12):
                best, found = cost, []
            if cost <= best * (1 + 1e-12):
                found.append(orders)
        return best, found, tried

    def responses(self, patterns: Sequence[TypePattern]) -> list[tuple[str, ...]]:
        """Orders of which none alone can be improved, nor two together that share a beginning: best responses over
        orders, each the best continuation of a prefix that others have (Theorem 4.1)."""
        orders = self.separate_orders(patterns)
        while True:
            before = self.cost(patterns, orders)
            for changed in self._moves(patterns, orders):
                if self.cost(patterns, changed) < self.cost(patterns, orders) * (1 - 1e-12):
                    orders = changed
            if self.cost(patterns, orders) >= before * (1 - 1e-12):
                return orders

    def _moves(
        self, patterns: Sequence[TypePattern], orders: Sequence[tuple[str, ...]]
    ) -> Iterator[list[tuple[str, ...]]]:
        """All patterns that have a sub-pattern in common begin with it, in any order of it."""
        sets = {
            types for one, other in itertools.combinations(patterns, 2) for types in common_sub_patterns(one, other)
        }
        for types in sorted(sets, key=sorted):
            users = [place for place, one in enumerate(patterns) if types <= set(one.types)]
            groups: dict[Hashable, list[int]] = {}
            for place in users:
                groups.setdefault(patterns[place].projected(types), []).append(place)
            for group in groups.values():
                for prefix in itertools.permutations(sorted(types)):
                    changed = list(orders)
                    for place in group:
                        changed[place] = self.best_order(patterns[place], prefix)[1]
                    yield changed
