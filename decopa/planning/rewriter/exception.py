"""E1;(E2\\E3) = (E1;E2)\\E3: takes exceptions out of a chain, so that its brackets can be moved.

Holds only if E1 is a single event: for E1 = (U;V) an E3 between U and V blocks the right form only. Taking it out costs
more by itself (55 instead of 49 in the paper's example), so it pays only if the chain gains by other brackets.
"""

from __future__ import annotations

from collections.abc import Mapping

from costmodel.papers.next_cost import After, Expression, Stream, Unless, cost


def hoisted(expression: Expression) -> Expression:
    """The expression with every exception to the right of a single event taken out of its NEXT."""
    match expression:
        case After(left=Stream() as left, right=Unless() as right):
            return Unless(hoisted(After(left, right.left)), hoisted(right.right))
        case After():
            moved = After(hoisted(expression.left), hoisted(expression.right))
            return hoisted(moved) if moved != expression else moved
        case Unless():
            return Unless(hoisted(expression.left), hoisted(expression.right))
    return expression


def cheaper_of_both(expression: Expression, rates: Mapping[str, float]) -> Expression:
    """The form that costs less by the paper's model; as issued if both cost the same."""
    other = hoisted(expression)
    return other if cost(other, rates) < cost(expression, rates) else expression
