"""Covers: which event type bindings a vertex delivers (MuSE Def. 4, Property 2), as disjoint boxes of origins.

A box gives each position a set of origins and stands for all their combinations, so a cover of a million bindings is a
handful of sets.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

Box = Mapping[str, frozenset[str]]


@dataclass(frozen=True)
class Cover:
    """A set of bindings of some positions, as boxes over the same positions that do not overlap."""

    boxes: tuple[dict[str, frozenset[str]], ...] = ()

    @classmethod
    def of(cls, box: Mapping[str, Iterable[str]]) -> Cover:
        return cls(({alias: frozenset(origins) for alias, origins in box.items()},))

    @property
    def aliases(self) -> frozenset[str]:
        return frozenset(self.boxes[0]) if self.boxes else frozenset()

    def __len__(self) -> int:
        return sum(math.prod(map(len, box.values())) for box in self.boxes)

    def bindings(self) -> Iterator[dict[str, str]]:
        """Every binding; for small covers."""
        for box in self.boxes:
            for origins in itertools.product(*(sorted(box[alias]) for alias in box)):
                yield dict(zip(box, origins, strict=True))

    def united(self, other: Cover) -> Cover:
        """Both; they must not overlap."""
        return Cover(_merged([*self.boxes, *other.boxes]))

    def overlap(self, other: Cover) -> dict[str, str] | None:
        """A binding that both have, if there is one; positions that only one of them has do not matter."""
        for one, two in itertools.product(self.boxes, other.boxes):
            shared = {alias: one[alias] & two[alias] for alias in one if alias in two}
            if all(shared.values()):
                return {alias: min(origins) for alias, origins in shared.items()}
        return None

    def joined(self, other: Cover) -> Cover:
        """Bindings of all positions of both whose parts both have (Property 2)."""
        found = []
        for one, two in itertools.product(self.boxes, other.boxes):
            box = {**one, **two}
            box |= {alias: one[alias] & two[alias] for alias in one if alias in two}
            if all(box.values()):
                found.append(box)
        return Cover(_merged(found))

    def without(self, other: Cover) -> Cover:
        """The bindings that `other`, a cover of the same positions, does not have."""
        left = list(self.boxes)
        for hole in other.boxes:
            left = [piece for box in left for piece in _cut(box, hole)]
        return Cover(_merged(left))

    def onto(self, aliases: Iterable[str]) -> tuple[dict[str, frozenset[str]], ...]:
        """The boxes restricted to some positions; they may overlap."""
        kept = frozenset(aliases)
        return tuple({alias: box[alias] for alias in box if alias in kept} for box in self.boxes)


NOTHING = Cover()


def _merged(boxes: list[dict[str, frozenset[str]]]) -> tuple[dict[str, frozenset[str]], ...]:
    """Unites boxes that differ in one position only, until none do."""
    changed = True
    while changed and len(boxes) > 1:
        changed = False
        for alias in boxes[0]:
            together: dict[tuple[frozenset[str], ...], dict[str, frozenset[str]]] = {}
            for box in boxes:
                key = tuple(box[other] for other in sorted(box) if other != alias)
                known = together.get(key)
                together[key] = box if known is None else {**box, alias: box[alias] | known[alias]}
            changed |= len(together) < len(boxes)
            boxes = list(together.values())
    return tuple(boxes)


def _cut(box: dict[str, frozenset[str]], hole: Mapping[str, frozenset[str]]) -> Iterator[dict[str, frozenset[str]]]:
    """The parts of a box outside of another one, as boxes."""
    inside = dict(box)
    for alias in box:
        outside = inside[alias] - hole[alias]
        if outside:
            yield {**inside, alias: outside}
        inside[alias] = inside[alias] & hole[alias]
        if not inside[alias]:
            return
