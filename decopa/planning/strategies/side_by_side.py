"""Side by side: every unit runs all operators of a split, on its share of the events.

Rows of one input are dealt out at the bottom, and what is found with them stays on the unit that found it: no partial
match travels from unit to unit. Other events are broadcast, or dealt out by the same key where conditions require one.
"""

from __future__ import annotations

from decopa.planning.hash_keys import are_equal, join_key
from decopa.planning.roles import BOTH, Rule
from decopa.planning.split import Split, SplitSpace, Step
from decopa.planning.subquery import SubQuery
from decopa.query.conditions.predicate import Attr


def staying_sides(space: SplitSpace, split: Split) -> tuple[int, ...] | None:
    """The input that each step deals out (or BOTH) such that all matches stay where they are found; None if the split
    has no such choice.

    It has one if each sub-query is matched once, and no step needs the matches of two others unless a key says which
    of them meet. The closure of a group needs all of its rows, whoever found them, so it has none.
    """
    steps = {step.sub_query: step for step in split}
    used = [one for step in split for one in step.inputs]
    if not split or len(set(used)) < len(used):
        return None
    sides: dict[SubQuery, int] = {}
    keys: dict[SubQuery, Attr] = {}  # what the matches of a step were dealt out by
    for step in sorted(split, key=lambda one: one.sort_key):
        side = _staying_side(space, step, [one in steps for one in step.inputs], keys)
        if side is None:
            return None
        sides[step.sub_query] = side
        if side == BOTH:
            key = _key(space, step)
            assert key is not None
            keys[step.sub_query] = key[0]
    return tuple(sides[step.sub_query] for step in split)


def _staying_side(space: SplitSpace, step: Step, found: list[bool], keys: dict[SubQuery, Attr]) -> int | None:
    """The input to deal out; `found` says which of them are matches of other steps rather than events."""
    roles = space.roles(step)
    if roles.rule is Rule.KLEENE_UNARY:
        return None
    if _lies_by_key(space, step, found, keys):
        return BOTH
    if all(found) or roles.may_deal == (BOTH,):  # two parts, of which one would have to be broadcast
        return None
    if not any(found):
        return space.preferred(step)
    side = found.index(True)
    return side if side in roles.may_deal else None


def _lies_by_key(space: SplitSpace, step: Step, found: list[bool], keys: dict[SubQuery, Attr]) -> bool:
    """Whether both inputs can be dealt out by a key, and those that were found by other steps are so already."""
    key = _key(space, step)
    if key is None:
        return False
    return all(
        not stays or (one in keys and are_equal(space.query, one, keys[one], attr))
        for one, attr, stays in zip(step.inputs, key, found, strict=True)
    )


def _key(space: SplitSpace, step: Step) -> tuple[Attr, Attr] | None:
    roles = space.roles(step)
    if roles.rule is Rule.NEXT:
        return roles.keys
    return join_key(space.query, *step.inputs) if roles.rule in (Rule.JOIN, Rule.NEGATION) else None
