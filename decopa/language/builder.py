"""The query language as Python expressions: builds the same `Query` values as the text.

>>> a, b = event("A", "a"), event("B", "b")
>>> print(query(seq(a, b), where=a.x < b.x, within="10 min"))
QUERY q
PATTERN SEQ(A a, B b)
WHERE a.x < b.x
WITHIN 10 min
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, TypeAlias

from decopa.errors import QueryError
from decopa.language.constants import literal, ranking_of, window_us
from decopa.query.conditions.predicate import (
    AllOf,
    Among,
    AnyOf,
    Arithmetic,
    Attr,
    Call,
    Compare,
    Expr,
    Like,
    Literal,
    Missing,
    Negated,
    Negative,
    Over,
    Predicate,
)
from decopa.query.output import Output, needed_attributes
from decopa.query.pattern import And, EventRef, Except, Kleene, Next, Not, Or, Pattern, Seq
from decopa.query.query import Query
from decopa.query.rewrite.strategy import with_strategy

Constant: TypeAlias = int | float | str | bool | timedelta


class Condition:
    """Something that holds or not; combine with `&`, `|` and `~`."""

    __slots__ = ("predicate",)

    def __init__(self, predicate: Predicate) -> None:
        self.predicate = predicate

    def __and__(self, other: Condition | Value) -> Condition:
        return Condition(AllOf((*_parts(AllOf, self), *_parts(AllOf, other))))

    def __or__(self, other: Condition | Value) -> Condition:
        return Condition(AnyOf((*_parts(AnyOf, self), *_parts(AnyOf, other))))

    def __invert__(self) -> Condition:
        return Condition(Negated(self.predicate))

    def __bool__(self) -> bool:
        # Python's and, or, not and chained comparisons would silently drop one side.
        raise QueryError(
            f"'{self.predicate}' is decided for each match, not now; combine conditions with & | ~ instead of "
            "and, or, not, and write a < b < c as (a < b) & (b < c)"
        )

    def __repr__(self) -> str:
        return f"Condition({self.predicate})"


class Value:
    """A number, string or truth value that each match supplies: an attribute, or an expression over several."""

    __slots__ = ("expression",)
    __hash__ = None  # type: ignore[assignment]  # == builds a condition, so equal values cannot be looked up

    def __init__(self, expression: Expr) -> None:
        self.expression = expression

    def isin(self, values: Iterable[Constant]) -> Condition:
        """`a.x IN (1, 2)`."""
        return Condition(Among(self.expression, tuple(literal(value) for value in values)))

    def is_null(self) -> Condition:
        """`a.x IS NULL`; `~a.x.is_null()` is IS NOT NULL."""
        return Condition(Missing(self.expression))

    def between(self, low: Operand, high: Operand) -> Condition:
        """`a.x BETWEEN 1 AND 2`, both ends included."""
        return (self >= low) & (self <= high)

    def like(self, pattern: str, *, any_case: bool = False) -> Condition:
        """`a.s LIKE 'x%'`; with `any_case` `lower(a.s) LIKE ...`."""
        if not isinstance(self.expression, Attr):
            raise QueryError(f"LIKE takes a text attribute, as in a.name.like('x%'), got {self.expression}")
        return Condition(Like(self.expression, pattern, any_case))

    def __lt__(self, other: Operand) -> Condition:
        return self._compare("<", other)

    def __le__(self, other: Operand) -> Condition:
        return self._compare("<=", other)

    def __gt__(self, other: Operand) -> Condition:
        return self._compare(">", other)

    def __ge__(self, other: Operand) -> Condition:
        return self._compare(">=", other)

    def __eq__(self, other: Operand) -> Condition:  # type: ignore[override]  # builds a condition, decides nothing
        return self._compare("=", other)

    def __ne__(self, other: Operand) -> Condition:  # type: ignore[override]
        return self._compare("!=", other)

    def __add__(self, other: Operand) -> Value:
        return _arithmetic("+", self, other)

    def __radd__(self, other: Operand) -> Value:
        return _arithmetic("+", other, self)

    def __sub__(self, other: Operand) -> Value:
        return _arithmetic("-", self, other)

    def __rsub__(self, other: Operand) -> Value:
        return _arithmetic("-", other, self)

    def __mul__(self, other: Operand) -> Value:
        return _arithmetic("*", self, other)

    def __rmul__(self, other: Operand) -> Value:
        return _arithmetic("*", other, self)

    def __truediv__(self, other: Operand) -> Value:
        return _arithmetic("/", self, other)

    def __rtruediv__(self, other: Operand) -> Value:
        return _arithmetic("/", other, self)

    def __neg__(self) -> Value:
        inner = self.expression
        if isinstance(inner, Literal) and isinstance(inner.value, int | float):
            return Value(Literal(-inner.value))
        return Value(Negative(inner))

    def __and__(self, other: Condition | Value) -> Condition:
        return _condition(self) & other

    def __or__(self, other: Condition | Value) -> Condition:
        return _condition(self) | other

    def __invert__(self) -> Condition:
        return ~_condition(self)

    def __bool__(self) -> bool:
        return bool(_condition(self))

    def __repr__(self) -> str:
        return f"Value({self.expression})"

    def _compare(self, op: str, other: Operand) -> Condition:
        return Condition(Compare(op, self.expression, _expression(other)))


class Event:
    """`A a`; `a.x` and `a["start station"]` are its attributes."""

    __slots__ = ("_ref",)

    def __init__(self, ref: EventRef) -> None:
        self._ref = ref

    def __getattr__(self, name: str) -> Value:
        if name.startswith("__"):  # Python looks for protocols it may support; none of them is an attribute
            raise AttributeError(name)
        return self[name]

    def __getitem__(self, name: str) -> Value:
        return Value(Attr(self._ref.alias, name))

    def __repr__(self) -> str:
        return f"Event({self._ref})"


Operand: TypeAlias = Value | Constant
PatternLike: TypeAlias = Event | Pattern


# ------------------------------------------------------------------- patterns
def event(event_type: str | Sequence[str], alias: str | None = None) -> Event:
    """One event of a type, or of one of several: `event(["B", "C"], "x")`; `event("*", "x")` is of any type.

    Without an alias it is called like its type, as in the text.
    """
    types = [event_type] if isinstance(event_type, str) else list(event_type)
    if not types:
        raise QueryError("an event needs a type, as in event('A', 'a')")
    return Event(EventRef(types[0], types[0] if alias is None else alias, tuple(types[1:])))


def seq(*children: PatternLike) -> Seq:
    """SEQ(...): one after the other."""
    return Seq(_patterns(children))


def next_(*children: PatternLike) -> Next:
    """NEXT(...): after the first pattern the next event of each position, one after the other."""
    return Next(_patterns(children))


def strict(*children: PatternLike) -> Next:
    """STRICT(...): as NEXT, with no event of any type in between."""
    return Next(_patterns(children), strict=True)


def except_(pattern: PatternLike, absent: PatternLike) -> Except:
    """EXCEPT(P, E): P without an E between its first and its last event."""
    return Except(_pattern(pattern), _pattern(absent))


def and_(*children: PatternLike) -> And:
    """AND(...): all of them, in any order."""
    return And(_patterns(children))


def or_(*children: PatternLike) -> Or:
    """OR(...): one of them."""
    return Or(_patterns(children))


def kleene(child: PatternLike, least: int = 1, most: int | None = None) -> Kleene:
    """KL(A a): one or more; KL(A a){2,5} with `least` and `most`; KL(SEQ(A a, B b)) over several events."""
    return Kleene(_pattern(child), least, most)  # type: ignore[arg-type]  # Kleene itself refuses anything else


def iterate(child: Event, least: int = 1, most: int | None = None) -> Kleene:
    """ITER(A a): runs of neighbours."""
    return Kleene(_pattern(child), least, most, runs=True)  # type: ignore[arg-type]


def not_(child: PatternLike) -> Not:
    """NOT(P) inside `seq`: none in between."""
    return Not(_pattern(child))


def nseq(first: PatternLike, absent: PatternLike, last: PatternLike) -> Seq:
    """NSEQ(A a, B b, C c): a before c without b in between."""
    return seq(first, not_(absent), last)


# ---------------------------------------------------------- values, conditions
def constant(value: Constant) -> Value:
    """A constant on the left of an operator, as in `constant(3) < a.x`, which Python would turn round otherwise."""
    return Value(literal(value))


def dist_km(lat: Operand, lon: Operand, other_lat: Operand, other_lon: Operand) -> Value:
    """Great-circle distance in kilometres between two points in degrees."""
    return _call("dist_km", lat, lon, other_lat, other_lon)


def abs_(value: Operand) -> Value:
    return _call("abs", value)


def sqrt(value: Operand) -> Value:
    return _call("sqrt", value)


def min_(*values: Operand) -> Value:
    return _call("min", *values)


def max_(*values: Operand) -> Value:
    return _call("max", *values)


def call(function: str, *arguments: Operand) -> Value:
    """Any function of the language by its name, as in call("floor", a.x) or call("hour", a.ts)."""
    return _call(function, *arguments)


def prev(value: Value) -> Value:
    """PREV(b.x): the attribute of the member before, in a group."""
    if not isinstance(value, Value) or not isinstance(value.expression, Attr):
        raise QueryError(f"prev takes an attribute, as in prev(b.x), got {value!r}")
    return Value(replace(value.expression, previous=True))


def over(function: str, members: Event | Value) -> Value:
    """An aggregate over the members of a group: over("count", b), over("sum", b.x)."""
    if isinstance(members, Event):
        return Value(Over(function, Attr(members._ref.alias, "id")))
    if not isinstance(members, Value) or not isinstance(members.expression, Attr):
        raise QueryError(f'over takes an attribute, as in over("sum", b.x), got {members!r}')
    return Value(Over(function, members.expression))


def forall(events: Sequence[Event], condition: Callable[[Event, Event], Condition | Value]) -> Condition:
    """The condition on every pair of the list, the first argument before the second in it."""
    pairs = [(one, other) for place, one in enumerate(events) for other in events[place + 1 :]]
    if not pairs:
        raise QueryError("forall needs at least two events, as in forall([a, b], lambda i, j: i.x < j.x)")
    bound = tuple(_condition(condition(one, other)).predicate for one, other in pairs)
    return Condition(bound[0] if len(bound) == 1 else AllOf(bound))


# ---------------------------------------------------------------------- query
def query(
    pattern: PatternLike,
    *,
    where: Condition | Value | Iterable[Condition | Value] = (),
    filters: Condition | Value | Iterable[Condition | Value] = (),
    strategy: str = "any",
    by: str | None = None,
    within: str | timedelta | int,
    name: str = "q",
    returns: Iterable[Value] | Mapping[str, Value] = (),
    order_by: str | Iterable[str] = (),
    limit: int | None = None,
) -> Query:
    """The query; `within` is a duration as in the text, a timedelta, or whole microseconds.

    Several conditions in `where` must all hold; those in `filters` say which events a NEXT skips (FILTER). `strategy`
    and `by` read a SEQ as STRATEGY does. `returns` lists attributes, or gives names to expressions. `order_by` names
    columns of the result, those with a minus in front descending, and `limit` says how many rows are kept.
    """
    named = tuple(returns.items()) if isinstance(returns, Mapping) else ()
    output = tuple(Output(_expression(value), column) for column, value in named)
    built = Query(
        pattern=_pattern(pattern),
        where=_conditions(where),
        window_us=window_us(within),
        name=name,
        returns=needed_attributes(output) if output else tuple(_returned(value) for value in returns),
        skips=_conditions(filters),
        output=output,
        ranking=ranking_of(order_by, limit),
    )
    return with_strategy(built, strategy, by)


def _conditions(given: Condition | Value | Iterable[Condition | Value]) -> tuple[Predicate, ...]:
    several = (given,) if isinstance(given, Condition | Value) else tuple(given)
    return tuple(_condition(one).predicate for one in several)


def _patterns(children: tuple[PatternLike, ...]) -> tuple[Pattern, ...]:
    return tuple(_pattern(child) for child in children)


def _pattern(child: Any) -> Pattern:
    if isinstance(child, Event):
        return child._ref
    if isinstance(child, EventRef | Seq | Next | And | Or | Kleene | Not | Except):
        return child
    raise QueryError(f"expected an event or a pattern, got {child!r}; write it as in seq(event('A', 'a'), ...)")


def _condition(given: Any) -> Condition:
    if isinstance(given, Condition):
        return given
    if isinstance(given, Value) and isinstance(given.expression, Attr):  # a truth value on its own
        return Condition(Compare("=", given.expression, Literal(True)))
    shown = given.expression if isinstance(given, Value) else repr(given)
    raise QueryError(f"expected a condition, got {shown}; compare it, as in a.x < 10")


def _parts(kind: type[AllOf | AnyOf], given: Condition | Value) -> tuple[Predicate, ...]:
    """What `given` adds to an AND (OR): `a & b & c` is one AND of three, as in the text."""
    predicate = _condition(given).predicate
    return predicate.parts if isinstance(predicate, kind) else (predicate,)


def _expression(operand: Any) -> Expr:
    if isinstance(operand, Value):
        return operand.expression
    if isinstance(operand, Condition):
        raise QueryError(f"expected a number, string or attribute, found the condition '{operand.predicate}'")
    return literal(operand)


def _arithmetic(op: str, left: Operand, right: Operand) -> Value:
    return Value(Arithmetic(op, _expression(left), _expression(right)))


def _call(function: str, *arguments: Operand) -> Value:
    return Value(Call(function, tuple(_expression(argument) for argument in arguments)))


def _returned(value: Any) -> Attr:
    if isinstance(value, Value) and isinstance(value.expression, Attr):
        return value.expression
    raise QueryError(
        f'returns lists attributes, as in returns=[a.x], or names expressions, as in returns={{"total": a.x + b.x}}, '
        f"got {value!r}"
    )
