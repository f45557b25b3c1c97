"""A plan as a tree of text: which lines it has, and how they fit into the columns of a terminal."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

from decopa.planning.plan import PlanOperator, QueryPlan


@dataclass(frozen=True, slots=True)
class TreeRow:
    """One line of the tree: `lead` goes before its label, `below` before what the label continues with."""

    lead: str
    below: str
    label: str
    operator: PlanOperator
    again: bool


def tree_rows(part: QueryPlan) -> Iterator[TreeRow]:
    """The operators, root first, each above what it is fed by; one that feeds several is shown in full once."""
    return _below(part, part.root, "", "", set())


def _below(part: QueryPlan, operator: PlanOperator, lead: str, below: str, seen: set[str]) -> Iterator[TreeRow]:
    again = operator.name in seen
    inputs = () if again else part.inputs(operator)
    seen.add(operator.name)
    origin = "" if operator.view is None else f" of {operator.view.part}"
    label = printable(f"{operator.name} {sub_query_text(part, operator)}{origin}")
    yield TreeRow(lead, below + ("│  " if inputs else "   "), label, operator, again)
    for place, source in enumerate(inputs):
        last = place == len(inputs) - 1
        yield from _below(part, source, below + ("└─ " if last else "├─ "), below + ("   " if last else "│  "), seen)


def sub_query_text(plan: QueryPlan, operator: PlanOperator) -> str:
    """The sub-query with types; a leaf whose type occurs more than once in the query has its alias, too."""
    text = operator.sub_query.text(plan.query)
    types = [position.type for position in plan.query.positions]
    if len(operator.sub_query.aliases) == 1 and types.count(text) > 1:
        (alias,) = operator.sub_query.aliases
        return f"{text} {alias}"
    return text


def printable(text: str) -> str:
    """The text without what a terminal would obey: names may hold anything."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text)


def wrapped(text: str, width: int) -> list[str]:
    """The text in lines of at most `width` columns, broken after commas if there are any."""
    lines, line = [], ""
    for piece in text.replace(",", ",\n").split("\n"):
        if line and columns_of(line + piece) > width:
            lines.append(line)
            line = ""
        line += piece
        while columns_of(line) > width:
            at = next(at for at in range(len(line), 0, -1) if columns_of(line[:at]) <= width)
            lines.append(line[:at])
            line = line[at:]
    return [*lines, line] if line else lines


def padded(text: str, columns: int) -> str:
    return text + " " * (columns - columns_of(text))


def columns_of(text: str) -> int:
    """Columns that the text takes on a terminal: East Asian letters take two, accents none."""
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text
    )
