"""Multi-pattern multitrees as data: for every pattern a binary tree over its events, equal sub-patterns computed once.

A problem says which sub-patterns are the same and what each costs; a multitree is one solution of it, to which a
pattern's tree is added, and from which it is taken away, in time proportional to its size (MCEP 3.2 and appendix C).
Sub-patterns are bit masks over the events of their pattern.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

#: A sub-pattern whatever its events are called, with the window that it is evaluated in: equal ones are computed once.
Key = tuple[Hashable, int]


def sub_patterns(mask: int) -> Iterator[int]:
    """All sub-patterns of a pattern, itself included."""
    below = 0
    while below := (below - mask) & mask:
        yield below


class TreeProblem(Protocol):
    """The patterns of a workload. Costs are of whatever is to be small, and add up."""

    @property
    def patterns(self) -> int: ...

    def full(self, pattern: int) -> int:
        """The mask of all events of a pattern."""
        ...

    def window(self, pattern: int) -> int: ...

    def form(self, pattern: int, mask: int) -> Hashable:
        """What a sub-pattern demands, equal for equal ones of other patterns."""
        ...

    def windows(self, form: Hashable) -> Sequence[int]:
        """The windows in which some pattern needs a sub-pattern, in ascending order."""
        ...

    def join_cost(self, pattern: int, mask: int, left: int, right: int, window: int) -> float:
        """Of finding the matches of a sub-pattern from those of two others."""
        ...

    def leaf_cost(self, pattern: int, mask: int, window: int) -> float:
        """Of the events of one position."""
        ...

    def view_cost(self, pattern: int, mask: int, window: int) -> float:
        """Of taking matches that were found in `window` for other patterns."""
        ...


class Node(NamedTuple):
    """How the matches of a sub-pattern are found: from two others, or, for single events, from the stream."""

    inputs: tuple[Key, ...]
    cost: float


#: The nodes of one tree, root last, each after those that it is made from.
Tree = tuple[tuple[Key, Node], ...]


@dataclass(frozen=True, slots=True)
class Chosen:
    """A pattern's tree, its root, and what it pays for matches that others find."""

    root: Key
    tree: Tree
    views: float


class MultiTree:
    """Trees of some patterns; a sub-pattern is split one way, however many patterns use it."""

    def __init__(self) -> None:
        self.nodes: dict[Key, Node] = {}
        self.chosen: dict[Hashable, Chosen] = {}
        self._users: dict[Key, frozenset[Hashable]] = {}

    @property
    def cost(self) -> float:
        return sum(node.cost for node in self.nodes.values()) + sum(one.views for one in self.chosen.values())

    def copy(self) -> MultiTree:
        other = MultiTree()
        other.nodes, other.chosen, other._users = dict(self.nodes), dict(self.chosen), dict(self._users)
        return other

    def add(self, user: Hashable, chosen: Chosen) -> None:
        """Adds a tree; what is there already is used as it is."""
        assert user not in self.chosen
        self.chosen[user] = chosen
        made, waiting, seen = dict(chosen.tree), [chosen.root], {chosen.root}
        while waiting:
            key = waiting.pop()
            if key not in self.nodes:
                self.nodes[key] = made[key]
            self._users[key] = self.users(key) | {user}
            for below in self.nodes[key].inputs:
                if below not in seen:
                    seen.add(below)
                    waiting.append(below)

    def remove(self, user: Hashable) -> Chosen:
        """Takes a tree away; sub-patterns go with their last user."""
        chosen = self.chosen.pop(user)
        unused = []
        for key in self._below(chosen.root):
            self._users[key] -= {user}
            if not self._users[key]:
                unused.append(key)
        for key in unused:
            del self._users[key], self.nodes[key]
        return chosen

    def users(self, key: Key) -> frozenset[Hashable]:
        """Whose trees contain a sub-pattern."""
        return self._users.get(key, frozenset())

    def used_by(self, user: Hashable) -> Iterator[Key]:
        """The sub-patterns of a tree, each once."""
        return self._below(self.chosen[user].root)

    def _below(self, root: Key) -> Iterator[Key]:
        seen, waiting = set(), [root]
        while waiting:
            key = waiting.pop()
            if key not in seen:
                seen.add(key)
                yield key
                waiting += self.nodes[key].inputs
