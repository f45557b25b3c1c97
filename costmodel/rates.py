"""Selectivity and match rate of a query, Kleene included (5.3.1).

Rates are matches per window. They follow from the rates of the primitive events and the pairwise selectivities, or
from the measured selectivity of a sub-query where there is one. Errata of the paper are applied: pairs of types count
once, n positions of one type make n(n-1)/2 pairs, groups have at least one member. What was measured of a sub-query
(its selectivity, how often its events meet, its groups, the share that a NOT blocks) replaces what the formulas say;
without it, negated parts are left out (MuSE 4.4), so that the rate of a query with NOT is a bound.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from costmodel.completion import ChainRate, Rate, RunRate
from costmodel.formulas import ENGINE, PAPER, KleeneGroup, RateFormula, RateModel
from costmodel.logarithms import clamped, log_of, value_of
from costmodel.statistics import (
    Pair,
    PairSelectivity,
    Statistics,
    connected_pairs,
    deciding_alone,
    neighbouring_positions,
    pair_of,
)
from costmodel.sub_queries import NegationShare, SubQuerySelectivity
from costmodel.time_order import TimeOrder, log_time_factor, positive_aliases
from decopa.errors import StatisticsError
from decopa.query.analysis import Chain, Negation, project, strip_kleene, structure
from decopa.query.conditions.predicate import aliases_of
from decopa.query.pattern import EventRef, Pattern, children_of, leaves, with_children
from decopa.query.query import Query


class QueryRates:
    """Rates of the sub-queries of one OR-free query, named by their positions.

    Everything that the statistics must know about the query is looked up here, once; what is missing is an error.
    """

    def __init__(self, query: Query, statistics: Statistics, model: RateModel = PAPER) -> None:
        self.query, self.model, self.statistics = query, model, statistics
        connected = connected_pairs(query)
        self._log_rates = {one.alias: log_of(statistics.rate(one)) for one in query.positions}
        self._log_selectivities: dict[Pair, float] = {}
        for one, other in neighbouring_positions(query):
            pair = pair_of(one.alias, other.alias)
            value = statistics.selectivity(one, other, connected=pair in connected)
            self._log_selectivities[pair] = log_of(value)
        self._log_decided = {
            one.alias: log_of(statistics.right_types(one))
            + (log_of(statistics.selectivity(one, one, connected=True)) if one.alias in deciding_alone(query) else 0.0)
            for one in query.positions
            if one.alias in query.followers
        }
        self._log_meetings: dict[Pair, float] = {}
        for one, other in neighbouring_positions(query) if statistics.meetings else ():
            if (other.alias, one.alias) in query.order_constraints:
                one, other = other, one
            ordered = (one.alias, other.alias) in query.order_constraints
            if one is not other:
                value = statistics.meeting(one, other, ordered=ordered)
                self._log_meetings[pair_of(one.alias, other.alias)] = log_of(value)
        self._formulas: dict[tuple[frozenset[str], frozenset[str]], RateFormula] = {}
        #: Planners ask for the same sub-queries thousands of times.
        self._patterns: dict[tuple[frozenset[str], frozenset[str], bool], Pattern] = {}
        self._known_meetings: dict[frozenset[str], float] = {}
        self._log_factors: dict[tuple[frozenset[str], frozenset[str], TimeOrder], float] = {}

    def formula(self, aliases: Collection[str], closed: Collection[str] | None = None) -> RateFormula:
        """The rate of the sub-query on a set of positions.

        `closed` names the Kleene aliases whose groups are formed (default: all); the others stand for single events
        (strip of 4.1).
        """
        formed = self.query.kleene_aliases if closed is None else closed
        key = frozenset(aliases), frozenset(formed)
        if key not in self._formulas:
            self._formulas[key] = self._formula(*key)
        return self._formulas[key]

    def log_rate(self, aliases: Collection[str], closed: Collection[str] | None = None) -> float:
        return self.formula(aliases, closed).log_at()

    def rate(self, aliases: Collection[str], closed: Collection[str] | None = None) -> float:
        """Matches of a sub-query per window, at most `MAX_VALUE`."""
        return value_of(self.log_rate(aliases, closed))

    def log_selectivity(self, aliases: Collection[str]) -> float:
        """The logarithm of sigma (5.3.1), over the positions of the sub-query that are no Kleene closures."""
        return self._log_selectivity(self._pattern(frozenset(aliases), self.query.kleene_aliases))

    def candidates(
        self, left: Collection[str], right: Collection[str], closed: Collection[str] | None = None
    ) -> RateFormula:
        """Pairs of a left and a right match per window that the engine compares when it joins two sub-queries.

        It looks at partners within the window, in the right order and with the same events in shared positions: as
        many as the joined sub-query would have matches if no condition were left to decide. The paper's cost, twice
        the product of the rates, is an upper bound at even rates (5.3.2). An equality that a hash index serves makes
        it fewer still.
        """
        formed = frozenset(self.query.kleene_aliases if closed is None else closed)
        both = frozenset(left) | frozenset(right)
        whole = self._pattern(both, formed)
        log_rest = self._log_factor(both, formed, TimeOrder.COUNTED)
        log_rest += self._log_meeting(self._plain(both, formed))
        positions = 0
        groups: dict[str, KleeneGroup] = {}
        for sign, aliases in ((1, frozenset(left)), (1, frozenset(right)), (-1, frozenset(left) & frozenset(right))):
            if aliases:
                formula = self.formula(aliases, formed)
                log_rest += sign * (formula.log_rest - self._log_factor(aliases, formed, self.model.time_order))
                log_rest -= sign * self._log_meeting(self._plain(aliases, formed))
                positions += sign * formula.positions
                for group in formula.groups:
                    if isinstance(group, KleeneGroup):
                        groups.setdefault(group.alias, replace(group, pattern=whole))
        return RateFormula(clamped(log_rest), positions, tuple(groups.values()))

    def is_rate_reducing(
        self, aliases: Collection[str], closed: Collection[str] | None = None, *, among: Collection[str] | None = None
    ) -> bool:
        """Whether a sub-query has fewer matches than the most frequent of its own events (6.1).

        `among` compares with other positions' events; all of the query's is the printed index set.
        """
        if among is None:
            among = list(itertools.chain(*positive_aliases(self._pattern(frozenset(aliases), frozenset()))))
        return self.log_rate(aliases, closed) < max(self._log_rates[alias] for alias in among)

    def _formula(self, aliases: frozenset[str], closed: frozenset[str]) -> RateFormula:
        pattern = self._pattern(aliases, closed)
        if self.query.chains and (chains := _outermost(structure(pattern).chains)):
            return self._formula_with_chains(pattern, closed, chains)
        plain, kleene = positive_aliases(pattern)
        log_rest = self._log_plain(pattern, plain) + self._log_unblocked(aliases, frozenset([*plain, *kleene]))
        groups = tuple(self._group(alias, plain, kleene, pattern) for alias in kleene)
        return RateFormula(clamped(log_rest), len(plain), groups)

    def _formula_with_chains(self, pattern: Pattern, closed: frozenset[str], chains: Sequence[Chain]) -> RateFormula:
        """Each NEXT is one thing that happens, beside the other positions."""
        rates = tuple(self._chain_rate(chain, closed) for chain in chains)
        standing_for = {min(chain.aliases): chain for chain in chains}
        plain, kleene = positive_aliases(_reduced(pattern, standing_for))
        others = [alias for alias in plain if alias not in standing_for]
        log_rest = log_time_factor(_reduced(pattern, standing_for), self.model.time_order)
        log_rest += sum(self._log_rates[alias] for alias in others)
        parts = [frozenset({alias}) for alias in others] + [chain.aliases for chain in chains]
        for one, other in itertools.combinations(parts, 2):
            log_rest += sum(self._log_selectivities[pair_of(*pair)] for pair in itertools.product(one, other))
        groups = tuple(self._group(alias, others, kleene, pattern) for alias in kleene)
        return RateFormula(clamped(log_rest), len(others), (*groups, *rates))

    def _chain_rate(self, chain: Chain, closed: frozenset[str]) -> ChainRate:
        """A chain, or a run of one: pairs that FILTER ties thin out the candidates, others decide."""
        head: Rate = self.formula(chain.head, closed & chain.head)
        log_followers, log_decided = [], 0.0
        for place, alias in enumerate(chain.positions):
            tied = frozenset().union(*(aliases_of(skip) for skip in self.query.skips_at(alias))) - {alias}
            log_candidates = self._log_rates[alias]
            for earlier in chain.head.union(chain.positions[:place]):
                log_share = self._log_selectivities[pair_of(alias, earlier)]
                log_candidates += log_share if earlier in tied else 0.0
                log_decided += 0.0 if earlier in tied else log_share
            log_followers.append(clamped(log_candidates))
            log_decided += self._log_decided[alias]
        return ChainRate(head, tuple(log_followers), clamped(log_decided))

    def relative_error(self, aliases: Collection[str], closed: Collection[str] | None = None) -> float:
        """How far the rate of a sub-query can be trusted: its standard error as a share of it, as far as the statistics
        tell; 0 if all of it was counted."""
        formed = frozenset(self.query.kleene_aliases if closed is None else closed)
        plain, kleene = positive_aliases(self._pattern(frozenset(aliases), formed))
        groups = [
            self.statistics.group_rate(self._pattern(frozenset([*plain, one]), frozenset([one]), positive=True))
            for one in kleene
        ]
        errors = [one.standard_error / one.per_window for one in groups if one is not None and one.per_window]
        if not errors:  # groups were counted beside the plain positions, whose error they have in them
            measured = self._measured(plain)
            known = [measured] if measured is not None else self._pairs(plain)
            errors = [one.standard_error / one.selectivity for one in known if one.selectivity]
        positive = frozenset([*plain, *kleene])
        scope = self.query.scope_of(next(iter(positive)))
        for negation in self.query.negations:
            share = self.negation(negation, positive) if negation.aliases <= frozenset(aliases) else None
            if share is not None and negation.scope[:-1] == scope:
                errors.append(share.standard_error / (1 - share.blocked))
        return math.sqrt(sum(one * one for one in errors))

    def _pairs(self, plain: list[str]) -> list[PairSelectivity]:
        """The pairs that the selectivity of plain positions was computed from."""
        by_name = {one.pair: one for one in (*self.statistics.type_pairs, *self.statistics.alias_pairs)}
        types = {position.alias: position.label for position in self.query.positions}
        found = []
        for one, other in itertools.combinations(plain, 2):
            known = by_name.get(pair_of(one, other)) or by_name.get(pair_of(types[one], types[other]))
            found += [] if known is None else [known]
        return found

    def tries(self, aliases: Collection[str], alias: str) -> float:
        """How often a member is held against a group, for each group of a KL position beside the others."""
        plain, kleene = positive_aliases(self._pattern(frozenset(aliases), frozenset([alias])))
        alone = self._pattern(frozenset([*plain, *kleene]), frozenset([alias]), positive=True)
        measured = self.statistics.group_rate(alone)
        return 1.0 if measured is None else measured.tried

    def _log_plain(self, pattern: Pattern, plain: list[str]) -> float:
        """The logarithm of the matches of the plain positions per window, in the orders that the pattern allows."""
        log_rest = log_time_factor(pattern, self.model.time_order) + self._log_selectivity(pattern)
        log_rest += self._log_meeting(plain)
        return log_rest + sum(self._log_rates[alias] for alias in plain)  # an empty remainder counts as one

    def negation(self, negation: Negation, positive: frozenset[str]) -> NegationShare | None:
        """What was measured of a NOT beside the matches of these positions, or else beside those it depends on."""
        for beside in (positive, self.query.context_of(negation)) if self.statistics.negations else ():
            pattern = project(self.query.pattern, beside | negation.aliases)
            found = None if pattern is None else self.statistics.negation_share(pattern)
            if found is not None:
                return found
        return None

    def _log_unblocked(self, aliases: frozenset[str], positive: frozenset[str]) -> float:
        """The logarithm of the share of matches that the NOTs among the positions let pass."""
        if not self.statistics.negations or not positive:
            return 0.0
        scope = self.query.scope_of(next(iter(positive)))
        beside = [one for one in self.query.negations if one.scope[:-1] == scope and one.aliases <= aliases]
        shares = [self.negation(one, positive) for one in beside]
        return sum(log_of(1 - share.blocked) for share in shares if share is not None)

    def log_met(self, aliases: Collection[str]) -> float:
        """The logarithm of the combinations of single events of these positions that meet per window: in the window,
        in order, whatever conditions say; divided by the product of the rates."""
        chosen = frozenset(aliases)
        log_factor = self._log_factor(chosen, frozenset(), TimeOrder.COUNTED)
        return log_factor + self._log_meeting(self._plain(chosen, frozenset()))

    def _plain(self, aliases: frozenset[str], closed: frozenset[str]) -> list[str]:
        return positive_aliases(self._pattern(aliases, closed))[0]

    def _log_factor(self, aliases: frozenset[str], closed: frozenset[str], order: TimeOrder) -> float:
        key = aliases, closed, order
        if key not in self._log_factors:
            self._log_factors[key] = log_time_factor(self._pattern(aliases, closed), order)
        return self._log_factors[key]

    def _log_meeting(self, plain: Collection[str]) -> float:
        chosen = frozenset(plain)
        if chosen not in self._known_meetings:
            self._known_meetings[chosen] = self._met_of(chosen)
        return self._known_meetings[chosen]

    def _met_of(self, plain: frozenset[str]) -> float:
        """The logarithm of how many times as often these positions' events meet as at even rates.

        Pairs were counted. Of a burst that all of them share each pair knows, so the product over all pairs would count
        it too often: the pairs of the largest spanning tree tell of each further position once. Pairs that avoid each
        other count wherever they are. What was measured of all of them together is better than either.
        """
        measured = self._measured(plain) if len(plain) > 2 else None
        if measured is not None and measured.meeting is not None:
            return math.log(measured.meeting)
        if not self._log_meetings:
            return 0.0
        trees = {alias: frozenset([alias]) for alias in plain}
        total = 0.0
        edges = ((self._log_meetings[pair_of(*pair)], *pair) for pair in itertools.combinations(sorted(plain), 2))
        for value, one, other in sorted(edges, reverse=True):
            joins = trees[one] is not trees[other]
            if joins:
                merged = trees[one] | trees[other]
                trees |= dict.fromkeys(merged, merged)
            total += value if joins or value < 0 else 0.0
        return total

    def _group(self, alias: str, plain: list[str], kleene: list[str], pattern: Pattern) -> KleeneGroup | RunRate:
        # Two KL positions: i times j pairs must fit, which no product of two sums expresses. The printed formula
        # counts their selectivity in both sums; here it counts in that of the more frequent one, once per member.
        partners = plain + [other for other in kleene if self._frequency(other) < self._frequency(alias)]
        log_member = sum(self._log_selectivities[pair_of(alias, other)] for other in partners)
        log_pair = self._log_selectivities[pair_of(alias, alias)]
        if alias in self.query.run_aliases:
            return self._run_rate(alias, clamped(log_member), log_pair)
        group = KleeneGroup(self._log_rates[alias], clamped(log_member), log_pair, self.model, alias, pattern)
        if not self.statistics.groups:
            return group
        alone = self._pattern(frozenset([*plain, alias]), frozenset([alias]), positive=True)
        measured = self.statistics.group_rate(alone)
        if measured is None:
            return group
        target = clamped(log_of(measured.per_window) - self._log_plain(alone, plain))
        return replace(replace(group, pattern=alone).fitted(target), pattern=pattern)

    def _run_rate(self, alias: str, log_member: float, log_pair: float) -> RunRate:
        """Runs of an ITER: as many as were counted, if they were."""
        runs = RunRate(alias, self._log_rates[alias], 0.0, log_pair)
        measured = self.statistics.group_rate(self._pattern(frozenset([alias]), frozenset([alias]), positive=True))
        correction = 0.0 if measured is None else log_of(measured.per_window) - runs.log_at()
        return replace(runs, log_member=log_member, log_correction=correction)

    def _frequency(self, alias: str) -> tuple[float, str]:
        return self._log_rates[alias], alias

    def _pattern(self, aliases: frozenset[str], closed: frozenset[str], *, positive: bool = False) -> Pattern:
        """The pattern of a sub-query: the query's own for all positions, which may have an AND directly inside an AND,
        else a projection; `positive` asks for the way in which statistics name it.
        """
        key = aliases, closed, positive
        if key not in self._patterns:
            self._patterns[key] = self._made_pattern(*key)
        return self._patterns[key]

    def _made_pattern(self, aliases: frozenset[str], closed: frozenset[str], positive: bool) -> Pattern:
        every = len(aliases) == len(self.query.aliases) and not positive
        pattern = self.query.pattern if every else project(self.query.pattern, aliases)
        if pattern is None:
            raise StatisticsError(f"the aliases {sorted(aliases)} of {self.query.pattern} do not form a sub-query")
        return strip_kleene(pattern, self.query.kleene_aliases - closed)

    def _measured(self, plain: Collection[str]) -> SubQuerySelectivity | None:
        """What was measured of these positions as single events."""
        if not self.statistics.sub_queries or not plain:
            return None
        return self.statistics.sub_query(self._pattern(frozenset(plain), frozenset(), positive=True))

    def _log_selectivity(self, pattern: Pattern) -> float:
        """sigma of the plain positive positions: measured, or the product over their pairs."""
        plain, _ = positive_aliases(pattern)
        measured = self._measured(plain)
        if measured is not None:
            return log_of(measured.selectivity)
        return clamped(sum(self._log_selectivities[pair_of(*pair)] for pair in itertools.combinations(plain, 2)))


def model_for(statistics: Statistics) -> RateModel:
    """The model that suits statistics: what was measured tells what the engine does; given numbers are read as the
    paper reads them."""
    return ENGINE if statistics.measured else PAPER


def _outermost(chains: Sequence[Chain]) -> list[Chain]:
    """The positive chains that are not part of another one's first pattern."""
    return [
        chain
        for chain in chains
        if not chain.scope and not any(chain.aliases <= other.head for other in chains if other is not chain)
    ]


def _reduced(pattern: Pattern, standing_for: Mapping[str, Chain]) -> Pattern:
    """The pattern with a single event in the place of each chain."""
    for alias, chain in standing_for.items():
        inside = {leaf.alias for leaf in leaves(pattern)}
        if chain.aliases <= inside and not any(chain.aliases <= {leaf.alias for leaf in leaves(child)}
                                               for child in children_of(pattern)):  # fmt: skip
            return EventRef("*", alias)
    return with_children(pattern, tuple(_reduced(child, standing_for) for child in children_of(pattern)))


def rate_formula(query: Query, statistics: Statistics, model: RateModel = PAPER) -> RateFormula:
    """The match rate of an OR-free query as a function of the scaling factor."""
    return QueryRates(query, statistics, model).formula(query.aliases)


def log_rate(query: Query, statistics: Statistics, model: RateModel = PAPER) -> float:
    """The natural logarithm of the matches of an OR-free query per window."""
    return rate_formula(query, statistics, model).log_at()


def rate(query: Query, statistics: Statistics, model: RateModel = PAPER) -> float:
    """Matches of an OR-free query per window, at most `MAX_VALUE`."""
    return value_of(log_rate(query, statistics, model))


def selectivity(query: Query, statistics: Statistics) -> float:
    """sigma(q): the share of combinations of events that fulfil all conditions of a query without Kleene closure."""
    return value_of(QueryRates(query, statistics).log_selectivity(query.aliases))


def is_rate_reducing(
    sub_query: Query, statistics: Statistics, model: RateModel = PAPER, *, within: Query | None = None
) -> bool:
    """Whether a sub-query's rate is below that of the most frequent event it comprises (6.1, the prose).

    With `within`, the most frequent event of that whole query counts instead, as the printed formula has it.
    """
    own = QueryRates(sub_query, statistics, model)
    if within is None:
        return own.is_rate_reducing(sub_query.aliases)
    largest = max(statistics.rate(position) for position in within.positions)
    return own.log_rate(sub_query.aliases) < log_of(largest)
