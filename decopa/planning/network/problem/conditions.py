"""The paper's inequalities: what is worth keeping (Defs. 12 and 13, aMuSE*) and where to put it ((6), Def. 16)."""

from __future__ import annotations

from collections.abc import Iterable


def is_beneficial_vertex(cover: int, rate: float, inputs: Iterable[tuple[float, int]]) -> bool:
    """Inequality (1): what leaves the vertex is no more than what enters it. `inputs`: output rate, summed covers."""
    return cover * rate <= sum(one * covers for one, covers in inputs)


def is_beneficial_projection(rate: float, primitive_rates: Iterable[float]) -> bool:
    """Def. 13, tested against the primitive combination only (6.1.1)."""
    return rate <= sum(primitive_rates)


def may_partition(rate: float, others: Iterable[tuple[float, int]]) -> bool:
    """Inequality (6), with equality as printed there: `others` are output rates and numbers of bindings."""
    return rate >= sum(one * bindings for one, bindings in others)


def is_beneficial_placement(multi_sink_cost: float, single_sink_cost: float) -> bool:
    """Def. 16, errata applied: at most the cost of the cheapest single-sink placement."""
    return multi_sink_cost <= single_sink_cost


def star_keeps(rate: float, bindings: int, primitive_rates: Iterable[float]) -> bool:
    """aMuSE*: some primitive rate reaches the rate of all bindings together (6.2)."""
    return any(one >= rate * bindings for one in primitive_rates)
