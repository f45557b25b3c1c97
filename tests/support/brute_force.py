"""The referee: every combination of events, one per position, kept if it breaks no rule.

Slow and simple on purpose. It walks the pattern tree itself and shares nothing with the engine but the tree.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from decopa.query.conditions.predicate import Attr, Node, Predicate, aliases_of, compares_neighbours, rewrite
from decopa.query.pattern import (
    ANY_TYPE,
    And,
    EventRef,
    Except,
    Kleene,
    Next,
    Not,
    Pattern,
    Seq,
    children_of,
)
from decopa.query.pattern import leaves as leaves_of
from decopa.query.query import Query
from tests.support.evaluate import Event, holds
from tests.support.fulfilment import Binding, Group, fulfils, is_between_two
from tests.support.pattern_walks import (
    aliases_at,
    everywhere,
    kleene_aliases,
    nesting_of_not,
    or_free,
    outside_not,
    positive_leaves,
    sequences,
)

Match = dict[str, tuple[Any, ...]]

#: The subsets of so many members are quickly made.
_FEW_MEMBERS = 10


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
    """How many combinations the referee has to look at: those of the positions, and those of what may block them."""
    referee = _Referee(query, events)
    absent = [node.child for node in everywhere(query.pattern) if isinstance(node, Not)]
    absent += [node.absent for node in everywhere(query.pattern) if isinstance(node, Except)]
    return sum(
        math.prod(referee.size(leaf) for leaf in positive_leaves(alternative))
        for pattern in (query.pattern, *absent)
        for alternative in or_free(pattern)
    )


class _Referee:
    def __init__(self, query: Query, events: Sequence[Event]) -> None:
        self.where, self.skips, self.window_us = query.where, query.skips, query.window_us
        self.having = query.having
        self.kleene = kleene_aliases(query.pattern)
        #: The aliases of each KL over several events: a condition on them is about one member at a time.
        self.composites = [set(aliases_at(node)) for node in everywhere(query.pattern) if isinstance(node, Kleene)]
        self.stream = sorted(events, key=lambda event: event["ts"])  # stable: ties stay in stream order
        #: What may stand at each leaf that was asked for; what blocks a match is looked for again and again.
        self._choices: dict[EventRef | Kleene, list[Binding]] = {}

    def matches(self, pattern: Pattern, around: Binding) -> Iterator[Binding]:
        """The matches of an OR-free pattern; `around` is the match that a negated pattern may block."""
        leaves = positive_leaves(pattern)
        for parts in itertools.product(*(self.choices(leaf) for leaf in leaves)):
            binding = {alias: group for part in parts for alias, group in part.items()}
            if self.accepts(pattern, binding, around):
                yield binding

    def choices(self, leaf: EventRef | Kleene) -> list[Binding]:
        """What may stand at a leaf, by alias."""
        if leaf not in self._choices:
            if isinstance(leaf, Kleene) and not isinstance(leaf.child, EventRef):
                self._choices[leaf] = list(self.chains(leaf))
            else:
                (alias,) = aliases_at(leaf)
                self._choices[leaf] = [{alias: group} for group in self.groups(leaf)]
        return self._choices[leaf]

    def size(self, leaf: EventRef | Kleene) -> int:
        """How many choices a leaf has; of large groups an upper bound, without making them."""
        if isinstance(leaf, Kleene) and isinstance(leaf.child, EventRef):
            members = sum(of_type(event, leaf.child) for event in self.stream)
            if members > _FEW_MEMBERS:
                return 2**members
        return len(self.choices(leaf))

    def chains(self, leaf: Kleene) -> Iterator[Binding]:
        """Every chain of matches of the pattern under KL, each beginning after the one before has ended."""
        aliases = aliases_at(leaf)
        inside = [one for one in self.where if len(aliases_of(one)) > 1 and aliases_of(one) <= set(aliases)]
        members: list[Binding] = []
        for events in itertools.product(*(self.groups(one) for one in leaves_of(leaf))):
            member = dict(zip(aliases, events, strict=True))
            if (
                len({event["id"] for event in everything(member)}) == len(aliases)
                and all(in_order(sequence, member) for sequence in sequences(leaf.child))
                and all(fulfils(predicate, member, frozenset()) for predicate in inside)
            ):
                members.append(member)

        def longer(chain: tuple[Binding, ...]) -> Iterator[tuple[Binding, ...]]:
            yield chain
            if leaf.most is None or len(chain) < leaf.most:
                for member in members:
                    if last(everything(chain[-1])) < first(everything(member)):
                        yield from longer((*chain, member))

        for start in members:
            for chain in longer((start,)):
                binding = {alias: tuple(member[alias][0] for member in chain) for alias in aliases}
                if len(chain) >= leaf.least and all(self.steps_fit(alias, binding[alias]) for alias in aliases):
                    yield binding

    def groups(self, leaf: EventRef | Kleene) -> list[Group]:
        """What may stand at a leaf: each event of its type or, under KL, each non-empty set of them."""
        if isinstance(leaf, EventRef):
            return [(timed(event, leaf),) for event in self.stream if of_type(event, leaf)]
        members = [event for event in self.stream if of_type(event, leaf.child)]
        most = min(len(members), leaf.most or len(members))
        sizes = range(leaf.least, most + 1)
        if leaf.runs:
            return [run for run in self.runs(leaf.child, members) if len(run) in sizes]
        groups = [group for size in sizes for group in itertools.combinations(members, size)]
        return [group for group in groups if self.steps_fit(leaf.child.alias, group)]

    def runs(self, leaf: EventRef, members: list[Event]) -> Iterator[Group]:
        """Every run: each member the first candidate after the one before it, ties all."""
        relevant = [event for event in members if self.single(leaf.alias, event, self.skips)]

        def extended(run: Group) -> Iterator[Group]:
            yield run
            later = [
                event
                for event in relevant
                if event["ts"] > end_of(run[-1]) and self.step(leaf.alias, run[-1], event, self.skips)
            ]
            for event in later:
                if event["ts"] == min(other["ts"] for other in later) and self.decided(leaf.alias, run[-1], event):
                    yield from extended((*run, event))

        for event in relevant:
            if self.single(leaf.alias, event, self.where):
                yield from extended((event,))

    def decided(self, alias: str, before: Event, event: Event) -> bool:
        return self.single(alias, event, self.where) and self.step(alias, before, event, self.where)

    def steps_fit(self, alias: str, group: Group) -> bool:
        return all(self.step(alias, one, other, self.where) for one, other in itertools.pairwise(group))

    def step(self, alias: str, before: Event, event: Event, conditions: Sequence[Predicate]) -> bool:
        """Whether conditions with PREV hold between two neighbours of a group."""
        about = [one for one in conditions if aliases_of(one) == {alias} and compares_neighbours(one)]
        return all(holds(_of_neighbours(one), {"before": before, "now": event}) for one in about)

    def single(self, alias: str, event: Event, conditions: Sequence[Predicate]) -> bool:
        about = [one for one in conditions if aliases_of(one) == {alias} and not compares_neighbours(one)]
        about = [one for one in about if alias not in self.kleene or not is_between_two(one)]
        return all(holds(one, {alias: event}) for one in about)

    def accepts(self, pattern: Pattern, binding: Binding, around: Binding) -> bool:
        bound = everything(binding)
        return (
            len({event["id"] for event in bound}) == len(bound)
            and last(bound) - first(bound) <= self.window_us
            and all(in_order(sequence, binding) for sequence in sequences(pattern))
            and all(fulfils(predicate, {**around, **binding}, self.kleene) for predicate in self.about(binding, around))
            and all(self.is_next(chain, binding) for chain in sequences(pattern) if isinstance(chain, Next))
            and not any(self.blocked(node, binding) for node in outside_not(pattern))
            and not any(self.excepted(node, binding) for node in exceptions(pattern, binding))
        )

    def is_next(self, chain: Next, binding: Binding) -> bool:
        """Whether each event of a NEXT is the first that could follow: no other candidate ends before it."""
        elements = elements_of(chain)
        for place in range(1, len(elements)):
            leaf = elements[place]
            assert isinstance(leaf, EventRef)
            earlier = {
                alias: binding[alias]
                for part in elements[:place]
                for one in positive_leaves(part)
                for alias in aliases_at(one)
            }
            reached = last(below(elements[place - 1], binding))
            (chosen,) = binding[leaf.alias]
            if not self.may_follow(chain, leaf, chosen, earlier):
                return False
            for event in (timed(one, leaf) for one in self.stream):
                better = (end_of(event), event["ts"]) < (end_of(chosen), chosen["ts"])
                if better and event["ts"] > reached and self.may_follow(chain, leaf, event, earlier):
                    return False
        return True

    def may_follow(self, chain: Next, leaf: EventRef, event: Event, earlier: Binding) -> bool:
        """Whether an event is a candidate for a position: of a type that counts, and not skipped by FILTER."""
        bound = {**earlier, leaf.alias: (event,)}
        return (chain.strict or of_type(event, leaf)) and all(
            fulfils(predicate, bound, self.kleene)
            for predicate in self.skips
            if leaf.alias in aliases_of(predicate) and aliases_of(predicate) <= bound.keys()
        )

    def excepted(self, node: tuple[Pattern, Group, Group], binding: Binding) -> bool:
        """Whether a match of what an EXCEPT forbids lies strictly between two groups of events."""
        absent, before, behind = node
        return any(
            last(before) < first(everything(negated)) and last(everything(negated)) < first(behind)
            for choice in or_free(absent)
            for negated in self.matches(choice, binding)
        )

    def about(self, binding: Binding, around: Binding) -> list[Predicate]:
        """The conditions that name the binding and nothing that is not there."""
        return [
            predicate
            for predicate in (*self.where, *self.skips, *self.having)
            if aliases_of(predicate) & binding.keys()
            and aliases_of(predicate) <= binding.keys() | around.keys()
            and not any(len(aliases_of(predicate)) > 1 and aliases_of(predicate) <= one for one in self.composites)
        ]

    def blocked(self, node: Pattern, binding: Binding) -> bool:
        """Whether a match of some NOT of this SEQ lies in its gap, or one of this AND near the whole match."""
        for place, child in enumerate(node.children if isinstance(node, Seq | Next | And) else ()):
            if isinstance(child, Not):
                ordered = not isinstance(node, And)
                before = neighbour(reversed(children_of(node)[:place]), binding) if ordered else ()
                behind = neighbour(iter(children_of(node)[place + 1 :]), binding) if ordered else ()
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


def _of_neighbours(predicate: Predicate) -> Predicate:
    def change(node: Node) -> Node | None:
        return Attr("before" if node.previous else "now", node.name) if isinstance(node, Attr) else None

    return rewrite(predicate, change)  # type: ignore[return-value]


def timed(event: Event, leaf: EventRef) -> Event:
    """The event as it stands at a leaf: over when its timer is."""
    return {**event, "end": end_of(event) + leaf.delay_us} if leaf.delay_us else event


def of_type(event: Event, leaf: EventRef) -> bool:
    return leaf.type == ANY_TYPE or event["type"] in leaf.types


def elements_of(chain: Next) -> list[Pattern]:
    """What follows each other in a NEXT: its first pattern, then one event at a time."""
    found: list[Pattern] = []
    for child in chain.children:
        inner = child
        while found and isinstance(inner, Except):
            inner = inner.child
        parts = inner.children if found and isinstance(inner, Next) else (inner,)
        found += [part for part in parts if not isinstance(part, Not)]
    return found


def exceptions(pattern: Pattern, binding: Binding) -> Iterator[tuple[Pattern, Group, Group]]:
    """For each EXCEPT: what it forbids, and the events between which it does.

    Alone it looks from the first to the last event of its own part; to the right in a NEXT from the event before.
    """
    inside_next: set[int] = set()
    for chain in outside_not(pattern):
        if isinstance(chain, Next):
            for place, child in enumerate(chain.children):
                node = child
                while place and isinstance(node, Except):
                    inside_next.add(id(node))
                    before = next(one for one in reversed(chain.children[:place]) if not isinstance(one, Not))
                    yield node.absent, below(before, binding), final(node, binding)
                    node = node.child
    for node in outside_not(pattern):
        if isinstance(node, Except) and id(node) not in inside_next:
            events = below(node, binding)
            start = tuple(event for event in events if event["ts"] == first(events))
            yield node.absent, start, final(node, binding)


def final(pattern: Pattern, binding: Binding) -> Group:
    """The events with which a part ends."""
    events = below(pattern, binding)
    return tuple(event for event in events if end_of(event) == last(events))


def everything(binding: Binding) -> Group:
    return tuple(event for group in binding.values() for event in group)


def first(group: Group) -> int:
    return min(int(event["ts"]) for event in group)


def last(group: Group) -> int:
    return max(end_of(event) for event in group)


def end_of(event: Event) -> int:
    """When an event is over: at its `end` if it has one, else at its time."""
    return int(event.get("end", event["ts"]))


def below(pattern: Pattern, binding: Binding) -> Group:
    """The bound events under a child of SEQ."""
    return tuple(event for leaf in positive_leaves(pattern) for alias in aliases_at(leaf) for event in binding[alias])


def neighbour(children: Iterator[Pattern], binding: Binding) -> Group:
    """The events of the nearest child that is not a NOT; empty at an end of SEQ."""
    return next((below(child, binding) for child in children if not isinstance(child, Not)), ())


def in_order(sequence: Seq | Next, binding: Binding) -> bool:
    children = elements_of(sequence) if isinstance(sequence, Next) else sequence.children
    parts = [below(child, binding) for child in children if not isinstance(child, Not)]
    return all(last(earlier) < first(later) for earlier, later in itertools.combinations(parts, 2))
