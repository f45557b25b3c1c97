"""The referee: every combination of events, one per position, kept if it breaks no rule.

Slow and simple on purpose. It walks the pattern tree itself and shares nothing with the engine but the tree.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from decopa.query.pattern import And, EventRef, Kleene, Not, Or, Pattern, Seq
from decopa.query.predicate import (
    Arithmetic,
    Attr,
    Call,
    Compare,
    Expr,
    Literal,
    Negative,
    Node,
    Predicate,
    aliases_of,
    children,
)
from decopa.query.query import Query
from tests.support.evaluate import Event, compare, holds, value_of

Group = tuple[Event, ...]
Binding = dict[str, Group]
Match = dict[str, tuple[Any, ...]]


def brute_force(query: Query, events: Sequence[Event]) -> list[Match]:
    """All matches, sorted: alias -> ids of the events bound to it, ascending in time, ties in stream order."""
    referee = _Referee(query, events)
    found = {
        canonical({alias: tuple(event["id"] for event in group) for alias, group in binding.items()})
        for alternative in or_free(query.pattern)
        for binding in referee.matches(alternative, {})
    }
    return [dict(match) for match in sorted(found)]


def brute_force_by_window(query: Query, events: Sequence[Event]) -> list[Match]:
    """The same for streams much longer than the window: looks at the surroundings of one moment at a time."""
    found: set[Any] = set()
    for ts, near in surroundings(query, events):
        starting_here = {event["id"] for event in near if event["ts"] == ts}
        too_early = {event["id"] for event in near if event["ts"] < ts}
        for match in brute_force(query, near):
            bound = {event_id for group in match.values() for event_id in group}
            if bound & starting_here and not bound & too_early:
                found.add(canonical(match))
    return [dict(match) for match in sorted(found)]


def surroundings(query: Query, events: Sequence[Event]) -> Iterator[tuple[int, list[Event]]]:
    """For each moment of the stream, all events that matter for the matches that start then.

    What blocks a match lies within one window of it, and what lifts that block within one more.
    """
    reach_us = query.window_us * nesting_of_not(query.pattern)
    for ts in sorted({event["ts"] for event in events}):
        yield ts, [event for event in events if ts - reach_us <= event["ts"] <= ts + query.window_us + reach_us]


def canonical(match: Mapping[str, Sequence[Any]]) -> tuple[tuple[str, tuple[Any, ...]], ...]:
    """Equal for equal matches, and sortable."""
    return tuple((alias, tuple(match[alias])) for alias in sorted(match))


def combinations(query: Query, events: Sequence[Event]) -> int:
    """How many combinations the referee has to look at, blocking ones not counted."""
    referee = _Referee(query, events)
    return sum(
        math.prod(len(referee.groups(leaf)) for leaf in positive_leaves(alternative))
        for alternative in or_free(query.pattern)
    )


# -------------------------------------------------------------------- pattern
def or_free(pattern: Pattern) -> list[Pattern]:
    """The pattern with a choice made in each OR outside NOT; what NOT contains stays whole."""
    match pattern:
        case Or():
            return [choice for child in pattern.children for choice in or_free(child)]
        case Seq() | And():
            chosen = itertools.product(*(or_free(child) for child in pattern.children))
            return [type(pattern)(children) for children in chosen]
        case _:
            return [pattern]


def positive_leaves(pattern: Pattern) -> list[EventRef | Kleene]:
    """The leaves outside NOT, from left to right."""
    match pattern:
        case EventRef() | Kleene():
            return [pattern]
        case Not():
            return []
        case _:
            return [leaf for child in pattern.children for leaf in positive_leaves(child)]


def alias_of(leaf: EventRef | Kleene) -> str:
    return leaf.child.alias if isinstance(leaf, Kleene) else leaf.alias


def kleene_aliases(pattern: Pattern) -> frozenset[str]:
    """The aliases under KL, inside and outside NOT."""
    match pattern:
        case Kleene():
            return frozenset({pattern.child.alias})
        case EventRef():
            return frozenset()
        case Not():
            return kleene_aliases(pattern.child)
        case _:
            return frozenset().union(*(kleene_aliases(child) for child in pattern.children))


def nesting_of_not(pattern: Pattern) -> int:
    """How many NOTs lie inside each other at most."""
    match pattern:
        case EventRef() | Kleene():
            return 0
        case Not():
            return 1 + nesting_of_not(pattern.child)
        case _:
            return max(nesting_of_not(child) for child in pattern.children)


def sequences(pattern: Pattern) -> Iterator[Seq]:
    """Every SEQ of the pattern outside NOT."""
    if isinstance(pattern, Seq):
        yield pattern
    if isinstance(pattern, Seq | And):
        for child in pattern.children:
            yield from sequences(child)


# ------------------------------------------------------------------- matching
class _Referee:
    def __init__(self, query: Query, events: Sequence[Event]) -> None:
        self.where, self.window_us = query.where, query.window_us
        self.kleene = kleene_aliases(query.pattern)
        self.stream = sorted(events, key=lambda event: event["ts"])  # stable: ties stay in stream order

    def matches(self, pattern: Pattern, around: Binding) -> Iterator[Binding]:
        """The matches of an OR-free pattern; `around` is the match that a negated pattern may block."""
        leaves = positive_leaves(pattern)
        for groups in itertools.product(*(self.groups(leaf) for leaf in leaves)):
            binding = {alias_of(leaf): group for leaf, group in zip(leaves, groups, strict=True)}
            if self.accepts(pattern, binding, around):
                yield binding

    def groups(self, leaf: EventRef | Kleene) -> list[Group]:
        """What may stand at a leaf: each event of its type or, under KL, each non-empty set of them."""
        if isinstance(leaf, EventRef):
            return [(event,) for event in self.stream if event["type"] == leaf.type]
        members = [event for event in self.stream if event["type"] == leaf.child.type]
        return [group for size in range(1, len(members) + 1) for group in itertools.combinations(members, size)]

    def accepts(self, pattern: Pattern, binding: Binding, around: Binding) -> bool:
        bound = everything(binding)
        return (
            len({id(event) for event in bound}) == len(bound)
            and last(bound) - first(bound) <= self.window_us
            and all(in_order(sequence, binding) for sequence in sequences(pattern))
            and all(fulfils(predicate, {**around, **binding}, self.kleene) for predicate in self.about(binding, around))
            and not any(self.blocked(sequence, binding) for sequence in sequences(pattern))
        )

    def about(self, binding: Binding, around: Binding) -> list[Predicate]:
        """The conditions that name the binding and nothing that is not there."""
        return [
            predicate
            for predicate in self.where
            if aliases_of(predicate) & binding.keys() and aliases_of(predicate) <= binding.keys() | around.keys()
        ]

    def blocked(self, sequence: Seq, binding: Binding) -> bool:
        """Whether a match of some NOT of this SEQ lies in its gap."""
        for place, child in enumerate(sequence.children):
            if isinstance(child, Not):
                before = neighbour(reversed(sequence.children[:place]), binding)
                behind = neighbour(iter(sequence.children[place + 1 :]), binding)
                for choice in or_free(child.child):
                    for negated in self.matches(choice, binding):
                        if self.in_gap(everything(negated), before, behind, everything(binding)):
                            return True
        return False

    def in_gap(self, negated: Group, before: Group, behind: Group, whole: Group) -> bool:
        """Strictly between the neighbours; where there is none, within one window of the whole match."""
        after_start = last(before) < first(negated) if before else last(whole) - first(negated) <= self.window_us
        before_end = last(negated) < first(behind) if behind else last(negated) - first(whole) <= self.window_us
        return after_start and before_end


def everything(binding: Binding) -> Group:
    return tuple(event for group in binding.values() for event in group)


def first(group: Group) -> int:
    return min(int(event["ts"]) for event in group)


def last(group: Group) -> int:
    return max(int(event["ts"]) for event in group)


def below(pattern: Pattern, binding: Binding) -> Group:
    """The bound events under a child of SEQ."""
    return tuple(event for leaf in positive_leaves(pattern) for event in binding[alias_of(leaf)])


def neighbour(children: Iterator[Pattern], binding: Binding) -> Group:
    """The events of the nearest child that is not a NOT; empty at an end of SEQ."""
    return next((below(child, binding) for child in children if not isinstance(child, Not)), ())


def in_order(sequence: Seq, binding: Binding) -> bool:
    parts = [below(child, binding) for child in sequence.children if not isinstance(child, Not)]
    return all(last(earlier) < first(later) for earlier, later in itertools.combinations(parts, 2))


def fulfils(predicate: Predicate, binding: Binding, kleene: frozenset[str]) -> bool:
    """Whether the condition holds for every choice of one member per alias.

    One that compares a KL alias with itself holds for every two members, the earlier one first.
    """
    named = sorted(aliases_of(predicate))
    if isinstance(predicate, Compare) and len(named) == 1 and named[0] in kleene:
        (alias,) = named
        both_sides = bool(aliases_of(predicate.left) and aliases_of(predicate.right))
        if both_sides or has_twin(predicate):
            return all(
                holds_between(predicate, {alias: earlier}, {alias: later})
                for earlier, later in itertools.combinations(binding[alias], 2)
            )
    choices = itertools.product(*(binding[alias] for alias in named))
    return all(holds(predicate, dict(zip(named, choice, strict=True))) for choice in choices)


def is_twin(node: Node) -> bool:
    """`x - x`, `x / x` and `dist_km(p, p)` are about two members of a group: for one they say nothing."""
    match node:
        case Arithmetic(op="-" | "/"):
            return node.left == node.right and bool(aliases_of(node.left))
        case Call(function="dist_km"):
            return node.arguments[:2] == node.arguments[2:] and bool(aliases_of(node.arguments[0]))
    return False


def has_twin(node: Node) -> bool:
    return is_twin(node) or any(map(has_twin, children(node)))


def holds_between(predicate: Compare, earlier: Mapping[str, Event], later: Mapping[str, Event]) -> bool:
    if not has_twin(predicate):
        return compare(predicate.op, value_of(predicate.left, earlier), value_of(predicate.right, later))
    left, right = (value_of(with_values(side, earlier, later), {}) for side in (predicate.left, predicate.right))
    return compare(predicate.op, left, right)


def with_values(node: Expr, earlier: Mapping[str, Event], later: Mapping[str, Event]) -> Expr:
    """The expression with each mention replaced by a value: in a twin the first half is the earlier member's."""
    if isinstance(node, Attr):
        return Literal(value_of(node, earlier))  # type: ignore[arg-type]
    below = list(children(node))
    owners = [earlier] * len(below)
    if is_twin(node):
        owners[len(below) // 2 :] = [later] * (len(below) - len(below) // 2)
    done = tuple(with_values(child, owner, owner if is_twin(node) else later)
                 for child, owner in zip(below, owners, strict=True))  # type: ignore[arg-type]  # fmt: skip
    match node:
        case Arithmetic():
            return Arithmetic(node.op, *done)
        case Call():
            return Call(node.function, done)
        case Negative():
            return Negative(*done)
    return node
