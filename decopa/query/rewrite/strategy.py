"""STRATEGY: a SEQ read as skip-till-any-match, as the next match, or as contiguous events, in terms of NEXT and FILTER.

| clause | pattern | conditions on a later event |
| --- | --- | --- |
| any (default) | SEQ as it stands | decide |
| next | NEXT | skip: all become FILTER |
| contiguous | STRICT | decide |
| contiguous BY k | STRICT | equality of k with the event before skips, the others decide |
"""

from __future__ import annotations

import itertools
from dataclasses import replace

from decopa.errors import QueryError
from decopa.query.conditions.predicate import Attr, Compare, Location, Predicate, aliases_of
from decopa.query.pattern import EventRef, Next, Not, Seq
from decopa.query.query import Query

STRATEGIES = ("any", "next", "contiguous")


def with_strategy(query: Query, strategy: str, by: str | None = None, at: Location | None = None) -> Query:
    """The query whose SEQ is read by a selection strategy; `at` is where the text names `by`.

    >>> from decopa.language.text.parser import parse
    >>> print(with_strategy(parse("PATTERN SEQ(A a, B b) WHERE b.x > a.x WITHIN 1 s"), "next"))
    QUERY q
    PATTERN NEXT(A a, B b)
    WHERE FILTER(b.x > a.x)
    WITHIN 1 s
    """
    if strategy not in STRATEGIES:
        raise QueryError(f"unknown strategy '{strategy}'; use one of {', '.join(STRATEGIES)}")
    if by is not None and strategy != "contiguous":
        raise QueryError(f"BY {by} says which events must be contiguous; write STRATEGY contiguous BY {by}")
    if strategy == "any":
        return query
    pattern = query.pattern
    if not isinstance(pattern, Seq) or not all(isinstance(child, EventRef | Not) for child in pattern.children[1:]):
        raise QueryError(
            f"STRATEGY {strategy} reads a SEQ of single events, found {pattern}; write PATTERN SEQ(A a, B b), "
            "or NEXT and FILTER for the part that is meant"
        )
    chain = Next(pattern.children, strict=strategy == "contiguous")
    if strategy == "next":
        followers = {child.alias for child in chain.children[1:] if isinstance(child, EventRef)}
        skips = tuple(one for one in query.where if _chooses(one, followers, query.negated_aliases))
        where = tuple(one for one in query.where if one not in skips)
        return replace(query, pattern=chain, where=where, skips=(*query.skips, *skips))
    return replace(query, pattern=chain, skips=(*query.skips, *_contiguous_by(chain, by, at)))


def _chooses(condition: Predicate, followers: set[str], negated: frozenset[str]) -> bool:
    """Whether the condition is on an event that follows, so that it can be skipped."""
    named = aliases_of(condition)
    return bool(named & followers) and not named & negated


def _contiguous_by(chain: Next, by: str | None, at: Location | None) -> tuple[Predicate, ...]:
    """Equality of `by` between each event and the one before it."""
    if by is None:
        return ()
    if not isinstance(chain.children[0], EventRef):
        raise QueryError(f"BY {by} compares single events; the first pattern of the SEQ is {chain.children[0]}")
    aliases = [child.alias for child in chain.children if isinstance(child, EventRef)]
    pairs = itertools.pairwise(aliases)
    return tuple(Compare("=", Attr(later, by, at), Attr(earlier, by, at)) for earlier, later in pairs)
