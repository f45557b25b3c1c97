"""The simplest plan: left-deep in query order, one unit per operator."""

from __future__ import annotations

from collections.abc import Sequence

from decopa.errors import PlanError
from decopa.planning.plan import PlanOperator, QueryPlan
from decopa.planning.subquery import SubQuery, negated_part
from decopa.query.analysis import Scope
from decopa.query.query import Query


def left_deep(query: Query, order: Sequence[str] | None = None) -> QueryPlan:
    """Joins the plain positions in query order, then adds KL positions by binary splits, and each NOT as soon as
    all that it depends on is bound. KL comes last because groups multiply everything that is joined after them.

    `order` lists all aliases in another order to join them in, for instance rare types first.
    """
    if order is not None and sorted(order) != sorted(query.aliases):
        raise PlanError(f"the join order {list(order)} must list the aliases {list(query.aliases)}, each once")
    builder = _Builder(query, tuple(order or query.aliases))
    builder.scope_plan(())
    return QueryPlan(query, tuple(builder.operators))


class _Builder:
    def __init__(self, query: Query, order: tuple[str, ...]) -> None:
        self.query, self.order = query, order
        self.operators: list[PlanOperator] = []

    def add(self, sub_query: SubQuery, *inputs: PlanOperator) -> PlanOperator:
        name = f"o{len(self.operators) + 1}"
        operator = PlanOperator(name, sub_query, tuple(source.name for source in inputs))
        self.operators.append(operator)
        return operator

    def leaf(self, alias: str) -> PlanOperator:
        return self.add(SubQuery(frozenset({alias})))

    def scope_plan(self, scope: Scope) -> PlanOperator:
        """Plans everything positive at `scope` and the NOTs directly below it; returns the last operator."""
        here = [position for position in map(self.query.position, self.order) if position.scope == scope]
        plain = [position.alias for position in here if not position.kleene]
        groups = [position.alias for position in here if position.kleene]
        pending = [negation for negation in self.query.negations if negation.scope[:-1] == scope]
        # Without a plain position the first KL position starts as single events and is closed at the end.
        first, unary = (plain.pop(0), None) if plain else (groups[0], groups.pop(0))
        done = self.leaf(first)

        def ready_negations() -> None:
            nonlocal done
            for negation in tuple(pending):
                context = self.query.context_of(negation)
                formed = context & self.query.kleene_aliases <= done.sub_query.closed
                if context <= done.sub_query.aliases and formed:
                    pending.remove(negation)
                    negated = self.scope_plan(negation.scope)
                    assert negated.sub_query == negated_part(self.query, negation)
                    done = self.add(_union(done, negated), done, negated)

        ready_negations()
        for alias in plain:
            leaf = self.leaf(alias)
            done = self.add(_union(done, leaf), done, leaf)
            ready_negations()
        for alias in groups:
            leaf = self.leaf(alias)
            done = self.add(_closing(_union(done, leaf), alias), done, leaf)
            ready_negations()
        if unary is not None:
            done = self.add(_closing(done.sub_query, unary), done)
            ready_negations()
        return done


def _union(one: PlanOperator, other: PlanOperator) -> SubQuery:
    return SubQuery(one.sub_query.aliases | other.sub_query.aliases, one.sub_query.closed | other.sub_query.closed)


def _closing(sub_query: SubQuery, alias: str) -> SubQuery:
    return SubQuery(sub_query.aliases, sub_query.closed | {alias})
