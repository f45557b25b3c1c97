"""The simplest plan: left-deep in query order, one unit per operator."""

from __future__ import annotations

from collections.abc import Sequence

from decopa.errors import PlanError
from decopa.planning.plan import PlanOperator, QueryPlan
from decopa.planning.subquery import SubQuery, negated_part
from decopa.query.analysis import Chain, Negation, Scope
from decopa.query.query import Query


def left_deep(query: Query, order: Sequence[str] | None = None) -> QueryPlan:
    """Joins the plain positions in query order, then adds KL positions by binary splits, and each NOT as soon as
    all that it depends on is bound. KL comes last because groups multiply everything that is joined after them. The
    events of KL over several are joined like others, and their groups are formed at the end.

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

    def given_parts(self, scope: Scope) -> list[SubQuery]:
        """The prepared parts that are joined at `scope`; events of KL positions are closed later."""
        positive = [part for part in self.parts if not scope and not part.scope(self.query)]
        return [part for part in positive if not part.aliases <= self.query.kleene_aliases - part.closed]

    def add(self, sub_query: SubQuery, *inputs: PlanOperator) -> PlanOperator:
        name = f"o{len(self.operators) + 1}"
        operator = PlanOperator(name, sub_query, tuple(source.name for source in inputs))
        self.operators.append(operator)
        return operator

    def leaf(self, alias: str) -> PlanOperator:
        return self.add(SubQuery(frozenset({alias})))

    def scope_plan(self, scope: Scope) -> PlanOperator:
        """Plans everything positive at `scope` and the NOTs directly below it; returns the last operator."""
        here = frozenset(alias for alias in self.order if self.query.scope_of(alias) == scope)
        given = self.given_parts(scope)
        prepared = frozenset[str]().union(*(part.aliases for part in given))
        pending = [
            negation
            for negation in self.query.negations
            if negation.scope[:-1] == scope and negation.aliases <= frozenset(self.order) - prepared
        ]
        return self.part_plan(here - prepared, pending, given)

    def part_plan(
        self, aliases: frozenset[str], pending: list[Negation], given: Sequence[SubQuery] = ()
    ) -> PlanOperator:
        """Plans prepared parts and the given positions of one scope; takes NOTs out of `pending` as soon as they are
        decided."""
        chain = next((one for one in self.query.chains if one.aliases == aliases), None)
        if chain is not None:
            return self.chain_plan(chain, pending)
        inner = self._outermost_chains(aliases)
        order = [alias for alias in self.order if alias in aliases]
        whole = {min(one.aliases, key=order.index): one for one in inner}
        single = aliases.difference(*(one.aliases for one in inner)) if inner else aliases
        composite = frozenset[str]().union(*self.query.composites) & aliases
        late = self.query.kleene_aliases - self.query.run_aliases - composite
        plain = [a for a in order if a in whole or (a in single and a not in late)]
        groups = [a for a in order if a in single and a in late]

        def input_for(part: SubQuery | str) -> PlanOperator:
            if isinstance(part, SubQuery):
                return self.add(part)
            if part in whole:
                return self.chain_plan(whole[part], pending)
            leaf = self.leaf(part)
            return self.add(_closing(leaf.sub_query, part), leaf) if part in self.query.run_aliases else leaf

        # Without a plain position the first KL position starts as single events and is closed at the end.
        parts: list[SubQuery | str] = [*given, *plain]
        first, unary = (parts.pop(0), None) if parts else (groups[0], groups.pop(0))
        done = self.decided(input_for(first), pending)
        for part in parts:
            other = input_for(part)
            done = self.decided(self.add(_union(done, other), done, other), pending)
        for alias in groups:
            leaf = self.leaf(alias)
            done = self.decided(self.add(_closing(_union(done, leaf), alias), done, leaf), pending)
        closing = [*([frozenset({unary})] if unary is not None else []), *self._composites(composite)]
        for group in closing:
            done = self.decided(self.add(_closing(done.sub_query, *group), done), pending)
        return done

    def _composites(self, aliases: frozenset[str]) -> list[frozenset[str]]:
        """The groups of several events among the aliases, in the order of the query."""
        return list(dict.fromkeys(self.query.group_of(alias) for alias in self.query.aliases if alias in aliases))

    def chain_plan(self, chain: Chain, pending: list[Negation]) -> PlanOperator:
        """A NEXT from left to right: its first pattern, then one event at a time. Exact for every FILTER."""
        done = self.part_plan(chain.head, pending)
        for alias in chain.positions:
            leaf = self.leaf(alias)
            done = self.decided(self.add(_union(done, leaf), done, leaf), pending)
        return done

    def decided(self, done: PlanOperator, pending: list[Negation]) -> PlanOperator:
        """`done` with every NOT of `pending` decided that depends on nothing else."""
        for negation in tuple(pending):
            context = self.query.context_of(negation)
            formed = context & self.query.kleene_aliases <= done.sub_query.closed
            if context <= done.sub_query.aliases and formed:
                pending.remove(negation)
                negated = self.scope_plan(negation.scope)
                assert negated.sub_query == negated_part(self.query, negation)
                done = self.add(_union(done, negated), done, negated)
        return done

    def _outermost_chains(self, aliases: frozenset[str]) -> list[Chain]:
        found: list[Chain] = []
        for chain in reversed(self.query.chains):  # outer ones first
            if chain.aliases <= aliases and not any(chain.aliases <= outer.aliases for outer in found):
                found.append(chain)
        return found


def _union(one: PlanOperator, other: PlanOperator) -> SubQuery:
    return SubQuery(one.sub_query.aliases | other.sub_query.aliases, one.sub_query.closed | other.sub_query.closed)


def _closing(sub_query: SubQuery, *aliases: str) -> SubQuery:
    return SubQuery(sub_query.aliases, sub_query.closed.union(aliases))
