"""Python values as constants of a query: numbers, strings, truth values and durations."""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from decopa.errors import QueryError
from decopa.query.conditions.predicate import Literal
from decopa.query.names import duration_us
from decopa.query.output import Ranking


def literal(value: Any) -> Literal:
    if isinstance(value, timedelta):
        return Literal(microseconds_of(value))
    if isinstance(value, float) and not math.isfinite(value):
        raise QueryError(f"{value} is not a finite number; leave the condition out, or compare with a number")
    if isinstance(value, int) and not -(2**63) < value < 2**63:
        raise QueryError(f"the number {value} does not fit into 64 bits; write it as float({value})")
    if isinstance(value, bool | int | float | str):
        return Literal(value)
    raise QueryError(f"{value!r} is no constant of a query; use a number, a string, True, False or a timedelta")


def window_us(within: Any) -> int:
    if isinstance(within, timedelta):
        return microseconds_of(within)
    if isinstance(within, int) and not isinstance(within, bool):
        return within
    if not isinstance(within, str):
        raise QueryError(f"within={within!r}: give a duration such as '10 min', a timedelta, or whole microseconds")
    microseconds = duration_us(within)
    if microseconds is None:
        raise QueryError(
            f"within={within!r} is no duration, or not a whole number of microseconds; write it as in '10 min'"
        )
    return microseconds


def microseconds_of(duration: timedelta) -> int:
    return duration // timedelta(microseconds=1)


def ranking_of(order_by: str | Iterable[str], limit: int | None) -> Ranking | None:
    """ORDER BY and LIMIT; a minus in front of a column makes it a descending one."""
    names = (order_by,) if isinstance(order_by, str) else tuple(order_by)
    keys = tuple((name.removeprefix("-"), name.startswith("-")) for name in names)
    return Ranking(keys, limit) if keys or limit is not None else None
