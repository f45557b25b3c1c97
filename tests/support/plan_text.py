"""Plans written down operator by operator, as tests need them."""

from __future__ import annotations

from decopa.language.text.parser import parse
from decopa.planning.plan import PlanOperator, QueryPlan
from decopa.planning.subquery import SubQuery


def operator(name: str, positions: str, inputs: str = "", *, units: int = 1, partitioned: bool = False) -> PlanOperator:
    """`operator("o", "a b* c", "o1 o2")`: positions by alias, a KL alias whose groups are formed with a star."""
    words = positions.split()
    aliases = frozenset(word.rstrip("*") for word in words)
    closed = frozenset(word[:-1] for word in words if word.endswith("*"))
    return PlanOperator(name, SubQuery(aliases, closed), tuple(inputs.split()), units, partitioned)


def plan_of(pattern: str, *operators: PlanOperator, where: str = "") -> QueryPlan:
    condition = f"WHERE {where} " if where else ""
    return QueryPlan(parse(f"PATTERN {pattern} {condition}WITHIN 1 s"), operators)


def leaves(*aliases: str) -> tuple[PlanOperator, ...]:
    """One leaf per alias, called like it."""
    return tuple(operator(alias, alias) for alias in aliases)
