"""Splits: which sub-query is matched from which others (Def. 2), and what each such step costs."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from costmodel.formulas import RateFormula
from costmodel.pricing import Flow, Join, KleeneBinary, KleeneUnary, Measured, Negation, Next, PricedOperator
from costmodel.rates import QueryRates
from decopa.planning.keys import Keys
from decopa.planning.roles import BOTH, Roles, Rule, roles_of
from decopa.planning.subquery import SubQuery, negated_part
from decopa.planning.succession import own_chain, problems
from decopa.query.analysis import Chain, Scope
from decopa.query.query import Query


@dataclass(frozen=True, slots=True)
class Step:
    """One operator of a split: a sub-query and the one or two sub-queries it is matched from."""

    sub_query: SubQuery
    inputs: tuple[SubQuery, ...]

    @property
    def sort_key(self) -> tuple[object, ...]:
        return (self.sub_query.sort_key, tuple(one.sort_key for one in self.inputs))


def dealt_inputs(step: Step, dealt: int) -> tuple[SubQuery, ...]:
    """The inputs that a choice deals out: none (-1), one of them, or BOTH."""
    return step.inputs if dealt == BOTH else step.inputs[dealt : dealt + 1] if dealt >= 0 else ()


#: A split holds each sub-query once, however many others are matched from it; leaves have no step.
Split = tuple[Step, ...]


def split_of(steps: Iterable[Step]) -> Split:
    """The steps, each sub-query once, inputs before what is matched from them."""
    return tuple(sorted(dict.fromkeys(steps), key=lambda step: step.sort_key))


class SplitSpace:
    """All valid steps of one OR-free query, with their prices."""

    def __init__(self, query: Query, rates: QueryRates) -> None:
        self.query, self.rates = query, rates
        self.keys = Keys(query, rates.statistics) if rates.statistics.measured else None
        self._roles: dict[Step, Roles] = {}
        self._prices: dict[tuple[Step, int], PricedOperator] = {}

    @cached_property
    def _kleene_contexts(self) -> dict[str, frozenset[str]]:
        """For each NOT (by one of its aliases): the Kleene aliases it depends on."""
        return {
            min(negation.aliases): self.query.context_of(negation) & self.query.kleene_aliases
            for negation in self.query.negations
        }

    def steps(self, sub_query: SubQuery) -> Iterator[Step]:
        """Every way to match a sub-query from smaller ones; none for a leaf."""
        if not self.query.chosen_in_order:
            yield from self._steps(sub_query)
            return
        chain = own_chain(self.query, sub_query)
        ways = self._steps(sub_query) if chain is None else self._chain_steps(sub_query, chain)
        for step in ways:
            parts = [(sub_query, step.inputs), *((one, ()) for one in step.inputs)]
            if not any(True for part, inputs in parts for _ in problems(self.query, part, inputs)):
                yield step

    def _steps(self, sub_query: SubQuery) -> Iterator[Step]:
        if len(sub_query.aliases) == 1 and not sub_query.closed:
            return
        yield from self._joins(sub_query)
        for alias in sorted(sub_query.closed & sub_query.positive(self.query)):
            group = self.query.group_of(alias)
            if any(group & self._kleene_contexts[min(n.aliases)] for n in sub_query.negations(self.query)):
                continue  # the NOT was decided on groups, so they were formed before
            if alias == min(group):
                yield Step(sub_query, (SubQuery(sub_query.aliases, sub_query.closed - group),))
            if len(group) == 1 < len(sub_query.positive(self.query)):
                rest = SubQuery(sub_query.aliases - {alias}, sub_query.closed - {alias})
                yield Step(sub_query, (rest, SubQuery(frozenset({alias}))))
        yield from self._negation_steps(sub_query)

    def _negation_steps(self, sub_query: SubQuery) -> Iterator[Step]:
        for negation in sub_query.negations(self.query):
            positive = SubQuery(sub_query.aliases - negation.aliases, sub_query.closed - negation.aliases)
            context = self.query.context_of(negation)
            if context <= positive.aliases and context & self.query.kleene_aliases <= positive.closed:
                yield Step(sub_query, (positive, negated_part(self.query, negation)))

    def _chain_steps(self, sub_query: SubQuery, chain: Chain) -> Iterator[Step]:
        """Two runs of a NEXT, one after the other or sharing events, and NOTs decided on the whole."""
        run = chain.run_of(sub_query.positive(self.query))
        assert run is not None
        for cut in run[1:]:
            yield from self._run_pairs(sub_query, chain, range(run.start, cut), range(cut, run.stop))
            for shared in range(run.start + 1, cut):
                yield from self._run_pairs(sub_query, chain, range(run.start, cut), range(shared, run.stop))
        yield from self._negation_steps(sub_query)

    def _run_pairs(self, sub_query: SubQuery, chain: Chain, left: range, right: range) -> Iterator[Step]:
        """The step that joins two runs; each NOT is decided on the left if its context is there, else on the right."""
        sides = [set().union(*chain.elements[one.start : one.stop]) for one in (left, right)]
        positive = [frozenset(side) for side in sides]
        for negation in sub_query.negations(self.query):
            context = self.query.context_of(negation)
            holders = [side for side in (0, 1) if context <= positive[side]]
            if not holders:
                return
            sides[holders[0]] |= negation.aliases
        parts = [SubQuery(frozenset(side), sub_query.closed & side) for side in sides]
        yield Step(sub_query, (parts[0], parts[1]))

    def _joins(self, sub_query: SubQuery) -> Iterator[Step]:
        """Pairs of proper sub-queries that cover it, in one order each; they may share positions."""
        blocks, scope = self._blocks(sub_query), sub_query.scope(self.query)
        if len(blocks) < 2:
            return
        for states in itertools.product(("left", "right", "both"), repeat=len(blocks)):
            if "left" not in states or "right" not in states or states.index("left") > states.index("right"):
                continue
            sides = []
            for side in ("left", "right"):
                aliases = frozenset().union(
                    *(block for block, state in zip(blocks, states, strict=True) if state in (side, "both"))
                )
                sides.append(SubQuery(aliases, sub_query.closed & aliases))
            if all(self._negation_closed(side, scope) for side in sides):
                yield Step(sub_query, (sides[0], sides[1]))

    def _blocks(self, sub_query: SubQuery) -> list[frozenset[str]]:
        """What a join may put on either side: single positive positions, whole NEXTs, whole groups of several events
        and whole negated parts."""
        negated = [negation.aliases for negation in sub_query.negations(self.query)]
        positive = sub_query.positive(self.query)
        chains: list[frozenset[str]] = []
        for chain in reversed(self.query.chains):  # outer ones first
            if chain.aliases <= positive and not any(chain.aliases <= outer for outer in chains):
                chains.append(chain.aliases)
        chains += [group for group in self.query.composites
                   if group <= sub_query.closed & positive and not any(group <= outer for outer in chains)]  # fmt: skip
        single = positive.difference(*chains) if chains else positive
        blocks = [frozenset({alias}) for alias in self.query.aliases if alias in single] + chains
        return blocks + negated

    def _negation_closed(self, side: SubQuery, scope: Scope) -> bool:
        """Whether a side of a join at `scope` has something positive, and with every NOT all that it depends on."""
        if not any(self.query.scope_of(alias) == scope for alias in side.aliases):
            return False
        return all(self.query.context_of(negation) <= side.aliases for negation in side.negations(self.query))

    def price(self, step: Step, partitioned: int | None = None) -> PricedOperator:
        """The step's price with one input partitioned: the given one, or the one that is best (6.1)."""
        choice = self.preferred(step) if partitioned is None else partitioned
        key = step, choice
        if key not in self._prices:
            self._prices[key] = self._price(step, choice)
        return self._prices[key]

    def preferred(self, step: Step, log_scaling: float = 0.0) -> int:
        """The input to deal out: the only one allowed, or of a join the one with more matches at rates times c."""
        allowed = self.roles(step).may_deal
        if len(allowed) == 1:
            return allowed[0]
        formulas = [self.rates.formula(one.aliases, one.closed) for one in step.inputs]
        return max(allowed, key=lambda side: formulas[side].log_at(log_scaling))

    def roles(self, step: Step) -> Roles:
        """What a step does with its inputs; which of them is dealt out is for the planner to decide."""
        if step not in self._roles:
            self._roles[step] = roles_of(self.query, step.sub_query, step.inputs)
        return self._roles[step]

    def log_rate(self, sub_query: SubQuery) -> float:
        return self.rates.log_rate(sub_query.aliases, sub_query.closed)

    def _price(self, step: Step, partitioned: int) -> PricedOperator:
        flows = [
            Flow(self.rates.formula(one.aliases, one.closed), partitioned=partitioned in (side, BOTH))
            for side, one in enumerate(step.inputs)
        ]
        matches = self.rates.formula(step.sub_query.aliases, step.sub_query.closed)
        roles = self.roles(step)
        if (
            self.keys is not None and roles.rule is not Rule.NEXT
        ):  # a NEXT compares what its formula says, measured or not
            return Measured(tuple(flows), self._compared(step, self.keys, matches), matches)
        match roles.rule:
            case Rule.KLEENE_UNARY:
                return KleeneUnary(flows[0], matches)
            case Rule.KLEENE_BINARY:
                groups = self.rates.formula(roles.formed, roles.formed)
                return KleeneBinary(flows[roles.main], flows[roles.other], groups, matches)
            case Rule.NEGATION:
                return Negation(flows[roles.main], flows[roles.other], matches)
            case Rule.NEXT:
                return Next(flows[roles.main], flows[roles.other], matches)
            case _:
                return Join(flows[0], flows[1], None, matches)

    def _compared(self, step: Step, keys: Keys, matches: RateFormula) -> tuple[RateFormula, ...]:
        """What the engine compares: pairs that meet, with equal keys; a comparison for each group that it forms; the
        negated matches up to the first that blocks."""
        roles = self.roles(step)
        if roles.formed:
            matches = matches.times(self.rates.tries(step.sub_query.aliases, min(roles.formed)))
        if roles.rule is Rule.KLEENE_UNARY:
            return (matches,)
        if roles.rule is Rule.NEGATION:
            positive, negated = step.inputs[roles.main], step.inputs[roles.other]
            negation = next(one for one in self.query.negations if one.aliases == negated.aliases)
            known = self.rates.negation(negation, positive.positive(self.query))
            arriving = self.rates.formula(positive.aliases, positive.closed)
            if known is None:
                blocking = self.rates.formula(negated.aliases, negated.closed)
                return (arriving.times(max(1e-9, blocking.at()), blocking.positions),)
            return (arriving.times(max(1e-9, known.compared), len(negated.aliases)),)
        left, right = step.inputs
        met = self.rates.candidates(left.aliases, right.aliases, left.closed | right.closed)
        pairs = met.times(max(keys.share(left, right)[0], 1e-300))
        return (pairs, matches) if roles.rule is Rule.KLEENE_BINARY else (pairs,)
