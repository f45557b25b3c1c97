"""Partial matches that timed out, as queries of their own.

A partial match of SEQ(A a, B b, C c) has timed out after b if no C that fits comes within its window: it is a match of
SEQ(A a, B b, NOT(C c)). Of a NEXT it is enough that a candidate comes, one that FILTER lets pass: what decides about it
then ends the match, which has not timed out. So every plan that finds matches finds these, too, and exactly.
"""

from __future__ import annotations

from dataclasses import replace

from decopa.errors import QueryError
from decopa.query.conditions.predicate import Predicate, aliases_of
from decopa.query.output import needed_attributes
from decopa.query.pattern import ANY_TYPE, EventRef, Kleene, Next, Not, Pattern, Seq, leaves
from decopa.query.query import Query


def timed_out(query: Query) -> tuple[Query, ...]:
    """A query for each event, after the first pattern, that a partial match may wait for in vain; called `name without
    alias`."""
    pattern = query.pattern
    if not isinstance(pattern, Seq | Next) or len(pattern.children) < 2:
        raise QueryError(f"{pattern}: partial matches are those of a SEQ or NEXT; write it as in SEQ(A a, B b)")
    if any(isinstance(child, Not) for child in pattern.children) or len(query.branches) > 1:
        raise QueryError(
            f"{pattern}: which partial matches a NOT or an OR leaves open cannot be told one by one; ask for them with "
            "a query of their own, as in SEQ(A a, NOT(B b))"
        )
    if query.having:
        raise QueryError(f"'{query.having[0]}': a group that has not come has no figures; leave the condition out")
    return tuple(_after(query, pattern, place) for place in range(1, len(pattern.children)))


def _after(query: Query, pattern: Seq | Next, place: int) -> Query:
    """What has come before the child at `place`, and waits for it in vain."""
    before, awaited = pattern.children[:place], pattern.children[place]
    bound = frozenset(leaf.alias for child in before for leaf in leaves(child))
    named = frozenset(leaf.alias for leaf in leaves(awaited))
    first = before[0] if len(before) == 1 else replace(pattern, children=before)
    if isinstance(pattern, Next) and pattern.strict:
        awaited = EventRef(ANY_TYPE, min(named))
    blocking = query.skips if isinstance(pattern, Next) else query.where
    where = [one for one in query.where if aliases_of(one) <= bound]
    where += [one for one in blocking if _about(one, bound, named)]
    skips = tuple(one for one in query.skips if aliases_of(one) <= bound)
    single = {alias for alias in bound if len(bound) == 1 and not _is_run(before[0])}
    where += [one for one in skips if aliases_of(one) <= single]  # FILTER on an event that nothing follows filters it
    output = tuple(one for one in query.output if aliases_of(one.expr) <= bound)
    returns = tuple(attr for attr in query.returns if attr.alias in bound)
    return Query(
        pattern=_ending(first, Not(awaited)),
        where=tuple(where),
        window_us=query.window_us,
        name=f"{query.name} without {min(named)}",
        returns=needed_attributes(output) if query.output else returns,
        skips=tuple(one for one in skips if not aliases_of(one) <= single),
        output=output,
    )


def _about(condition: Predicate, bound: frozenset[str], named: frozenset[str]) -> bool:
    """Whether a condition says which of the awaited events would have continued what is there."""
    return bool(aliases_of(condition) & named) and aliases_of(condition) <= bound | named


def _ending(first: Pattern, absent: Not) -> Seq:
    return Seq((*first.children, absent)) if isinstance(first, Seq) else Seq((first, absent))


def _is_run(pattern: Pattern) -> bool:
    return isinstance(pattern, Kleene) and pattern.runs
