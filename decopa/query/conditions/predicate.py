"""The predicate tree of WHERE: typed nodes, never text.

A condition is two-valued: a comparison with a missing value (null) is false, so NOT of it is true. Arithmetic with
a missing value is missing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from decopa.errors import QueryError
from decopa.query.names import quoted

COMPARISONS = ("<", "<=", ">", ">=", "=", "!=")
ARITHMETIC = ("+", "-", "*", "/")
#: name -> number of arguments (None: two or more)
FUNCTIONS: dict[str, int | None] = {
    "abs": 1, "sqrt": 1, "min": None, "max": None, "dist_km": 4, "floor": 1, "ceil": 1, "round": 1, "log": 1, "exp": 1,
    "pow": 2, "mod": 2, "hour": 1, "weekday": 1, "length": 1,
}  # fmt: skip
#: Functions that only `binding` puts into a tree; the query text cannot name them.
INTERNAL_FUNCTIONS: dict[str, int | None] = {"chord_km": 1}


@dataclass(frozen=True, slots=True)
class Location:
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Attr:
    """`a.x`: attribute x of the event bound to a; `PREV(a.x)` that of the member before it in a group."""

    alias: str
    name: str
    at: Location | None = field(default=None, compare=False, repr=False)
    previous: bool = False

    def __str__(self) -> str:
        written = f"{quoted(self.alias)}.{quoted(self.name)}"
        return f"PREV({written})" if self.previous else written


@dataclass(frozen=True, slots=True)
class Literal:
    """A number, string or truth value."""

    value: int | float | str | bool

    def __str__(self) -> str:
        if isinstance(self.value, bool):
            return "TRUE" if self.value else "FALSE"
        if isinstance(self.value, str):
            return "'" + self.value.replace("'", "''") + "'"
        return repr(self.value)

    def __eq__(self, other: object) -> bool:
        # 1, 1.0 and True are equal in Python but not the same query text.
        return isinstance(other, Literal) and type(self.value) is type(other.value) and self.value == other.value

    def __hash__(self) -> int:
        return hash((type(self.value), self.value))


@dataclass(frozen=True, slots=True)
class Arithmetic:
    op: str
    left: Expr
    right: Expr

    def __post_init__(self) -> None:
        if self.op not in ARITHMETIC:
            raise QueryError(f"unknown arithmetic operator '{self.op}'; use one of {' '.join(ARITHMETIC)}")

    def __str__(self) -> str:
        return f"({self.left} {self.op} {self.right})"


@dataclass(frozen=True, slots=True)
class Negative:
    operand: Expr

    def __str__(self) -> str:
        return f"(-{self.operand})"


@dataclass(frozen=True, slots=True)
class Call:
    function: str
    arguments: tuple[Expr, ...]

    def __post_init__(self) -> None:
        known = FUNCTIONS | INTERNAL_FUNCTIONS
        if self.function not in known:
            raise QueryError(f"unknown function '{self.function}'; known: {', '.join(FUNCTIONS)}")
        wanted = known[self.function]
        if wanted is None and len(self.arguments) < 2:
            raise QueryError(f"{self.function} takes two or more arguments, got {len(self.arguments)}")
        if wanted is not None and len(self.arguments) != wanted:
            raise QueryError(f"{self.function} takes {wanted} argument(s), got {len(self.arguments)}")

    def __str__(self) -> str:
        return f"{self.function}({', '.join(map(str, self.arguments))})"


#: What can be computed over the members of a group.
FIGURES = ("count", "sum", "avg", "min", "max", "first", "last")


@dataclass(frozen=True, slots=True)
class Over:
    """`sum(b.x)`: a figure over the members of a group; `count(b)` is their number. Missing values are left out, as in
    SQL; `first` and `last` are those of the first and the last member, missing or not."""

    function: str
    of: Attr

    def __post_init__(self) -> None:
        if self.function not in FIGURES:
            raise QueryError(f"unknown aggregate '{self.function}'; known: {', '.join(FIGURES)}")

    def __str__(self) -> str:
        return f"count({quoted(self.of.alias)})" if self.function == "count" else f"{self.function}({self.of})"


Expr: TypeAlias = Attr | Literal | Arithmetic | Negative | Call | Over


@dataclass(frozen=True, slots=True)
class Compare:
    op: str
    left: Expr
    right: Expr

    def __post_init__(self) -> None:
        if self.op not in COMPARISONS:
            raise QueryError(f"unknown comparison '{self.op}'; use one of {' '.join(COMPARISONS)}")

    def __str__(self) -> str:
        return f"{self.left} {self.op} {self.right}"


@dataclass(frozen=True, slots=True)
class Among:
    """`a.x IN (1, 2)`."""

    operand: Expr
    values: tuple[Literal, ...]

    def __post_init__(self) -> None:
        if not self.values:
            raise QueryError(f"IN needs at least one value, as in {self.operand} IN (1, 2)")

    def __str__(self) -> str:
        return f"{self.operand} IN ({', '.join(map(str, self.values))})"


@dataclass(frozen=True, slots=True)
class Missing:
    """`a.x IS NULL`: the event has no value for it."""

    operand: Expr

    def __str__(self) -> str:
        return f"{self.operand} IS NULL"


@dataclass(frozen=True, slots=True)
class Like:
    """`a.s LIKE 'x%'`: % stands for any text, _ for any one character, \\ before them for themselves.

    With `any_case` (written `lower(a.s) LIKE ...`) the text is compared in lower case.
    """

    operand: Attr
    pattern: str
    any_case: bool = False

    def __str__(self) -> str:
        operand = f"lower({self.operand})" if self.any_case else str(self.operand)
        return f"{operand} LIKE {Literal(self.pattern)}"

    def expression(self) -> re.Pattern[str]:
        """The pattern as a regular expression for whole texts."""
        parts = re.findall(r"\\[%_\\]|%|_|.", self.pattern, re.DOTALL)
        known = {"%": ".*", "_": "."}
        source = "".join(known.get(one) or re.escape(one[1:] if len(one) == 2 else one) for one in parts)
        return re.compile(source + r"\Z", re.DOTALL)


def literally(text: str) -> str:
    """A text as a pattern of LIKE that means nothing else."""
    return re.sub(r"([%_\\])", r"\\\1", text)


@dataclass(frozen=True, slots=True)
class AllOf:
    parts: tuple[Predicate, ...]

    def __str__(self) -> str:
        return "(" + " AND ".join(map(str, self.parts)) + ")"


@dataclass(frozen=True, slots=True)
class AnyOf:
    parts: tuple[Predicate, ...]

    def __str__(self) -> str:
        return "(" + " OR ".join(map(str, self.parts)) + ")"


@dataclass(frozen=True, slots=True)
class Negated:
    part: Predicate

    def __str__(self) -> str:
        return f"NOT ({self.part})"


Predicate: TypeAlias = Compare | Among | Missing | Like | AllOf | AnyOf | Negated
Node: TypeAlias = Expr | Predicate


def children(node: Node) -> tuple[Node, ...]:
    """The nodes directly below, from left to right."""
    match node:
        case Attr() | Literal():
            return ()
        case Arithmetic() | Compare():
            return (node.left, node.right)
        case Negative() | Missing() | Like():
            return (node.operand,)
        case Over():
            return (node.of,)
        case Call():
            return node.arguments
        case Among():
            return (node.operand, *node.values)
        case AllOf() | AnyOf():
            return node.parts
        case Negated():
            return (node.part,)


def attributes(node: Node) -> Iterator[Attr]:
    """Every attribute reference below the node, from left to right, repeats included."""
    if isinstance(node, Attr):
        yield node
    for child in children(node):
        yield from attributes(child)


def aliases_of(node: Node) -> frozenset[str]:
    return frozenset(attr.alias for attr in attributes(node))


def rewrite(node: Node, change: Callable[[Node], Node | None]) -> Node:
    """The tree with every topmost node for which `change` returns a replacement replaced by it."""
    changed = change(node)
    if changed is not None:
        return changed
    below = tuple(rewrite(child, change) for child in children(node))
    match node:
        case Attr() | Literal():
            return node
        case Arithmetic() | Compare():
            return replace(node, left=below[0], right=below[1])  # type: ignore[arg-type]
        case Negative() | Missing() | Like():
            return replace(node, operand=below[0])  # type: ignore[arg-type]
        case Over():
            return replace(node, of=below[0])  # type: ignore[arg-type]
        case Call():
            return replace(node, arguments=below)  # type: ignore[arg-type]
        case Among():
            return replace(node, operand=below[0], values=below[1:])  # type: ignore[arg-type]
        case AllOf() | AnyOf():
            return replace(node, parts=below)  # type: ignore[arg-type]
        case Negated():
            return replace(node, part=below[0])  # type: ignore[arg-type]


def conjuncts(predicate: Predicate) -> tuple[Predicate, ...]:
    """The conditions that must all hold, with top-level ANDs taken apart."""
    if isinstance(predicate, AllOf):
        return tuple(part for inner in predicate.parts for part in conjuncts(inner))
    return (predicate,)


def figures(node: Node) -> Iterator[Over]:
    """Every aggregate over members below the node, from left to right."""
    if isinstance(node, Over):
        yield node
    for child in children(node):
        yield from figures(child)


def plain_attributes(node: Node) -> Iterator[Attr]:
    """The attributes below the node that stand outside of aggregates."""
    if isinstance(node, Attr):
        yield node
    elif not isinstance(node, Over):
        for child in children(node):
            yield from plain_attributes(child)


def groups_of(node: Node) -> frozenset[str]:
    """The groups that aggregates below the node are over."""
    return frozenset(figure.of.alias for figure in figures(node))


def compares_neighbours(predicate: Node) -> bool:
    """Whether a condition names PREV: it is then about each member of a group and the one before."""
    return any(attr.previous for attr in attributes(predicate))


def renamed(node: Node, names: Mapping[str, str]) -> Node:
    """The same about events called otherwise: `names` has the new name of every alias that changes."""

    def change(node: Node) -> Node | None:
        return replace(node, alias=names.get(node.alias, node.alias)) if isinstance(node, Attr) else None

    return rewrite(node, change)
