"""Sub-queries whatever their events are called: which of them are the same, and which finds all that another finds.

A fragment *covers* a sub-query if every match of the sub-query is one of the fragment's, once events are renamed: it
has the same types, no order that the sub-query lacks, no condition that does not follow from one of its own, and at
least its window. What the sub-query demands beyond the fragment is the *residue*, decided on each of the fragment's
matches.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from decopa.query.analysis import Position
from decopa.query.chain_cover import chain_problems, skips_within
from decopa.query.conditions.bounds import follows
from decopa.query.conditions.implied import implied_comparisons
from decopa.query.conditions.predicate import Among, Compare, Predicate, aliases_of, renamed
from decopa.query.pattern import ANY_TYPE, EventRef, Pattern, children_of, with_children
from decopa.query.query import Query

_FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "!=": "!="}
#: More ways than this to name events of the same types are not tried: such a form is one of its own.
_MOST_RENAMINGS = 720


@dataclass(frozen=True)
class CanonicalForm:
    """What a sub-query demands of the events at its positions, which are numbered: their types, the pairs that must be
    in order, and the conditions on them. Two sub-queries with equal forms have the same matches in the same window."""

    types: tuple[str, ...]
    order: frozenset[tuple[int, int]]
    conditions: frozenset[str]


@dataclass(frozen=True)
class Residue:
    """What a sub-query demands and its fragment does not: order, conditions (as the query states them), window."""

    order: tuple[tuple[str, str], ...] = ()
    conditions: tuple[Predicate, ...] = ()
    window_us: int | None = None

    @property
    def is_empty(self) -> bool:
        return not self.order and not self.conditions and self.window_us is None


def normal_form(predicate: Predicate) -> Predicate:
    """The same condition, written one way: comparisons with `<`, and equal things in alphabetical order."""
    if isinstance(predicate, Compare):
        flipped = Compare(_FLIPPED[predicate.op], predicate.right, predicate.left)
        if predicate.op in (">", ">=") or (predicate.op in ("=", "!=") and str(flipped) < str(predicate)):
            return flipped
    if isinstance(predicate, Among):
        return Among(predicate.operand, tuple(sorted(set(predicate.values), key=str)))
    return predicate


def shareable_aliases(query: Query) -> tuple[str, ...]:
    """The positions that a fragment may have: of one type, outside of NOT, and no KL, whose groups each query forms
    itself. None of a query with NEXT, of which beginnings are shared (`decopa.query.chain_cover`), or with timers,
    whose events last."""
    if query.chains or query.skips or any(position.delay_us for position in query.positions):
        return ()
    return tuple(p.alias for p in query.positions if _is_plain(p))


def _is_plain(position: Position) -> bool:
    odd = position.scope or position.kleene or position.others or position.strict
    return not odd and position.type != ANY_TYPE


def canonical(query: Query, aliases: Collection[str]) -> tuple[CanonicalForm, dict[str, int]]:
    """The form of the sub-query on some shareable positions, and the number that each of them has in it.

    Of all ways to number events of the same type it takes the one whose conditions read first; where several read the
    same, events are interchangeable and any will do.
    """
    order = {(a, b) for a, b in query.order_constraints if a in aliases and b in aliases}
    conditions = _within(query, aliases)
    best: tuple[list[tuple[int, int]], list[str]] | None = None
    numbering: dict[str, int] = {}
    for one in _numberings(query, aliases):
        names = {alias: f"p{number}" for alias, number in one.items()}
        form = (
            sorted((one[a], one[b]) for a, b in order),
            sorted(str(normal_form(renamed(predicate, names))) for predicate in conditions),  # type: ignore[arg-type]
        )
        if best is None or form < best:
            best, numbering = form, one
    assert best is not None
    types = tuple(query.position(alias).type for alias in sorted(numbering, key=numbering.__getitem__))
    return CanonicalForm(types, frozenset(best[0]), frozenset(best[1])), numbering


def _numberings(query: Query, aliases: Collection[str]) -> Iterator[dict[str, int]]:
    ordered = sorted(aliases, key=lambda alias: (query.position(alias).type, query.aliases.index(alias)))
    groups = [list(group) for _, group in itertools.groupby(ordered, key=lambda alias: query.position(alias).type)]
    ways = itertools.product(*(itertools.permutations(group) for group in groups))
    for way in itertools.islice(ways, _MOST_RENAMINGS):
        yield {alias: number for number, alias in enumerate(itertools.chain(*way))}


def cover_problems(fragment: Query, covering: Collection[str], query: Query, names: Mapping[str, str]) -> list[str]:
    """Why the sub-query of `fragment` on `covering` does not cover that of `query` on the keys of `names`, which say
    what each event is called in the fragment; nothing if it does."""
    found = []
    if len(set(names.values())) < len(names) or set(names.values()) != set(covering):
        return ["it must name each event of the other operator once"]
    if query.chains or query.skips or fragment.chains or fragment.skips:
        found += chain_problems(fragment, covering, query, names)
        skipped = _texts(skips_within(fragment, covering), {other: alias for alias, other in names.items()})
        if not found and skipped != _texts(skips_within(query, names), {}):
            found.append("its FILTER conditions are others, so it may choose other events")
    for alias, other in names.items():
        mine, theirs = query.position(alias), fragment.position(other)
        if mine.type != theirs.type:
            found.append(f"'{alias}' is of type {mine.type}, but '{other}' of type {theirs.type}")
        if mine.types != theirs.types or mine.strict or theirs.strict or mine.delay_us or theirs.delay_us:
            found.append(f"'{alias}' takes other events than one type; such positions are not shared")
        if mine.scope or theirs.scope:
            found.append(f"'{alias}' is negated; each query decides its own NOT")
        if mine.kleene or theirs.kleene:
            found.append(f"'{alias}' is a KL position; each query forms its own groups")
    if found:
        return found
    back = {other: alias for alias, other in names.items()}
    for a, b in sorted(fragment.order_constraints):
        if a in back and b in back and (back[a], back[b]) not in query.order_constraints:
            found.append(f"the other operator demands {a} before {b}, the query does not")
    demanded = _texts(query.where, {})
    for predicate in _within(fragment, covering):
        if not _texts([predicate], back) <= demanded and not _follows(predicate, back, query):
            found.append(f"the other operator demands {predicate}, the query does not")
    for implied in implied_comparisons(fragment.where, lambda one, other: True):
        looks_ahead = aliases_of(implied.predicate) <= set(covering) and not implied.through <= set(covering)
        if looks_ahead and not _texts([implied.predicate], back) <= demanded:
            found.append(f"the other operator drops what cannot fulfil {implied.predicate}, the query does not")
    if fragment.window_us < query.window_us:
        found.append(
            f"the other part forgets events after {fragment.window_us} us, the query needs {query.window_us} us"
        )
    return found


def residue(fragment: Query, covering: Collection[str], query: Query, names: Mapping[str, str]) -> Residue:
    """What is left to decide on the matches of a sub-query that covers another one."""
    back = {other: alias for alias, other in names.items()}
    known = {(back[a], back[b]) for a, b in fragment.order_constraints if a in back and b in back}
    order = query.order_constraints
    lacking = [
        (a, b)
        for a, b in sorted(order)
        if a in names and b in names and (a, b) not in known
        and not any((a, c) in order and (c, b) in order for c in names)
    ]  # fmt: skip
    decided = _texts(_within(fragment, covering), back)
    conditions = tuple(one for one in _within(query, names) if not _texts([one], {}) <= decided)
    return Residue(tuple(lacking), conditions, query.window_us if fragment.window_us > query.window_us else None)


def renamed_query(query: Query, names: Mapping[str, str], name: str) -> Query:
    """The same query about events called otherwise, without RETURN."""

    def change(node: Pattern) -> Pattern:
        if isinstance(node, EventRef):
            return replace(node, alias=names[node.alias])
        return with_children(node, tuple(map(change, children_of(node))))

    where = tuple(renamed(one, names) for one in query.where)
    return Query(change(query.pattern), where, query.window_us, name)  # type: ignore[arg-type]


def _within(query: Query, aliases: Iterable[str]) -> list[Predicate]:
    """All conditions on these events and no others."""
    named = frozenset(aliases)
    return [one for one in query.where if aliases_of(one) <= named]


def _follows(predicate: Predicate, names: Mapping[str, str], query: Query) -> bool:
    """Whether a condition follows from one of the query's with a stricter constant."""
    here: Predicate = renamed(predicate, names)  # type: ignore[assignment]
    return any(follows(here, one) for one in query.where if aliases_of(one) == aliases_of(here))


def _texts(predicates: Iterable[Predicate], names: Mapping[str, str]) -> set[str]:
    return {str(normal_form(renamed(one, names))) for one in predicates}  # type: ignore[arg-type]
