"""Which beginnings of a NEXT another query finds as well.

The events of a NEXT are chosen from left to right, and what decides about a match or comes later changes no choice. So
two NEXTs that begin with the same types and the same FILTER conditions choose the same first events, whatever else they
demand and however long their windows are.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from decopa.query.analysis import Chain
from decopa.query.conditions.predicate import Predicate, aliases_of
from decopa.query.pattern import ANY_TYPE
from decopa.query.query import Query


def beginning(chain: Chain, aliases: Collection[str]) -> tuple[str, ...] | None:
    """The events in order, if these are the first of a NEXT that begins with a single event; else None."""
    order = (*chain.head, *chain.positions)
    count = len(aliases)
    return order[:count] if len(chain.head) == 1 and set(order[:count]) == set(aliases) and count > 1 else None


def skips_within(query: Query, aliases: Collection[str]) -> list[Predicate]:
    """The FILTER conditions that choose among candidates for these events, which begin a NEXT."""
    return [one for one in query.skips if aliases_of(one) <= set(aliases)]


def chain_problems(fragment: Query, covering: Collection[str], query: Query, names: Mapping[str, str]) -> list[str]:
    """Why what `fragment` finds is not the beginning of a NEXT of `query`, apart from FILTER; nothing if it is."""
    theirs = next((one for one in fragment.chains if beginning(one, covering) is not None), None)
    if theirs is None:
        return ["only the first events of a NEXT are the beginning of another one, and the other operator has others"]
    begins = [order for chain in query.chains if (order := beginning(chain, names)) is not None]
    if not begins or [names[alias] for alias in begins[0]] != list(beginning(theirs, covering) or ()):
        return ["its events are not those that a NEXT of the query begins with, in the same order"]
    return []


def is_chain_of_moments(query: Query) -> bool:
    """Whether a query is a NEXT over single events of one type each and nothing else."""
    return (
        len(query.chains) == 1
        and query.chains[0].aliases == set(query.aliases)
        and len(query.chains[0].head) == 1
        and not any(_is_odd(query, alias) for alias in query.aliases)
    )


def in_order(query: Query) -> Sequence[str]:
    """The aliases of such a query, from the first event on."""
    return (*query.chains[0].head, *query.chains[0].positions)


def _is_odd(query: Query, alias: str) -> bool:
    one = query.position(alias)
    return bool(one.others or one.strict or one.kleene or one.delay_us or one.type == ANY_TYPE or one.scope)
