"""How often the events of a pattern lie within one window and in the right order (5.3.1)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from enum import Enum

from decopa.query.pattern import And, EventRef, Except, Kleene, Next, Not, Pattern, Seq

_ONE_EACH: Mapping[str, float] = {}


class TimeOrder(Enum):
    """Readings of the factor that turns the product of the rates into a number of combinations per window.

    `PAPER`: 1 for SEQ, k for AND with k children. That is the mean number for two events (in order, or up to a window
    apart on either side) and for a flat AND; but a SEQ of n events is found (n-1)! times less often, and the factors of
    nested AND multiply. `COUNTED`: the mean number for events that arrive independently of each other, which is n / n!
    times the number of orders that the pattern allows its n events; a KL is as many of them as its group has members
    (one unless told otherwise), in any order.
    `TOOL`: as PAPER, but a KL counts among the children of an AND, as in the authors' planner; without it
    AND(KL(A), B) has fewer matches than AND(A, B).
    """

    PAPER = "paper"
    TOOL = "tool"
    COUNTED = "counted"


def log_time_factor(pattern: Pattern, reading: TimeOrder, sizes: Mapping[str, float] = _ONE_EACH) -> float:
    """The logarithm of the factor for the events of a pattern outside of NOT; 0 if there are none.

    `sizes` says by alias how many members groups have, where that is counted; a mean size need not be whole.
    """
    if reading is not TimeOrder.COUNTED:
        return _log_and_factor(pattern, with_kleene=reading is TimeOrder.TOOL)
    events, log_orders = _log_orders(pattern, sizes)
    return math.log(events) + log_orders - math.lgamma(events + 1) if events else 0.0


def inside_share(positions: int, windows: float) -> float:
    """Of the combinations that rates per window make of a trace of so many windows: the share that the trace has room
    for, if events come evenly. A combination that begins in the last window may not be complete.

    The range of n moments on a line of `windows` windows is at most one window with probability
    n w^(n-1) - (n-1) w^n for w = 1 / windows.
    """
    if positions < 2:
        return 1.0
    if windows <= 1:
        return windows ** (positions - 1) / positions
    return 1 - (positions - 1) / (positions * windows)


def positive_aliases(pattern: Pattern) -> tuple[list[str], list[str]]:
    """The plain and the Kleene aliases outside of NOT, from left to right."""
    match pattern:
        case EventRef():
            return [pattern.alias], []
        case Kleene():  # of members with several events, the first stands for the group
            first, *others = pattern.aliases
            return others, [first]
        case Not():
            return [], []
        case Except():
            return positive_aliases(pattern.child)
        case _:
            below = [positive_aliases(child) for child in pattern.children]
            plain = itertools.chain.from_iterable(one for one, _ in below)
            return list(plain), list(itertools.chain.from_iterable(other for _, other in below))


def _log_and_factor(pattern: Pattern, *, with_kleene: bool) -> float:
    """The product of k over all AND, where k counts the children that have a plain (or any) event in them."""
    if isinstance(pattern, Except):
        return _log_and_factor(pattern.child, with_kleene=with_kleene)
    if not isinstance(pattern, Seq | And | Next):
        return 0.0
    below = [(child, positive_aliases(child)) for child in pattern.children]
    children = [child for child, (plain, kleene) in below if plain or (with_kleene and kleene)]
    own = math.log(len(children)) if isinstance(pattern, And) and children else 0.0
    return own + sum(_log_and_factor(child, with_kleene=with_kleene) for child in children)


def _log_orders(pattern: Pattern, sizes: Mapping[str, float]) -> tuple[float, float]:
    """The number of events, and of the orders that the pattern allows them."""
    if isinstance(pattern, EventRef):
        return 1, 0.0
    if isinstance(pattern, Kleene):
        members = sizes.get(pattern.aliases[0], 1)
        events, log_orders = _log_orders(pattern.child, sizes)
        return members * events, members * log_orders + math.lgamma(members + 1)
    if isinstance(pattern, Except):
        return _log_orders(pattern.child, sizes)
    if not isinstance(pattern, Seq | And | Next):
        return 0, 0.0
    below = [_log_orders(child, sizes) for child in pattern.children]
    events = sum(count for count, _ in below)
    log_orders = sum(orders for _, orders in below)
    if isinstance(pattern, And):  # the children's events may be mixed in every way
        log_orders += math.lgamma(events + 1) - sum(math.lgamma(count + 1) for count, _ in below)
    return events, log_orders
