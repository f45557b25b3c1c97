"""Nearest misses: candidates that one condition alone rejected, with their values and by how much they failed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from costmodel.sampling.events import Array, EventColumns, Ints
from decopa.query.binding import BoundQuery
from decopa.query.conditions.predicate import Attr, Compare, Expr, Node, Predicate, aliases_of, attributes, rewrite
from decopa.query.conditions.typing import column_of_expression
from decopa.query.conditions.vector import ColumnEvaluator
from decopa.query.names import duration_text
from decopa.query.schema import NULL, Column, Kind
from decopa.runs.why.parts import Miss

Mask = npt.NDArray[np.bool_]
#: Examples for each condition.
_EXAMPLES = 3
#: Candidates among which the nearest are looked for.
_MOST = 200_000


def condition_misses(
    events: EventColumns,
    bound: BoundQuery,
    ids: Sequence[object],
    text: str,
    predicate: Predicate | None,
    rows: Mapping[str, Ints],
    rejected: Mask,
) -> list[Miss]:
    """Candidates that only this condition rejected, the nearest first; without a predicate it is the order."""
    places = np.flatnonzero(rejected)[:_MOST]
    if not len(places):
        return []
    some = {alias: numbers[places] for alias, numbers in rows.items()}
    written = next((one for one in bound.query.where if str(one) == text), None)
    if predicate is None or written is None:
        return _order_misses(events, ids, text, some)
    if not isinstance(written, Compare):
        return [_miss(text, ids, some, at, "does not hold") for at in range(min(_EXAMPLES, len(places)))]
    left, right = (_values(events, bound, side, some) for side in (written.left, written.right))
    missing = _missing(left) | _missing(right)
    if left.dtype.kind not in "if" or right.dtype.kind not in "if" or _is_text(bound, written):
        order = np.arange(len(places))
        failed = [""] * min(_EXAMPLES, len(places))
    else:
        distance = np.where(missing, np.inf, np.abs(left.astype(np.float64) - right.astype(np.float64)))
        order = np.argsort(distance, kind="stable")
        failed = [f", failed by {_number(float(distance[at]))}" for at in order[:_EXAMPLES]]
    found = []
    for at, by in zip(order[:_EXAMPLES].tolist(), failed, strict=False):
        if missing[at]:
            names = ", ".join(dict.fromkeys(str(attr) for attr in attributes(written)))
            detail = f"a value is missing (null) among {names}"
        elif by:
            detail = f"{_number(left[at])} {written.op} {_number(right[at])}{by}"
        else:
            detail = "the values differ" if written.op == "=" else "does not hold"
        found.append(_miss(text, ids, some, at, detail))
    return found


def window_misses(
    events: EventColumns,
    ids: Sequence[object],
    partial: Mapping[str, Ints],
    alias: str,
    partners: Ints,
    low: Ints,
    high: Ints,
    window_us: int,
    fits: Callable[[Mapping[str, Ints], str], Mask],
) -> list[Miss]:
    """Candidates just outside of the window that everything else lets pass: the next event before and behind it."""
    found: list[tuple[int, Miss]] = []
    for neighbour in (low - 1, high):
        there = np.flatnonzero((neighbour >= 0) & (neighbour < len(partners)))[:_MOST]
        if not len(there):
            continue
        rows = {name: numbers[there] for name, numbers in partial.items()}
        rows[alias] = partners[neighbour[there]]
        times = np.array([events.ts[numbers] for numbers in rows.values()])
        excess = times.max(axis=0) - times.min(axis=0) - window_us
        good = np.flatnonzero(fits(rows, alias) & (excess > 0))
        for at in good[np.argsort(excess[good], kind="stable")][:_EXAMPLES].tolist():
            by = int(excess[at])
            found.append((by, _miss("window", ids, rows, at, f"{duration_text(by)} too long for the window")))
    return [miss for _, miss in sorted(found, key=lambda pair: pair[0])[:_EXAMPLES]]


def _order_misses(events: EventColumns, ids: Sequence[object], text: str, rows: Mapping[str, Ints]) -> list[Miss]:
    times = np.array([events.ts[numbers] for numbers in rows.values()])
    spread = times.max(axis=0) - times.min(axis=0)
    found = []
    for at in np.argsort(spread, kind="stable")[:_EXAMPLES].tolist():
        detail = "equal timestamps" if not spread[at] else f"{duration_text(int(spread[at]))} the wrong way round"
        found.append(_miss(text, ids, rows, at, detail))
    return found


def _miss(text: str, ids: Sequence[object], rows: Mapping[str, Ints], at: int, detail: str) -> Miss:
    return Miss(text, {alias: ids[int(numbers[at])] for alias, numbers in rows.items()}, detail)


def _values(events: EventColumns, bound: BoundQuery, expression: Expr, rows: Mapping[str, Ints]) -> Array:
    """The values of one side of a comparison, as floats where that is what is compared."""
    length = len(next(iter(rows.values())))

    def read(name: str) -> Array:
        alias, _, attribute = name.partition(".")
        return np.asarray(events.column(attribute)[rows[alias]])

    def column_of(attr: Attr) -> Column:
        return bound.schema.attributes[attr.name.partition(".")[2]]

    evaluator = ColumnEvaluator(length, read, column_of, events.code_of, events.texts_of)
    return np.broadcast_to(evaluator.values(rewrite(expression, _qualified)), (length,))  # type: ignore[arg-type]


def _qualified(node: Node) -> Node | None:
    """`a.x` as an attribute called 'a.x', since the evaluator knows attributes by name only."""
    return Attr(node.alias, f"{node.alias}.{node.name}") if isinstance(node, Attr) else None


def _missing(values: Array) -> Mask:
    return np.asarray(np.isnan(values) if values.dtype.kind == "f" else values == NULL)


def _is_text(bound: BoundQuery, predicate: Compare) -> bool:
    column = column_of_expression(predicate.left, lambda attr: bound.schema.attributes[attr.name])
    return column.kind in (Kind.STRING, Kind.BOOL) and bool(aliases_of(predicate))


def _number(value: float) -> str:
    return f"{value:.6g}" if isinstance(value, float | np.floating) else str(value)
