"""What a pattern tree implies: positions, order constraints, negations, alternatives, projections (3.1, 4.1)."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from decopa.errors import QueryError
from decopa.query.pattern import (
    ANY_TYPE,
    And,
    EventRef,
    Except,
    Kleene,
    Next,
    Not,
    Or,
    Pattern,
    Seq,
    children_of,
    leaves,
    with_children,
)

#: A pattern may stand for at most this many OR-free queries.
MAX_ALTERNATIVES = 256

Scope = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Position:
    """One leaf of the pattern. `scope` numbers the NOTs it lies under, outermost first; () is a positive position.

    An event at it is of one of `types`. `strict` says that events of every type are candidates for it (see STRICT).
    `least`, `most` and `runs` are those of its group (see `Kleene`), `delay_us` that of a timer.
    """

    alias: str
    type: str
    kleene: bool
    scope: Scope
    others: tuple[str, ...] = ()
    strict: bool = False
    least: int = 1
    most: int | None = None
    runs: bool = False
    delay_us: int = 0
    #: The aliases whose events make up a member of its group, in the pattern's order; () outside of groups.
    group: tuple[str, ...] = ()

    @property
    def types(self) -> tuple[str, ...]:
        return (self.type, *self.others)

    @property
    def label(self) -> str:
        """The types as statistics name them: A, or A|B."""
        return "|".join(self.types)

    def may_share_with(self, other: Position) -> bool:
        """Whether one event could stand at both positions, as far as types tell."""
        return ANY_TYPE in (*self.types, *other.types) or bool(set(self.types) & set(other.types))


@dataclass(frozen=True, slots=True)
class Negation:
    """One NOT: no match of the aliases at `scope` strictly after all of `after` and before all of `before`.

    An empty `after` (`before`) means the start (end) of the window of the whole match instead. With `inside` (EXCEPT
    and UNTIL) a group bounds the gap by its first member in `after` and by its last one in `before`.
    """

    scope: Scope
    aliases: frozenset[str]
    after: frozenset[str]
    before: frozenset[str]
    inside: bool = False


@dataclass(frozen=True, slots=True)
class Chain:
    """One NEXT: `head` are the aliases of its first pattern, `positions` those of the events that follow, in order."""

    scope: Scope
    head: frozenset[str]
    positions: tuple[str, ...]

    @property
    def elements(self) -> tuple[frozenset[str], ...]:
        """What comes one after the other: the first pattern's aliases, then one event at a time."""
        return (self.head, *(frozenset({alias}) for alias in self.positions))

    @property
    def aliases(self) -> frozenset[str]:
        return self.head.union(self.positions)

    def place(self, alias: str) -> int:
        """Where in the chain an alias of it stands; 0 is the first pattern."""
        return 0 if alias in self.head else 1 + self.positions.index(alias)

    def run_of(self, aliases: Collection[str]) -> range | None:
        """The places of consecutive elements that these aliases are, none more and none less; None if they are not."""
        places = [place for place, element in enumerate(self.elements) if element <= set(aliases)]
        run = range(places[0], places[-1] + 1) if places else range(0)
        covered = frozenset().union(*self.elements[run.start : run.stop])
        return run if places and covered == frozenset(aliases) else None


@dataclass(frozen=True, slots=True)
class Structure:
    """Everything derived from an OR-free pattern; `order` holds (earlier alias, later alias) within one scope."""

    positions: tuple[Position, ...]
    order: frozenset[tuple[str, str]]
    negations: tuple[Negation, ...]
    chains: tuple[Chain, ...] = ()


def structure(pattern: Pattern) -> Structure:
    """Positions, order constraints (Omega of 3.1), negations and NEXT chains of an OR-free pattern."""
    walk = _Walk()
    walk.visit(pattern, ())
    return Structure(tuple(walk.positions), frozenset(walk.order), tuple(walk.negations), tuple(walk.chains))


class _Walk:
    """Collects what a pattern implies, from left to right."""

    def __init__(self) -> None:
        self.positions: list[Position] = []
        self.order: set[tuple[str, str]] = set()
        self.negations: list[Negation] = []
        self.chains: list[Chain] = []

    def visit(self, node: Pattern, scope: Scope, *, strict: bool = False) -> frozenset[str]:
        """Records what is below; returns the aliases below that are positive at this scope."""
        match node:
            case EventRef():
                self.positions.append(
                    Position(node.alias, node.type, False, scope, node.others, strict, delay_us=node.delay_us)
                )
                return frozenset({node.alias})
            case Kleene():
                before = len(self.positions)
                found = self.visit(node.child, scope)
                self.positions[before:] = [
                    replace(one, kleene=True, least=node.least, most=node.most, runs=node.runs, group=node.aliases)
                    for one in self.positions[before:]
                ]
                return found
            case Not():
                raise QueryError(f"{node} stands alone; put NOT inside SEQ or AND, as in SEQ(A a, NOT(B b), C c)")
            case Or():
                raise QueryError(f"{node}: split OR into alternatives before asking for its structure")
            case And():
                below: list[frozenset[str]] = []
                for child in node.children:
                    if isinstance(child, Not):
                        self.negate(child.child, scope, frozenset(), frozenset())
                    else:
                        below.append(self.visit(child, scope))
                return frozenset().union(*below)
            case Except():
                found = self.visit(node.child, scope)
                first, last = self.earliest(found), self.latest(found)
                if len(first) > 1 or len(last) > 1:
                    raise QueryError(
                        f"{node}: which event of {node.child} is first and which is last is open; EXCEPT takes events "
                        "in order, as in EXCEPT(SEQ(A a, B b), C c)"
                    )
                self.negate(node.absent, scope, first, last, inside=True)
                return found
            case Seq() | Next():
                return self.sequence(node, scope)

    def negate(
        self, absent: Pattern, scope: Scope, after: frozenset[str], before: frozenset[str], *, inside: bool = False
    ) -> int:
        """Records a NOT between the given positions; returns its number."""
        number = len(self.negations)
        inner = (*scope, number)
        aliases = frozenset(leaf.alias for leaf in leaves(absent))
        self.negations.append(Negation(inner, aliases, after, before, inside))
        self.visit(absent, inner)
        return number

    def sequence(self, node: Seq | Next, scope: Scope) -> frozenset[str]:
        groups: list[frozenset[str] | int] = []  # a number is that of a NOT
        for child in node.children:
            if isinstance(child, Not):
                groups.append(self.negate(child.child, scope, frozenset(), frozenset()))
            elif isinstance(child, Except) and groups and isinstance(node, Next):
                before = next(group for group in reversed(groups) if not isinstance(group, int))
                events, absent = _taken_apart(child)
                groups += [self.visit(event, scope, strict=node.strict) for event in events]
                last = groups[-1]
                assert isinstance(last, frozenset)
                for one in absent:
                    self.negate(one, scope, before, last)
            else:
                groups.append(self.visit(child, scope, strict=isinstance(node, Next) and node.strict and bool(groups)))
        positive = [group for group in groups if not isinstance(group, int)]
        for earlier, later in itertools.combinations(positive, 2):
            self.order.update(itertools.product(earlier, later))
        for index, group in enumerate(groups):
            if isinstance(group, int):
                # All earlier children precede the nearest one, so the nearest one alone bounds the gap.
                before_it = [g for g in groups[:index] if not isinstance(g, int)]
                behind_it = [g for g in groups[index + 1 :] if not isinstance(g, int)]
                self.negations[group] = replace(
                    self.negations[group],
                    after=before_it[-1] if before_it else frozenset(),
                    before=behind_it[0] if behind_it else frozenset(),
                )
        if isinstance(node, Next) and len(positive) > 1:
            later_ones = tuple(alias for group in positive[1:] for alias in group)
            self.chains.append(Chain(scope, positive[0], later_ones))
        return frozenset().union(*positive)

    def earliest(self, aliases: frozenset[str]) -> frozenset[str]:
        """Those that no other one must precede."""
        return frozenset(one for one in aliases if not any((other, one) in self.order for other in aliases))

    def latest(self, aliases: frozenset[str]) -> frozenset[str]:
        return frozenset(one for one in aliases if not any((one, other) in self.order for other in aliases))


def _taken_apart(pattern: Except) -> tuple[tuple[Pattern, ...], list[Pattern]]:
    """The events of an EXCEPT that stands to the right in a NEXT, and all that must not occur meanwhile."""
    inner: Pattern = pattern
    absent: list[Pattern] = []
    while isinstance(inner, Except):
        absent.insert(0, inner.absent)
        inner = inner.child
    return inner.children if isinstance(inner, Next) else (inner,), absent


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
            raise QueryError(f"{pattern} stands alone; put NOT inside SEQ or AND, as in SEQ(A a, NOT(B b), C c)")
        case Except():
            for one, absent in itertools.product(_alternatives(pattern.child), [alternatives(pattern.absent)]):
                for other in absent:  # no E and no F: EXCEPT(EXCEPT(P, E), F)
                    one = Except(one, other)
                yield one
        case And() | Seq() | Next():
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
                yield with_children(pattern, tuple(itertools.chain.from_iterable(choice)))


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
                return replace(node, alias=alias)
            case _:
                return with_children(node, tuple(visit(child) for child in children_of(node)))

    return visit(pattern), written


def strip_kleene(pattern: Pattern, aliases: Collection[str]) -> Pattern:
    """The pattern with KL taken off the given aliases (strip of 4.1)."""
    match pattern:
        case EventRef():
            return pattern
        case Kleene():
            return pattern.child if set(pattern.aliases) <= set(aliases) else pattern
        case _:
            return with_children(pattern, tuple(strip_kleene(child, aliases) for child in children_of(pattern)))


def project(pattern: Pattern, aliases: Collection[str]) -> Pattern | None:
    """The pattern restricted to the given aliases; None if none of them is in it.

    Nested operators of equal kind that arise are merged and operators with one child left disappear, so that a
    projection is written the way a person would write it. A NOT whose neighbours are gone leaves its child.
    """
    match pattern:
        case EventRef():
            return pattern if pattern.alias in aliases else None
        case Kleene():  # a part of a group's members is no group
            return pattern if set(pattern.aliases) <= set(aliases) else project(pattern.child, aliases)
        case Not():
            inner = project(pattern.child, aliases)
            return None if inner is None else Not(inner)
        case Except():
            kept_child, absent = project(pattern.child, aliases), project(pattern.absent, aliases)
            if kept_child is None or absent is None:
                return kept_child if absent is None else absent
            return Except(kept_child, absent)
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
    return with_children(pattern, tuple(merged))


def _mergeable(parent: Pattern, child: Pattern) -> bool:
    # A SEQ with NOT at an end means something else once its parent's events stand beside that NOT.
    if type(parent) is not type(child) or not isinstance(child, Seq | And):
        return False
    return not (isinstance(child, Seq) and (isinstance(child.children[0], Not) or isinstance(child.children[-1], Not)))
