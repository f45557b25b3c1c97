"""PARTITION BY k: all events of a match agree in k, and NEXT and ITER look at events of the same k only."""

from __future__ import annotations

from dataclasses import replace

from decopa.query.analysis import Structure, alternatives, structure
from decopa.query.conditions.predicate import Attr, Compare, Location, Predicate
from decopa.query.query import Query


def with_partition(query: Query, attribute: str, at: Location | None = None) -> Query:
    """The query within each value of an attribute: equalities in FILTER where candidates are chosen, else in WHERE.

    `at` is where the text names the attribute.
    """
    skips: dict[Predicate, None] = {}
    where: dict[Predicate, None] = {}
    for alternative in alternatives(query.pattern):
        for condition, skipping in _equalities(structure(alternative), attribute, at):
            (skips if skipping else where)[condition] = None
    return replace(query, skips=(*query.skips, *skips), where=(*query.where, *where))


def _equalities(found: Structure, attribute: str, at: Location | None) -> list[tuple[Predicate, bool]]:
    """(condition, whether it belongs into FILTER) for an OR-free pattern."""
    conditions: list[tuple[Predicate, bool]] = []
    before: dict[str, str] = {}
    for chain in found.chains:
        reached = next(one.alias for one in found.positions if one.alias in chain.head)
        for alias in chain.positions:
            before[alias] = reached
            reached = alias
    first = next(one for one in found.positions if not one.scope)
    for position in found.positions:
        own = Attr(position.alias, attribute, at)
        if position.runs:
            conditions.append((Compare("=", own, replace(own, previous=True)), True))
        elif position.kleene:
            conditions.append((Compare("=", own, own), False))
        if position.alias in before:
            conditions.append((Compare("=", own, Attr(before[position.alias], attribute, at)), True))
        elif position is not first:
            conditions.append((Compare("=", own, Attr(first.alias, attribute, at)), False))
    return conditions
