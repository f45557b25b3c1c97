"""Pairs of events that can meet in a match, drawn at random, and which of them fulfil conditions."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum

import numpy as np
import numpy.typing as npt

from costmodel.sampling.events import Array, EventColumns, Ints
from decopa.query.conditions.predicate import Attr, Node, Predicate, rewrite
from decopa.query.conditions.vector import ColumnEvaluator
from decopa.query.schema import Column

Mask = npt.NDArray[np.bool_]


class Relation(Enum):
    """Which pairs can meet: the first strictly before the second (SEQ), in any order (AND), or two members of one KL
    group, of which the earlier is the first.
    """

    BEFORE = "before"
    ANY = "any"
    MEMBERS = "members"


@dataclass(frozen=True, slots=True)
class MeetingPairs:
    """Pairs by the numbers of their events; `complete` if these are all the pairs that there are."""

    first: Ints
    second: Ints
    complete: bool

    def __len__(self) -> int:
        return len(self.first)


def meeting_pairs(
    ts: Ints, first: Ints, second: Ints, window_us: int, relation: Relation, most: int, rng: np.random.Generator
) -> MeetingPairs:
    """Pairs of a `first` and a `second` event at most a window apart: all, or `most` drawn evenly if there are more.

    `first` and `second` are ascending numbers of events, which are in time order. No event is paired with itself.
    """
    reach_us = min(window_us, int(ts[-1] - ts[0])) if len(ts) else 0  # keeps sums of times within 64 bits
    times, partners = ts[first], ts[second]
    high = np.searchsorted(partners, times + reach_us, side="right")
    match relation:
        case Relation.BEFORE:
            low = np.searchsorted(partners, times, side="right")
        case Relation.ANY:
            low = np.searchsorted(partners, times - reach_us, side="left")
        case Relation.MEMBERS:
            low = np.arange(1, len(second) + 1)
    counts = np.maximum(high - low, 0)
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    chosen = np.arange(total) if total <= most else rng.integers(0, total, most)
    owner = np.searchsorted(ends, chosen, side="right")
    partner = low[owner] + chosen - (ends[owner] - counts[owner])
    one, other = first[owner], second[partner]
    distinct = one != other
    return MeetingPairs(one[distinct], other[distinct], total <= most)


def fulfilling(events: EventColumns, conditions: Collection[Predicate], rows: Mapping[str, Ints]) -> Mask:
    """Which combinations of events fulfil all conditions; `rows` has the events' numbers for each alias in them."""
    length = len(next(iter(rows.values())))

    def read(name: str) -> Array:
        alias, _, attribute = name.partition(".")
        return np.asarray(events.column(attribute)[rows[alias]])

    def column_of(attr: Attr) -> Column:
        return kinds[attr.name.partition(".")[2]]

    kinds = events.schema.attributes
    evaluator = ColumnEvaluator(length, read, column_of, events.code_of, events.texts_of)
    fulfilled = np.ones(length, dtype=np.bool_)
    for condition in conditions:
        fulfilled &= evaluator.mask(rewrite(condition, _qualified))  # type: ignore[arg-type]
    return fulfilled


def _qualified(node: Node) -> Node | None:
    """`a.x` as an attribute called 'a.x', since the evaluator knows attributes by name only."""
    return Attr(node.alias, f"{node.alias}.{node.name}") if isinstance(node, Attr) else None
