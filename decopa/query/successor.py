"""Time in the sense of the NEXT paper (3.1, 3.2): intervals, sequences of timestamps and immediate successors.

An event is a pair (start, end); a composite keeps the timestamps of all of its events, in order. The engine needs of
this only (end, start), since composites of one chain have equally many timestamps; here is the whole of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Timestamps = tuple[int, ...]


def before(one: Sequence[int], other: Sequence[int]) -> bool:
    """Whether one is over when the other begins: strictly, without overlap."""
    return max(one) < min(other)


def precedes(one: Sequence[int], other: Sequence[int]) -> bool:
    """The order in which successors are looked for: from the last timestamp backwards; if one sequence is the end of
    the other, the longer one comes first."""
    for mine, theirs in zip(reversed(one), reversed(other), strict=False):
        if mine != theirs:
            return mine < theirs
    return len(one) > len(other)


def stream_order(events: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Events as a stream delivers them: by end, then by start."""
    return sorted(events, key=lambda event: (event[1], event[0]))


def successors(event: Sequence[int], candidates: Iterable[Sequence[int]]) -> list[Timestamps]:
    """SUCC: the candidates after an event than which no other one after it is smaller; several if they are equal."""
    later = [tuple(one) for one in candidates if before(event, one)]
    return [one for one in later if not any(precedes(other, one) for other in later)]


def chained(first: Iterable[Sequence[int]], second: Sequence[Sequence[int]]) -> list[Timestamps]:
    """The composites of `first;second`."""
    return [(*one, *following) for one in first for following in successors(one, second)]
