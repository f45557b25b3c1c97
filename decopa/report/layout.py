"""Where the boxes of a plan's drawing go: layers by distance from the root, few crossings, short edges."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from decopa.planning.plan import PlanOperator, QueryPlan

_BEND_WIDTH = 18.0
_GAP_X, _GAP_Y, _MARGIN = 22.0, 54.0, 14.0
#: What events and bends weigh in the layout, next to operators with 1.
LIGHT = 0.02


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle of the drawing: an operator, or a bend of an edge that passes through the layer.

    Heavy boxes are placed first: a chain of joins goes straight down, and events hang at its side.
    """

    width: float
    height: float
    weight: float = 1.0


class Layout:
    """Layers by distance from the root, which is on top; order within layers with few crossings; positions."""

    def __init__(self, plan: QueryPlan, boxes: dict[str, Box]) -> None:
        self.boxes = dict(boxes)
        self.chains: dict[tuple[str, str], tuple[str, ...]] = {}
        self._layers: list[list[str]] = [[] for _ in range(max(plan.depth.values()) + 1)]
        self._above: dict[str, list[str]] = {}
        self._below: dict[str, list[str]] = {}
        self._visit(plan, plan.root)
        self._reduce_crossings()

    def _visit(self, plan: QueryPlan, operator: PlanOperator) -> None:
        """Adds the operator, then its inputs from left to right, which already draws trees without crossings."""
        depth = plan.depth[operator.name]
        self._layers[depth].append(operator.name)
        for source in plan.inputs(operator):
            bends = [f"\0{source.name}>{operator.name}#{layer}" for layer in range(depth + 1, plan.depth[source.name])]
            for layer, bend in enumerate(bends, depth + 1):
                self.boxes[bend] = Box(_BEND_WIDTH, 0, LIGHT)
                self._layers[layer].append(bend)
            chain = (operator.name, *bends, source.name)
            self.chains[source.name, operator.name] = chain
            for upper, lower in itertools.pairwise(chain):
                self._below.setdefault(upper, []).append(lower)
                self._above.setdefault(lower, []).append(upper)
            if source.name not in self._layers[plan.depth[source.name]]:
                self._visit(plan, source)

    def _reduce_crossings(self) -> None:
        """Barycentre sweeps, down and up; the best order seen is kept, the first one if nothing is gained."""
        best, fewest = [list(layer) for layer in self._layers], self.crossings
        for sweep in range(12):
            if not fewest:
                break
            down = sweep % 2 == 0
            neighbours = self._above if down else self._below
            for layer in self._layers if down else reversed(self._layers):
                place = {name: at for names in self._layers for at, name in enumerate(names)}
                own = {name: float(place[name]) for name in layer}
                wanted = {
                    name: _mean([place[one] for one in neighbours.get(name, [])], otherwise=own[name]) for name in layer
                }
                layer.sort(key=wanted.__getitem__)
            if self.crossings < fewest:
                best, fewest = [list(layer) for layer in self._layers], self.crossings
        self._layers = best

    @property
    def crossings(self) -> int:
        place = {name: at for layer in self._layers for at, name in enumerate(layer)}
        count = 0
        for layer in self._layers:
            edges = [(place[upper], place[lower]) for upper in layer for lower in self._below.get(upper, [])]
            count += sum((a - c) * (b - d) < 0 for (a, b), (c, d) in itertools.combinations(edges, 2))
        return count

    @cached_property
    def middles(self) -> dict[str, float]:
        """Horizontal centres: near those of the neighbours above and below, without overlaps, from the margin on."""
        middles: dict[str, float] = {}
        for layer in self._layers:
            middles |= dict(zip(layer, self._spread(layer, [0.0] * len(layer)), strict=True))
        for sweep in range(60):
            for layer in self._layers if sweep % 2 else reversed(self._layers):
                wanted = [self._pull(name, middles) for name in layer]
                middles |= dict(zip(layer, self._spread(layer, wanted), strict=True))
        left = min(middles[name] - self.boxes[name].width / 2 for name in middles)
        return {name: middle - left + _MARGIN for name, middle in middles.items()}

    def _pull(self, name: str, middles: dict[str, float]) -> float:
        near = self._above.get(name, []) + self._below.get(name, [])
        return _mean([middles[one] for one in near], [self.boxes[one].weight for one in near], middles[name])

    def _spread(self, layer: Sequence[str], wanted: Sequence[float]) -> list[float]:
        """Centres as near to the wanted ones as the widths allow (least squares, by pooling adjacent violators)."""
        boxes = [self.boxes[name] for name in layer]
        offsets = [0.0, *itertools.accumulate((a.width + b.width) / 2 + _GAP_X for a, b in itertools.pairwise(boxes))]
        pools: list[tuple[float, float, int]] = []  # where, weight, how many boxes
        for want, offset, box in zip(wanted, offsets, boxes, strict=True):
            pools.append((want - offset, box.weight, 1))
            while len(pools) > 1 and pools[-2][0] >= pools[-1][0]:
                (x, weight, count), (y, other, more) = pools[-2:]
                pools[-2:] = [((x * weight + y * other) / (weight + other), weight + other, count + more)]
        places = [where for where, _, count in pools for _ in range(count)]
        return [place + offset for place, offset in zip(places, offsets, strict=True)]

    @cached_property
    def tops(self) -> dict[str, float]:
        """Upper edges: every layer begins below the highest box of the one above."""
        tops: dict[str, float] = {}
        y = _MARGIN
        for layer in self._layers:
            tops |= dict.fromkeys(layer, y)
            y += max(self.boxes[name].height for name in layer) + _GAP_Y
        return tops

    def layer_bottom(self, name: str) -> float:
        layer = next(layer for layer in self._layers if name in layer)
        return self.tops[name] + max(self.boxes[one].height for one in layer)

    @property
    def size(self) -> tuple[float, float]:
        return (
            max(self.middles[name] + box.width / 2 for name, box in self.boxes.items()) + _MARGIN,
            max(self.tops[name] + box.height for name, box in self.boxes.items()) + _MARGIN,
        )

    def port(self, name: str, other: str, *, above: bool) -> float:
        """Where on the box the edge to `other` begins: edges of one box do not all meet in one point."""
        near = sorted((self._above if above else self._below)[name], key=lambda one: self.middles[one])
        share = (near.index(other) + 1) / (len(near) + 1)
        reach = min(self.boxes[name].width * 0.8, 60.0 * (len(near) + 1))
        return self.middles[name] + (share - 0.5) * reach


def _mean(values: Sequence[float], weights: Sequence[float] = (), otherwise: float = 0.0) -> float:
    if not values:
        return otherwise
    weights = weights or [1.0] * len(values)
    return sum(value * weight for value, weight in zip(values, weights, strict=True)) / sum(weights)


# ------------------------------------------------------------------ the drawing
