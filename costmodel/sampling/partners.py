"""Partner shares: which share of a position's events has at least one partner at another position.

Matches of two types divided by events say how many partners an event has on average. If a few keys have most of the
matches, far fewer events have any than that average suggests, and a reducer sends far less. So the share is counted.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping

import numpy as np

from costmodel.sampling.events import EventColumns, Ints
from decopa.query.conditions.implied import implied_comparisons
from decopa.query.conditions.predicate import Attr, Compare
from decopa.query.query import Query

#: (type of the event, type of its partner) -> share
PartnerShares = Mapping[tuple[str, str], float]


def partner_shares(query: Query, events: EventColumns) -> dict[tuple[str, str], float]:
    """For each two positive positions of an OR-free query that an equality ties, stated or implied: the share of the
    first one's events with a partner within the window, in the right order and with equal keys.

    Other conditions are left out, so that the shares are upper bounds. Of positions of equal types the largest counts.
    """
    found: dict[tuple[str, str], float] = {}
    for one, other, keys in _tied(query):
        types = (query.position(one).label, query.position(other).label)
        share = _share(query, events, one, other, keys)
        found[types] = max(share, found.get(types, 0.0))
    return found


def _tied(query: Query) -> Iterator[tuple[str, str, list[tuple[str, str]]]]:
    """Pairs of positions, in both directions, with the attributes that must be equal."""
    plain = {one.alias for one in query.positions if not one.scope and not one.kleene}
    implied = implied_comparisons(query.where, lambda one, other: {one.alias, other.alias} <= plain)
    keys: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for predicate in itertools.chain(query.where, (one.predicate for one in implied)):
        if isinstance(predicate, Compare) and predicate.op == "=":
            left, right = predicate.left, predicate.right
            if isinstance(left, Attr) and isinstance(right, Attr) and {left.alias, right.alias} <= plain:
                keys.setdefault((left.alias, right.alias), []).append((left.name, right.name))
                keys.setdefault((right.alias, left.alias), []).append((right.name, left.name))
    for (one, other), names in keys.items():
        if one != other:
            yield one, other, names


def _share(query: Query, events: EventColumns, one: str, other: str, keys: list[tuple[str, str]]) -> float:
    rows = [events.rows_of(query.position(alias).label) for alias in (one, other)]
    if not len(rows[0]) or not len(rows[1]):
        return 0.0
    # Keys of both sides as common whole numbers.
    codes = np.zeros(len(rows[0]) + len(rows[1]), dtype=np.int64)
    for mine, theirs in keys:
        values = np.concatenate([events.column(mine)[rows[0]], events.column(theirs)[rows[1]]])
        _, numbers = np.unique(values, return_inverse=True)
        codes = codes * (int(numbers.max()) + 1) + numbers
    mine_ts, their_ts = events.ts[rows[0]], events.ts[rows[1]]
    order = query.order_constraints
    before = (other, one) in order or (one, other) not in order
    after = (one, other) in order or (other, one) not in order
    has = np.zeros(len(rows[0]), dtype=bool)
    window = query.window_us
    both = before and after
    if before:
        has |= _any_between(codes, len(rows[0]), their_ts, mine_ts - window, mine_ts if both else mine_ts - 1)
    if after:
        has |= _any_between(codes, len(rows[0]), their_ts, mine_ts if both else mine_ts + 1, mine_ts + window)
    return float(has.mean())


def _any_between(codes: Ints, mine: int, their_ts: Ints, first: Ints, last: Ints) -> np.ndarray:
    """Whether an event of the other side with the same key lies in [first, last]."""
    places = np.lexsort((their_ts, codes[mine:]))
    keys, times = codes[mine:][places], their_ts[places]
    # Time and key as one increasing number: keys in steps longer than all times.
    low = int(min(times.min(), first.min()))
    step = int(max(times.max(), last.max())) - low + 1
    _, dense = np.unique(np.concatenate([keys, codes[:mine]]), return_inverse=True)
    line = dense[: len(keys)] * step + (times - low)
    begin = np.searchsorted(line, dense[len(keys) :] * step + (first - low), side="left")
    end = np.searchsorted(line, dense[len(keys) :] * step + (last - low), side="right")
    return np.asarray(end > begin)
