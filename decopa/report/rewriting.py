"""What rewriting did to the NEXTs of a plan: the brackets as issued and as planned, with what each costs."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from costmodel.papers.next_cost import After, Expression, Stream, cost, operators_of, profile
from decopa.planning.plan import PlanOperator, QueryPlan
from decopa.planning.price import PricedPlan
from decopa.planning.rewriter.next_chain import cheapest
from decopa.planning.roles import Rule


def rewriting_lines(part: QueryPlan, priced: PricedPlan | None, quantity: Callable[[float], str]) -> list[str]:
    """One line for each NEXT of three or more single events: from left to right, and as the plan has it.

    The engine's work is rows gone through and compared, twice the first input and once the second (worst case, no
    selectivities); the paper's cost counts bursts, too. `quantity` writes a number.
    """
    if priced is None:
        return []
    rates = {
        one.operator.sub_query.text(part.query) + f" {min(one.operator.sub_query.aliases)}": one.output_rate
        for one in priced.operators
        if not one.operator.inputs
    }
    lines = []
    for chain in part.query.chains:
        top = next((one for one in part.operators if one.sub_query.positive(part.query) == chain.aliases), None)
        planned = None if top is None else _tree(part, top)
        if planned is None or len(chain.positions) < 2:
            continue
        operands = _streams(planned)
        issued = operands[0]
        for operand in operands[1:]:
            issued = After(issued, operand)
        known = {name: max(rate, 1e-300) for name, rate in rates.items()}
        best = cheapest(operands, known)
        lines.append(
            f"rewritten: {_shown(issued)} -> {_shown(planned)}; work per window {quantity(work(issued, known))} -> "
            f"{quantity(work(planned, known))}; by the NEXT paper's model {quantity(cost(issued, known))} -> "
            f"{quantity(cost(planned, known))}, at best {quantity(best.profile.cost)} for {_shown(best.tree)}"
        )
    return lines


def work(tree: Expression, rates: Mapping[str, float]) -> float:
    """Rows that the engine goes through and compares per window for a tree of NEXTs, in the worst case."""
    return sum(
        2 * profile(one.left, rates).rate + profile(one.right, rates).rate
        for one in operators_of(tree)
        if isinstance(one, After)
    )


def _tree(part: QueryPlan, operator: PlanOperator) -> Expression | None:
    """The operator as an expression; None if it is not made of NEXTs over single events alone."""
    if not operator.inputs:
        return Stream(f"{operator.sub_query.text(part.query)} {min(operator.sub_query.aliases)}")
    roles = part.roles(operator)
    if roles.rule is not Rule.NEXT:
        return None
    inputs = part.inputs(operator)
    left, right = _tree(part, inputs[roles.main]), _tree(part, inputs[roles.other])
    return None if left is None or right is None else After(left, right)


def _streams(tree: Expression) -> list[Expression]:
    return [*_streams(tree.left), *_streams(tree.right)] if isinstance(tree, After) else [tree]


def _shown(tree: Expression) -> str:
    """The brackets with types only."""
    if isinstance(tree, After):
        return f"({_shown(tree.left)};{_shown(tree.right)})"
    return str(tree).rpartition(" ")[0]
