"""Conditions that never hold: a comparison of a value with itself, or a range without values."""

from __future__ import annotations

from collections.abc import Iterator

from decopa.query.predicate import Compare, Expr, Literal, aliases_of
from decopa.query.query import Query


def impossible_conditions(query: Query) -> Iterator[str]:
    """A line for each condition that no event fulfils, so that the query has no match."""
    limits: dict[Expr, list[Compare]] = {}
    for predicate in query.conditions:
        if not isinstance(predicate, Compare):
            continue
        alone = not any(alias in query.kleene_aliases for alias in aliases_of(predicate))
        if predicate.left == predicate.right and predicate.op in ("<", ">", "!=") and alone:
            yield f"'{predicate}' compares a value with itself and never holds, so the query has no match"
        if isinstance(predicate.right, Literal) and isinstance(predicate.right.value, int | float):
            limits.setdefault(predicate.left, []).append(predicate)
    for value, bounds in limits.items():
        lows = [(float(one.right.value), one) for one in bounds if one.op in (">", ">=", "=")]  # type: ignore[union-attr]
        highs = [(float(one.right.value), one) for one in bounds if one.op in ("<", "<=", "=")]  # type: ignore[union-attr]
        if lows and highs:
            (low, least), (high, most) = max(lows, key=lambda one: one[0]), min(highs, key=lambda one: one[0])
            open_end = "=" not in least.op or "=" not in most.op
            if low > high or (low == high and open_end):
                yield f"no value of {value} fulfils both '{least}' and '{most}', so the query has no match"
