"""Roles: what an operator does with its inputs, decided here once and kept as data beside the plan.

Planners ask for the roles of a step, the engine for those of a plan's operator. Nobody else compares closed aliases or
scopes to find out which input is which.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from decopa.planning.hash_keys import join_key
from decopa.planning.subquery import SubQuery
from decopa.planning.succession import Succession, hash_key, succession_of
from decopa.query.analysis import Negation
from decopa.query.conditions.predicate import Attr
from decopa.query.query import Query

#: Stands for "both inputs" where the side to deal out is named: a NEXT with a key hashes both.
BOTH = 2


class Rule(Enum):
    """How an operator makes its matches out of its inputs."""

    LEAF = "leaf"
    JOIN = "join"
    KLEENE_UNARY = "kleene-unary"
    KLEENE_BINARY = "kleene-binary"
    NEGATION = "negation"
    VIEW = "view"
    NEXT = "next"


@dataclass(frozen=True, slots=True)
class Roles:
    """The rule of an operator and the parts that its inputs play; sides are places in its list of inputs.

    `main` is the side that its matches grow out of: the strip matches of a unary Kleene split, the rest of the pattern
    of a binary one, the positive part of a negation, the left side of a join, what comes first in a NEXT. `formed`
    names the KL positions whose groups it forms; a valid Kleene split forms one, or all those of one group. `negation`
    is the NOT that a negation decides, `succession` how the inputs of a NEXT follow each other, and `keys` the
    attributes by which both inputs can be hashed: those that FILTER of a NEXT requires to be equal, or, where the plan
    deals out both inputs of another operator, a condition.

    `dealt` is the side whose matches are dealt out among its units, None if all are broadcast. Then every unit would
    find the same matches, so `active_units` is 1 whatever the plan gives it.
    """

    rule: Rule
    main: int = 0
    formed: frozenset[str] = frozenset()
    negation: Negation | None = None
    dealt: int | None = None
    active_units: int = 1
    succession: Succession | None = None
    keys: tuple[Attr, Attr] | None = None

    @property
    def other(self) -> int:
        """The side that is not `main`: the right side, the events of the KL position, the negated part."""
        return 1 - self.main

    @property
    def may_deal(self) -> tuple[int, ...]:
        """The sides that units may share (Def. 5): either of a join, else `main` only; with a key BOTH, and of a NEXT
        with a key nothing else."""
        if self.rule in (Rule.LEAF, Rule.VIEW):
            return ()
        if self.rule is Rule.NEXT and self.keys is not None:
            return (BOTH,)
        either = (0, 1) if self.rule is Rule.JOIN else (self.main,)
        return either if self.keys is None else (*either, BOTH)

    @property
    def hashed(self) -> tuple[str, str] | None:
        """The columns by which the inputs are hashed, if both are dealt out; else None."""
        if self.keys is None or self.dealt != BOTH:
            return None
        one, other = (f"{attr.alias}.{attr.name}" for attr in self.keys)
        return one, other

    def receivers(self, side: int) -> int:
        """How many units get each match of an input: one if it is dealt out, else all that work."""
        return 1 if self.dealt in (side, BOTH) else self.active_units

    def strip(self, sub_query: SubQuery) -> SubQuery:
        """The sub-query of a Kleene split before its groups are formed (strip of 4.1)."""
        return SubQuery(sub_query.aliases, sub_query.closed - self.formed)


def roles_of(
    query: Query, sub_query: SubQuery, inputs: Sequence[SubQuery], *, partitioned: Sequence[bool] = (), units: int = 1
) -> Roles:
    """The roles of an operator that matches `sub_query` from `inputs` on `units` units.

    `partitioned` says of each input whether its matches are dealt out; planners that have not decided leave it out.
    """
    dealt = next((side for side, flag in enumerate(partitioned) if flag), None)
    active = units if dealt is not None else 1
    if not inputs:
        return Roles(Rule.LEAF)
    formed = sub_query.closed.difference(*(one.closed for one in inputs))
    if len(inputs) == 1:
        return Roles(Rule.KLEENE_UNARY, 0, formed, None, dealt, active)
    if formed:
        rest = 0 if min(formed) not in inputs[0].aliases else 1
        return Roles(Rule.KLEENE_BINARY, rest, formed, None, dealt, active)
    keys = None
    if len(partitioned) == 2 and all(partitioned):
        dealt, keys = BOTH, join_key(query, inputs[0], inputs[1])
    depths = [len(one.scope(query)) for one in inputs]
    if len({one.scope(query) for one in inputs}) == 1:
        step = succession_of(query, inputs)
        if step is None:
            return Roles(Rule.JOIN, 0, formed, None, dealt, active, None, keys)
        key = hash_key(query, inputs[step.left], step)
        keys = key if key is None or step.left == 0 else (key[1], key[0])
        return Roles(Rule.NEXT, step.left, formed, None, dealt, active, step, keys)
    positive = depths.index(min(depths))
    decided = [one for one in sub_query.negations(query) if not one.aliases & inputs[positive].aliases]
    return Roles(Rule.NEGATION, positive, formed, decided[0] if len(decided) == 1 else None, dealt, active, None, keys)
