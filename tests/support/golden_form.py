"""Queries and events as the golden files write them -> ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from decopa.language.text.parser import parse
from decopa.query.conditions.predicate import Attr, Compare, Literal
from decopa.query.names import duration_text, quoted
from decopa.query.pattern import And, EventRef, Kleene, Not, Or, Pattern, Seq
from decopa.query.query import Query

#: One unit of golden time. Their times have at most three decimals, so they become whole microseconds.
TICK_US = 1000
#: Without a bound: longer than any golden stream.
UNBOUNDED_US = 10**12
#: A window of 0 asks for equal times; ours must be positive, and 1 us is less than any gap between golden times.
SIMULTANEOUS_US = 1


def query_of(golden: Mapping[str, Any]) -> Query:
    return Query(
        pattern=pattern_of(golden["pattern"]),
        where=tuple(comparison_of(condition) for condition in golden.get("where") or ()),
        window_us=window_us(golden.get("within")),
    )


def text_of(golden: Mapping[str, Any]) -> str:
    """The query as a person would type it, through our grammar and not through our tree."""
    conditions = [
        f"{_side_text(condition['left'])} {condition['op']} {_side_text(condition['right'])}"
        for condition in golden.get("where") or ()
    ]
    where = f"WHERE {' AND '.join(conditions)} " if conditions else ""
    return f"PATTERN {_pattern_text(golden['pattern'])} {where}WITHIN {duration_text(window_us(golden.get('within')))}"


def events_of(golden: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The golden time `t` stays beside our `ts`, since conditions may name it."""
    return [{**event, "ts": round(event["t"] * TICK_US)} for event in golden]


def window_us(within: float | None) -> int:
    if within is None:
        return UNBOUNDED_US
    return max(round(within * TICK_US), SIMULTANEOUS_US)


def pattern_of(golden: Any) -> Pattern:
    operator, children = _parts(golden)
    match operator:
        case "LEAF":
            return EventRef(*children)
        case "KL":
            return Kleene(pattern_of(children[0]))  # type: ignore[arg-type]
        case "NSEQ":
            before, absent, after = map(pattern_of, children)
            return Seq((before, Not(absent), after))
        case "SEQ":
            return Seq(tuple(map(pattern_of, children)))
        case "AND":
            return And(tuple(map(pattern_of, children)))
        case "OR":
            return Or(tuple(map(pattern_of, children)))
    raise ValueError(f"no operator {operator} in golden patterns")


def comparison_of(condition: Mapping[str, Any]) -> Compare:
    op = {"==": "=", "<>": "!="}.get(condition["op"], condition["op"])
    left, right = condition["left"], condition["right"]
    return Compare(op, Attr(*left), Attr(*right) if isinstance(right, list) else Literal(right))


def parsed(golden: Mapping[str, Any]) -> Query:
    return parse(text_of(golden))


def _parts(golden: Any) -> tuple[str, list[Any]]:
    """Operator and children of any of the golden forms; a leaf has its type and alias as children."""
    if isinstance(golden, str):
        words = golden.split()
        return "LEAF", [words[0], words[-1]]
    if isinstance(golden, Mapping):
        if "type" in golden:
            return "LEAF", [golden["type"], golden.get("alias", golden["type"])]
        return golden["op"], list(golden["args"])
    return golden[0], list(golden[1:])


def _pattern_text(golden: Any) -> str:
    operator, children = _parts(golden)
    if operator == "LEAF":
        event_type, alias = children
        return quoted(event_type) if event_type == alias else f"{quoted(event_type)} {quoted(alias)}"
    return f"{operator}({', '.join(map(_pattern_text, children))})"


def _side_text(side: Any) -> str:
    if isinstance(side, list):
        return ".".join(map(quoted, side))
    return str(Literal(side))
