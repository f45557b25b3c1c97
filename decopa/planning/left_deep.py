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


def joined_parts(query: Query, parts: Sequence[SubQuery]) -> QueryPlan:
    """The same for the part of a query that others have prepared: `parts` are joined in their order.

    A part of several positions is a leaf of the plan, for its matches come from elsewhere. Parts that are single events
    of KL or negated positions take their place as in `left_deep`.
    """
    aliases = frozenset[str]().union(*(part.aliases for part in parts))
    builder = _Builder(query, tuple(alias for alias in query.aliases if alias in aliases), tuple(parts))
    builder.scope_plan(())
    return QueryPlan(query, tuple(builder.operators))


class _Builder:
    def __init__(self, query: Query, order: tuple[str, ...], parts: tuple[SubQuery, ...] = ()) -> None:
        self.query, self.order, self.parts = query, order, parts
        self.operators: list[PlanOperator] = []

    def plain_parts(self, scope: Scope) -> list[SubQuery]:
        """What is joined at `scope` before KL positions: prepared parts at the top, else one position after another."""
        if self.parts and not scope:
            positive = [part for part in self.parts if not part.scope(self.query)]
            return [part for part in positive if not part.aliases <= self.query.kleene_aliases - part.closed]
        here = [position for position in map(self.query.position, self.order) if position.scope == scope]
        return [SubQuery(frozenset({position.alias})) for position in here if not position.kleene]

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
        plain = self.plain_parts(scope)
        prepared = frozenset[str]().union(*(part.aliases for part in plain))
        groups = [position.alias for position in here if position.kleene and position.alias not in prepared]
        pending = [
            negation
            for negation in self.query.negations
            if negation.scope[:-1] == scope and negation.aliases <= frozenset(self.order) - prepared
        ]
        # Without a plain position the first KL position starts as single events and is closed at the end.
        first, unary = (plain.pop(0), None) if plain else (SubQuery(frozenset({groups[0]})), groups.pop(0))
        done = self.add(first)

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
        for part in plain:
            leaf = self.add(part)
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
