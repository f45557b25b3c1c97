"""NEXT in plans: which input of an operator comes first, which steps are exact, and by which key both can be hashed.

The reading is left to right: each event is chosen among the candidates that come after the events before it. Conditions
that decide are thus filters on chosen events, and every exact way to match a chain chooses the same events.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from decopa.planning.hash_keys import equal_attributes
from decopa.planning.subquery import SubQuery
from decopa.query.analysis import Chain
from decopa.query.conditions.predicate import Attr, Predicate, aliases_of
from decopa.query.query import Query


@dataclass(frozen=True, slots=True)
class Succession:
    """Two inputs that follow each other in a chain: `left` is the number of the one that comes first."""

    chain: Chain
    left: int
    #: The first position of the input that follows: the one whose event is chosen.
    chosen: str


def succession_of(query: Query, inputs: Sequence[SubQuery]) -> Succession | None:
    """How two sub-queries follow each other in a NEXT; None if they do not."""
    if len(inputs) != 2 or not query.chains:
        return None
    sides = [one.positive(query) for one in inputs]
    for chain in query.chains:
        runs = [chain.run_of(side) for side in sides]
        if runs[0] is None or runs[1] is None:
            continue
        for left in (0, 1):
            first, second = runs[left], runs[1 - left]
            assert first is not None and second is not None
            if first.stop == second.start:
                return Succession(chain, left, chain.positions[second.start - 1])
    return None


def partial_chain(query: Query, sub_query: SubQuery) -> Chain | None:
    """The innermost chain that a sub-query has events of, but not all events, and whose first pattern it goes beyond;
    None if there is none."""
    positive, scope = sub_query.positive(query), sub_query.scope(query)
    for chain in query.chains:
        shared = chain.aliases & positive
        if chain.scope == scope and shared and shared != chain.aliases and not positive <= chain.head:
            return chain
    return None


def own_chain(query: Query, sub_query: SubQuery) -> Chain | None:
    """The chain of which a sub-query is a run of two or more elements, or all of it; None if it is something else."""
    positive = sub_query.positive(query)
    for chain in query.chains:
        run = chain.run_of(positive)
        if run is not None and len(run) > 1:
            return chain
    return None


def hash_key(query: Query, left: SubQuery, succession: Succession) -> tuple[Attr, Attr] | None:
    """Attributes of the two inputs that FILTER requires to be equal, so that rows with different values never meet.

    Both have one name, so one kind of column, and equal values hash equally.
    """
    for predicate in query.skips_at(succession.chosen):
        pair = key_pair(predicate, succession.chosen)
        if pair is not None and pair[0].alias in left.positive(query) - left.closed:
            return pair
    return None


def key_pair(predicate: Predicate, chosen: str) -> tuple[Attr, Attr] | None:
    """(earlier, chosen) of a condition that is the equality of one attribute of two events; None for any other."""
    pair = equal_attributes(predicate)
    if pair is None:
        return None
    earlier, later = sorted(pair, key=lambda side: side.alias == chosen)
    return earlier, later


def problems(query: Query, sub_query: SubQuery, inputs: Sequence[SubQuery]) -> Iterator[tuple[str, str]]:
    """(rule, message) for everything that makes matching `sub_query` from `inputs` inexact because of a NEXT."""
    torn = partial_chain(query, sub_query)
    positive = sub_query.positive(query)
    if torn is not None:
        run = torn.run_of(positive)
        if run is None:
            yield (
                "next-torn",
                f"has {_listed(positive & torn.aliases)} of the NEXT over {_listed(torn.aliases)}, which is no run of "
                "neighbours of it; match neighbours first, and other events once the NEXT is complete",
            )
            return
        yield from _filters_inside(query, torn, run)
    formed = sub_query.closed.difference(*(one.closed for one in inputs)) if inputs else frozenset()
    open_runs = (positive & query.run_aliases) - sub_query.closed
    if len(sub_query.aliases) > 1 and (open_runs or formed & query.run_aliases):
        alias = min(open_runs or formed & query.run_aliases)
        yield (
            "runs-first",
            f"'{alias}' is joined with other events before its runs are formed; what a run is depends on its own "
            "events alone, so form the runs first",
        )
    for chain in query.chains:
        if formed & chain.head and positive & set(chain.positions):
            yield (
                "next-open-kleene",
                f"forms the groups of '{min(formed & chain.head)}' after events that follow them in a NEXT; form them "
                "first, since their last event decides what comes next",
            )
    succession = succession_of(query, inputs)
    if succession is not None and not formed:
        yield from _step_problems(query, succession, inputs[succession.left], inputs[1 - succession.left])


def _filters_inside(query: Query, chain: Chain, run: range) -> Iterator[tuple[str, str]]:
    inside = frozenset().union(*chain.elements[run.start : run.stop])
    for place in run[1:]:
        alias = chain.positions[place - 1]
        for predicate in query.skips_at(alias):
            outside = aliases_of(predicate) - inside
            if outside:
                yield (
                    "next-filter-outside",
                    f"chooses '{alias}' by FILTER({predicate}) without '{min(outside)}', which the condition names; "
                    f"match {_listed(outside)} first",
                )


def _step_problems(query: Query, step: Succession, left: SubQuery, right: SubQuery) -> Iterator[tuple[str, str]]:
    open_groups = (left.positive(query) & query.kleene_aliases) - left.closed
    if open_groups:
        yield (
            "next-open-kleene",
            f"the groups of '{min(open_groups)}' are not formed yet; form them before what follows",
        )
    inside = right.positive(query)
    if len(inside) == 1:
        return
    deciding = [one for one in query.where if aliases_of(one) <= inside]
    strict = [alias for alias in sorted(inside) if query.position(alias).strict]
    if deciding or strict:
        reason = f"'{deciding[0]}' ends a match" if deciding else f"the type of '{strict[0]}' ends a match"
        yield (
            "next-deciding-condition",
            f"its second input {_listed(inside)} is matched on its own, where {reason} that would then be replaced by "
            "a later one; choose these events one by one, from the left",
        )
    if right.negations(query):
        yield (
            "next-deciding-condition",
            f"its second input {_listed(inside)} has decided a NOT, which would replace a match by a later one; "
            "decide it once all events are chosen",
        )
    yield from _unfixed_filters(query, step, left, inside)


def _unfixed_filters(
    query: Query, step: Succession, left: SubQuery, inside: frozenset[str]
) -> Iterator[tuple[str, str]]:
    """FILTER inside the second input is exact only as equality of one key that the two inputs share, too."""
    key = hash_key(query, left, step)
    order = sorted(inside, key=step.chain.place)
    for alias in order[1:]:
        for predicate in query.skips_at(alias):
            pair = key_pair(predicate, alias)
            if pair is None or key is None or pair[1].name != key[1].name or pair[0].alias not in inside:
                yield (
                    "next-filter-inside",
                    f"its second input {_listed(inside)} is matched on its own with FILTER({predicate}), exact "
                    "only for equality of one attribute that FILTER ties to the first input, too; choose these events "
                    "one by one, from the left",
                )
                return


def _listed(aliases: Sequence[str] | frozenset[str]) -> str:
    return ", ".join(sorted(aliases))
