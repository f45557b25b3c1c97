"""What a pattern tree implies: positions, order constraints, negations, alternatives, projections (3.1, 4.1)."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from decopa.errors import QueryError
from decopa.query.pattern import And, EventRef, Kleene, Not, Or, Pattern, Seq, leaves

#: A pattern may stand for at most this many OR-free queries.
MAX_ALTERNATIVES = 256

Scope = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Position:
    """One leaf of the pattern. `scope` numbers the NOTs it lies under, outermost first; () is a positive position."""

    alias: str
    type: str
    kleene: bool
    scope: Scope


@dataclass(frozen=True, slots=True)
class Negation:
    """One NOT: no match of the aliases at `scope` strictly after all of `after` and before all of `before`.

    An empty `after` (`before`) means the start (end) of the window of the whole match instead.
    """

    scope: Scope
    aliases: frozenset[str]
    after: frozenset[str]
    before: frozenset[str]


@dataclass(frozen=True, slots=True)
class Structure:
    """Everything derived from an OR-free pattern; `order` holds (earlier alias, later alias) within one scope."""

    positions: tuple[Position, ...]
    order: frozenset[tuple[str, str]]
    negations: tuple[Negation, ...]


def structure(pattern: Pattern) -> Structure:
    """Positions, order constraints (Omega of 3.1) and negations of an OR-free pattern."""
    positions: list[Position] = []
    order: set[tuple[str, str]] = set()
    negations: list[Negation] = []

    def visit(node: Pattern, scope: Scope) -> frozenset[str]:
        """Records what is below; returns the aliases below that are positive at this scope."""
        match node:
            case EventRef():
                positions.append(Position(node.alias, node.type, False, scope))
                return frozenset({node.alias})
            case Kleene():
                positions.append(Position(node.child.alias, node.child.type, True, scope))
                return frozenset({node.child.alias})
            case Not():
                raise QueryError(f"{node} stands alone; put NOT inside SEQ, as in SEQ(A a, NOT(B b), C c)")
            case Or():
                raise QueryError(f"{node}: split OR into alternatives before asking for its structure")
            case And():
                return frozenset().union(*[visit(child, scope) for child in node.children])
            case Seq():
                return visit_seq(node, scope)

    def visit_seq(node: Seq, scope: Scope) -> frozenset[str]:
        groups: list[frozenset[str] | Negation] = []
        for child in node.children:
            if isinstance(child, Not):
                inner = (*scope, len(negations))
                slot = len(negations)
                placeholder = Negation(inner, frozenset(leaf.alias for leaf in leaves(child)), frozenset(), frozenset())
                negations.append(placeholder)
                visit(child.child, inner)
                groups.append(negations[slot])
            else:
                groups.append(visit(child, scope))
        positive = [group for group in groups if not isinstance(group, Negation)]
        for earlier, later in itertools.combinations(positive, 2):
            order.update(itertools.product(earlier, later))
        for index, group in enumerate(groups):
            if isinstance(group, Negation):
                # All earlier children precede the nearest one, so the nearest one alone bounds the gap.
                before_it = [g for g in groups[:index] if not isinstance(g, Negation)]
                behind_it = [g for g in groups[index + 1 :] if not isinstance(g, Negation)]
                negations[group.scope[-1]] = Negation(
                    group.scope,
                    group.aliases,
                    before_it[-1] if before_it else frozenset(),
                    behind_it[0] if behind_it else frozenset(),
                )
        return frozenset().union(*positive)

    visit(pattern, ())
    return Structure(tuple(positions), frozenset(order), tuple(negations))


def alternatives(pattern: Pattern) -> tuple[Pattern, ...]:
    """The OR-free patterns whose matches together are the pattern's.

    Under NOT the alternatives multiply the negations instead: NOT(OR(B, D)) is NOT(B), NOT(D).
    """
    found = tuple(_alternatives(pattern))
    if len(found) > MAX_ALTERNATIVES:
        raise QueryError(
            f"OR stands for more than {MAX_ALTERNATIVES} alternatives; write the wanted ones as queries of a workload"
        )
    return found


def _alternatives(pattern: Pattern) -> Iterator[Pattern]:
    match pattern:
        case EventRef() | Kleene():
            yield pattern
        case Or():
            for child in pattern.children:
                yield from _alternatives(child)
        case Not():
            raise QueryError(f"{pattern} stands alone; put NOT inside SEQ, as in SEQ(A a, NOT(B b), C c)")
        case And() | Seq():
            options: list[list[tuple[Pattern, ...]]] = []
            total = 1
            for child in pattern.children:
                if isinstance(child, Not):
                    options.append([tuple(Not(one) for one in alternatives(child.child))])
                else:
                    options.append([(one,) for one in alternatives(child)])
                total *= len(options[-1])
                if total > MAX_ALTERNATIVES:  # stop before the product is built
                    raise QueryError(
                        f"OR stands for more than {MAX_ALTERNATIVES} alternatives; "
                        "write the wanted ones as queries of a workload"
                    )
            for choice in itertools.product(*options):
                yield type(pattern)(tuple(itertools.chain.from_iterable(choice)))


def distinct_aliases(pattern: Pattern) -> tuple[Pattern, dict[str, str]]:
    """An alternative with each alias used once, and what each of its aliases was written as.

    Alternatives under NOT stand side by side and may share aliases: NOT(SEQ(B b, OR(C c, D d))) becomes
    NOT(SEQ(B b, C c)), NOT(SEQ(B b, D d)). The first keeps the name.
    """
    taken = {leaf.alias for leaf in leaves(pattern)}
    written: dict[str, str] = {}

    def visit(node: Pattern) -> Pattern:
        match node:
            case EventRef():
                alias = node.alias
                if alias in written:
                    alias = next(name for n in itertools.count(2) if (name := f"{node.alias}_{n}") not in taken)
                taken.add(alias)
                written[alias] = node.alias
                return EventRef(node.type, alias)
            case Kleene() | Not():
                return type(node)(visit(node.child))  # type: ignore[arg-type]
            case _:
                return type(node)(tuple(visit(child) for child in node.children))

    return visit(pattern), written


def strip_kleene(pattern: Pattern, aliases: Collection[str]) -> Pattern:
    """The pattern with KL taken off the given aliases (strip of 4.1)."""
    match pattern:
        case EventRef():
            return pattern
        case Kleene():
            return pattern.child if pattern.child.alias in aliases else pattern
        case Not():
            return Not(strip_kleene(pattern.child, aliases))
        case _:
            return type(pattern)(tuple(strip_kleene(child, aliases) for child in pattern.children))


def project(pattern: Pattern, aliases: Collection[str]) -> Pattern | None:
    """The pattern restricted to the given aliases; None if none of them is in it.

    Nested operators of equal kind that arise are merged and operators with one child left disappear, so that a
    projection is written the way a person would write it. A NOT whose neighbours are gone leaves its child.
    """
    match pattern:
        case EventRef():
            return pattern if pattern.alias in aliases else None
        case Kleene():
            return pattern if pattern.child.alias in aliases else None
        case Not():
            inner = project(pattern.child, aliases)
            return None if inner is None else Not(inner)
    kept = [child for child in (project(child, aliases) for child in pattern.children) if child is not None]
    if all(isinstance(child, Not) for child in kept):
        return kept[0].child if len(kept) == 1 else None  # type: ignore[union-attr]
    if len(kept) == 1:
        return kept[0]
    merged = [
        grandchild
        for child in kept
        for grandchild in (child.children if _mergeable(pattern, child) else (child,))  # type: ignore[union-attr]
    ]
    return type(pattern)(tuple(merged))


def _mergeable(parent: Pattern, child: Pattern) -> bool:
    # A SEQ with NOT at an end means something else once its parent's events stand beside that NOT.
    if type(parent) is not type(child) or not isinstance(child, Seq | And):
        return False
    return not (isinstance(child, Seq) and (isinstance(child.children[0], Not) or isinstance(child.children[-1], Not)))
