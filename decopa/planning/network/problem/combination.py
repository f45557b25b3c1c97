"""Combinations: which projections a projection is built from (MuSE 5.1 and 6.1.2), as bit masks of positions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence


def bits(mask: int) -> Iterator[int]:
    """The places of the ones, lowest first."""
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest


def is_redundant(predecessors: Sequence[int]) -> bool:
    """Def. 15: some predecessor adds no position that the others do not have."""
    for place, one in enumerate(predecessors):
        rest = 0
        for other in (*predecessors[:place], *predecessors[place + 1 :]):
            rest |= other
        if one & ~rest == 0:
            return True
    return False


def accepts_in_order(target: int, predecessors: Iterable[int]) -> bool:
    """Lines 14 to 20 of Algorithm 2 as printed, whose answer depends on the order; planners use `is_redundant`."""
    seen = 0
    for one in predecessors:
        if one & ~seen == 0:
            return False
        seen |= one
    return seen == target


def minimal_covers(target: int, available: Collection[int]) -> Iterator[tuple[int, ...]]:
    """Every non-redundant set of `available` masks, all proper parts of `target`, that covers it (Def. 15).

    There are 7, 48, 461, 6,423, 129,424 and 3,731,507 of them for 3 to 8 positions if every part is available.
    """
    parts = sorted({one for one in available if one != target and one & ~target == 0 and one})
    with_bit = {place: [one for one in parts if one >> place & 1] for place in bits(target)}
    seen: set[tuple[int, ...]] = set()

    def extend(chosen: tuple[int, ...], private: tuple[int, ...], covered: int) -> Iterator[tuple[int, ...]]:
        """`private` holds for each chosen part the positions that no other chosen part has."""
        missing = target & ~covered
        if not missing:
            found = tuple(sorted(chosen))
            if found not in seen:
                seen.add(found)
                yield found
            return
        lowest = (missing & -missing).bit_length() - 1
        for one in with_bit[lowest]:
            kept = tuple(own & ~one for own in private)
            if all(kept):
                yield from extend((*chosen, one), (*kept, one & ~covered), covered | one)

    yield from extend((), (), 0)
