"""The pattern tree: what has to happen, in which order (3.1).

Nodes are values; wrong ones cannot be built. Order constraints, Kleene types and negations of a whole pattern are
derived in `analysis`; here live only the nodes and what concerns one node at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from decopa.errors import QueryError
from decopa.query.conditions.predicate import Location
from decopa.query.names import duration_text, is_plain, quoted

#: Stands for every event type, as in `* a`.
ANY_TYPE = "*"


@dataclass(frozen=True, slots=True)
class EventRef:
    """`A a`: one event of type A, called a in predicates and in the result.

    `(A|B) a` is one event of either type: `others` holds the types after the first. `* a` is an event of any type.
    `A a @ 5 s` is a timer: it begins with the event and is over `delay_us` microseconds after it.
    """

    type: str
    alias: str
    others: tuple[str, ...] = ()
    delay_us: int = 0
    at: Location | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if not 0 <= self.delay_us < 2**61:
            raise QueryError(f"a timer runs for a positive time, got {self.delay_us} us; write it as in A a @ 5 s")
        if not self.type or not self.alias or not all(self.others):
            raise QueryError("an event needs a type and an alias, as in SEQ(A a, B b)")
        if len(set(self.types)) < len(self.types):
            twice = next(name for name in self.types if self.types.count(name) > 1)
            raise QueryError(f"the type '{twice}' is listed twice for '{self.alias}'; name each type once")
        if self.others and ANY_TYPE in self.types:
            raise QueryError(f"'*' stands for every type already; write * {self.alias}")
        if not is_plain(self.alias):
            raise QueryError(f"'{self.alias}' is no alias: use letters, digits and _, as in {quoted(self.type)} a1")

    @property
    def types(self) -> tuple[str, ...]:
        return (self.type, *self.others)

    def __str__(self) -> str:
        timer = f" @ {duration_text(self.delay_us)}" if self.delay_us else ""
        return f"{types_text(self.types)} {quoted(self.alias)}{timer}"


@dataclass(frozen=True, slots=True)
class Seq:
    """SEQ(...): every event of an earlier child strictly before every event of a later one."""

    children: tuple[Pattern, ...]

    def __post_init__(self) -> None:
        _check_children("SEQ", self.children)
        _check_positive("SEQ", self.children)

    def __str__(self) -> str:
        return _call("SEQ", self.children)


@dataclass(frozen=True, slots=True)
class Next:
    """NEXT(P, B b, C c): after a match of P the next B, and after that B the next C.

    The first child is any pattern. Each further one is an event: the earliest of its type that comes after the one
    before it and passes the FILTER conditions on it; of several at that time, each. A NOT may stand between two, and
    EXCEPT(P, E) among them forbids E from the event before P up to the last one of P. With `strict` (written STRICT)
    events of every type are candidates, so the very next event must be of the right type.
    """

    children: tuple[Pattern, ...]
    strict: bool = False

    def __post_init__(self) -> None:
        _check_children(self.name, self.children)
        first = self.children[0]
        if isinstance(first, Next) and first.strict == self.strict:
            object.__setattr__(self, "children", (*first.children, *self.children[1:]))
        flat: list[Pattern] = [self.children[0]]
        for child in self.children[1:]:
            # Left to right is the only reading: A;(B;C) is (A;B);C (3.2 of the NEXT paper, without predicates).
            inner = child.children if isinstance(child, Next) and child.strict == self.strict else (child,)
            flat += inner
        object.__setattr__(self, "children", tuple(flat))
        if isinstance(self.children[0], Not) or isinstance(self.children[-1], Not):
            raise QueryError(
                f"{self}: a NOT at an end of {self.name} has no event on one side; put it into a SEQ around"
            )
        for child in self.children[1:]:
            _check_successor(self.name, child)

    @property
    def name(self) -> str:
        return "STRICT" if self.strict else "NEXT"

    def __str__(self) -> str:
        return _call(self.name, self.children)


@dataclass(frozen=True, slots=True)
class Except:
    """EXCEPT(P, E): a match of P without a match of E strictly between its first and its last event."""

    child: Pattern
    absent: Pattern

    def __post_init__(self) -> None:
        if isinstance(self.child, Not) or isinstance(self.absent, Not):
            raise QueryError(f"{self}: NOT directly inside EXCEPT; write the event that must not occur, as in "
                             "EXCEPT(NEXT(A a, B b), C c)")  # fmt: skip

    def __str__(self) -> str:
        return f"EXCEPT({self.child}, {self.absent})"


@dataclass(frozen=True, slots=True)
class And:
    """AND(...): all children, in any order. NOT(P) among them: no match of P that fits into one window with the whole
    match, before, after or in between."""

    children: tuple[Pattern, ...]

    def __post_init__(self) -> None:
        _check_children("AND", self.children)
        _check_positive("AND", self.children)

    def __str__(self) -> str:
        return _call("AND", self.children)


@dataclass(frozen=True, slots=True)
class Or:
    """OR(...): one of the children; a query with OR is split into one query per alternative."""

    children: tuple[Pattern, ...]

    def __post_init__(self) -> None:
        _check_children("OR", self.children)
        for child in self.children:
            if isinstance(child, Not):
                raise QueryError(
                    f"{child} is an alternative of OR, so there would be nothing to report; "
                    "put NOT inside SEQ or AND, as in SEQ(A a, NOT(B b), C c)"
                )

    def __str__(self) -> str:
        return _call("OR", self.children)


@dataclass(frozen=True, slots=True)
class Kleene:
    """KL(A a): a group of one or more A events (3.1).

    `least` and `most` bound its size, as in KL(A a){2,5} and KL(A a){3,}. With `runs` (written ITER) a group is a run:
    each member is the next A after the one before, in the sense of NEXT.

    KL(SEQ(A a, B b)) is a group of matches of SEQ(A a, B b), which come one after the other: each begins after the one
    before has ended. Each alias then stands for one event of every member. (The paper has groups of events only.)
    """

    child: EventRef | Seq | And
    least: int = 1
    most: int | None = None
    runs: bool = False

    def __post_init__(self) -> None:
        while isinstance(self.child, Seq | And) and len(self.child.children) == 1:
            object.__setattr__(self, "child", self.child.children[0])
        if not isinstance(self.child, EventRef):
            _check_members(self)
        if any(leaf.delay_us for leaf in leaves(self.child)):
            raise QueryError(f"{self}: a group of timers is not supported; put @ behind a single event")
        if self.least < 1:
            raise QueryError(
                f"{self} may be empty; a group has at least one member, so write {{1,...}} or leave it out"
            )
        if self.most is not None and self.most < self.least:
            raise QueryError(
                f"{self}: at most {self.most} is less than at least {self.least}; write {{{self.most},{self.least}}}"
            )

    @property
    def name(self) -> str:
        return "ITER" if self.runs else "KL"

    @property
    def aliases(self) -> tuple[str, ...]:
        """The aliases of its members' events."""
        return tuple(leaf.alias for leaf in leaves(self.child))

    def __str__(self) -> str:
        if (self.least, self.most) == (1, None):
            return f"{self.name}({self.child})"
        size = f"{self.least}" if self.least == self.most else f"{self.least},{'' if self.most is None else self.most}"
        return f"{self.name}({self.child}){{{size}}}"


@dataclass(frozen=True, slots=True)
class Not:
    """NOT(P) inside SEQ: no match of P strictly between its neighbours; at an end of SEQ, up to the window's end.

    Inside AND it has no neighbours: see `And`.
    """

    child: Pattern

    def __post_init__(self) -> None:
        if isinstance(self.child, Not):
            raise QueryError(f"{self}: NOT directly inside NOT; leave both out, or name the event that must happen")

    def __str__(self) -> str:
        return f"NOT({self.child})"


Pattern: TypeAlias = EventRef | Seq | Next | And | Or | Kleene | Not | Except


def children_of(pattern: Pattern) -> tuple[Pattern, ...]:
    """The patterns directly below, from left to right; none below an event."""
    match pattern:
        case EventRef():
            return ()
        case Kleene() | Not():
            return (pattern.child,)
        case Except():
            return (pattern.child, pattern.absent)
        case _:
            return pattern.children


def with_children(pattern: Pattern, children: Sequence[Pattern]) -> Pattern:
    """The same operator over other patterns."""
    match pattern:
        case EventRef():
            return pattern
        case Kleene() | Not():
            return replace(pattern, child=children[0])  # type: ignore[arg-type]
        case Except():
            return Except(children[0], children[1])
        case _:
            return replace(pattern, children=tuple(children))


def leaves(pattern: Pattern) -> Iterator[EventRef]:
    """The primitive patterns from left to right, negated and Kleene ones included."""
    if isinstance(pattern, EventRef):
        yield pattern
    for child in children_of(pattern):
        yield from leaves(child)


def kleene_aliases(pattern: Pattern) -> frozenset[str]:
    """The aliases under KL and ITER."""
    if isinstance(pattern, Kleene):
        return frozenset(pattern.aliases)
    return frozenset().union(*map(kleene_aliases, children_of(pattern)))


def type_form(pattern: Pattern) -> str:
    """The pattern written with types only, as the paper does: SEQ(A,B,AND(C,D))."""
    if isinstance(pattern, EventRef):
        return "|".join(pattern.types) if not pattern.others else f"({'|'.join(pattern.types)})"
    name = pattern.name if isinstance(pattern, Kleene | Next) else type(pattern).__name__
    return f"{name.upper()}({','.join(type_form(child) for child in children_of(pattern))})"


def types_text(types: Sequence[str]) -> str:
    """Event types as query text: A, (A|B), or *."""
    names = [name if name == ANY_TYPE else quoted(name) for name in types]
    return names[0] if len(names) == 1 else f"({'|'.join(names)})"


def _call(name: str, children: tuple[Pattern, ...]) -> str:
    return f"{name}({', '.join(map(str, children))})"


def _check_children(name: str, children: tuple[Pattern, ...]) -> None:
    if not children:
        raise QueryError(f"{name} needs at least one child, as in {name}(A a, B b)")


def _check_members(group: Kleene) -> None:
    """Raises unless the members of a group may be matches of its pattern."""
    if group.runs:
        raise QueryError(
            f"ITER takes one event type, got {group.child}: which of several matches is the next one is open; "
            f"write KL({group.child}), or a run of single events, as in ITER(A a)"
        )
    for node in _inner(group.child):
        if not isinstance(node, EventRef | Seq | And):
            remedy = {
                Or: "write the types with one alias, as in KL((A|B) a)",
                Not: "put the NOT beside the group, as in KL(SEQ(A a, B b)) UNTIL(C c)",
                Next: "write SEQ, as in KL(SEQ(A a, B b))",
                Kleene: "write groups one after the other, as in SEQ(KL(A a), KL(B b))",
            }.get(type(node), "put it around the group")
            raise QueryError(f"KL takes an event, or SEQ and AND of events, but {group.child} has {node}; {remedy}")


def _inner(pattern: Pattern) -> Iterator[Pattern]:
    yield pattern
    for child in children_of(pattern):
        yield from _inner(child)


def _check_successor(name: str, child: Pattern) -> None:
    """Raises unless `child` may follow in NEXT."""
    if isinstance(child, EventRef | Not):
        return
    if isinstance(child, Except):
        for inner in child.child.children if isinstance(child.child, Next) else (child.child,):
            _check_successor(name, inner)
        return
    if isinstance(child, Or):
        types = "|".join(quoted(one) for leaf in leaves(child) for one in leaf.types)
        raise QueryError(
            f"{child} stands to the right in {name}, where the next event of either type is meant and alternatives "
            f"cannot be matched one by one; write the types with one alias, as in {name}(A a, ({types}) b)"
        )
    if isinstance(child, Kleene):
        raise QueryError(
            f"{child} stands to the right in {name}: the next group would be the next single event, which ends first; "
            f"write {child.child}, or put KL first, as in {name}(KL(A a), B b)"
        )
    raise QueryError(
        f"{child} stands to the right in {name}, which takes single events after its first pattern; "
        f"write it as in {name}({child}, B b), or use SEQ"
    )


def _check_positive(name: str, children: tuple[Pattern, ...]) -> None:
    if all(isinstance(child, Not) for child in children):
        raise QueryError(
            f"{_call(name, children)} has no positive event, so there is nothing to report; "
            f"add the event that must happen, as in {name}(A a, NOT(B b))"
        )
