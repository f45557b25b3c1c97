"""Which sets of rows the units of an operator hold, and which of their rows belong together on one unit.

They follow from the plan alone, so whoever reads a saved state knows its columns, and whoever deals it out anew knows
where each row may go.
"""

from __future__ import annotations

from dataclasses import dataclass

from decopa.planning.plan import PlanOperator, QueryPlan
from decopa.planning.roles import Rule
from decopa.planning.subquery import SubQuery
from shuffler.routing.table import identity_columns

#: Rows of each side of a join that partners may still come for.
SIDES = ("side 0", "side 1")
#: Strip matches of Kleene families that may still grow.
FAMILIES = "families"
#: Positive matches of a negation that are not decided yet.
PENDING = "pending"
#: Negated matches that may still block a positive one.
NEGATED = "negated"
#: Matches that wait for what comes next.
WAITING = "waiting"
#: Matches of what follows in a NEXT that are not complete up to their time.
CANDIDATES = "candidates"


@dataclass(frozen=True, slots=True)
class RowSet:
    """Matches of `sub_query`; they are where the rows of side `side` are, one unit or all of them.

    With `together`, rows that agree in these columns must be on the same unit.
    """

    sub_query: SubQuery
    side: int
    together: tuple[str, ...] | None = None


def row_sets(plan: QueryPlan, operator: PlanOperator) -> dict[str, RowSet]:
    """The sets by name, for an operator that has inputs."""
    inputs = [source.sub_query for source in plan.inputs(operator)]
    roles = plan.roles(operator)
    together = (None, None) if roles.hashed is None else tuple((key,) for key in roles.hashed)
    match roles.rule:
        case Rule.JOIN:
            return {SIDES[side]: RowSet(sub_query, side, together[side]) for side, sub_query in enumerate(inputs)}
        case Rule.KLEENE_UNARY:
            return {FAMILIES: RowSet(inputs[0], 0, identity_columns(plan.query, inputs[0], roles.formed))}
        case Rule.KLEENE_BINARY:
            strip, rest = roles.strip(operator.sub_query), roles.main
            # A match of the rest and the strip matches that it is part of: an event that comes later extends them.
            identity = identity_columns(plan.query, strip, roles.formed)
            return {
                SIDES[rest]: RowSet(inputs[rest], rest, identity),
                SIDES[roles.other]: RowSet(inputs[roles.other], roles.other),
                FAMILIES: RowSet(strip, rest, identity),
            }
        case Rule.NEGATION:
            return {
                PENDING: RowSet(inputs[roles.main], roles.main, together[roles.main]),
                NEGATED: RowSet(inputs[roles.other], roles.other, together[roles.other]),
            }
        case Rule.NEXT:
            return {
                WAITING: RowSet(inputs[roles.main], roles.main, together[roles.main]),
                CANDIDATES: RowSet(inputs[roles.other], roles.other, together[roles.other]),
            }
    raise ValueError(f"operator {operator.name} has no inputs, so nothing is stored for it")
