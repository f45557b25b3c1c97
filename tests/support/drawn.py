"""Random statistics, flows and operators for the properties of the cost model."""

from __future__ import annotations

import itertools

from hypothesis import strategies as st

from costmodel.capacity import Capacity
from costmodel.kleene import KleenePairs
from costmodel.logarithms import log_of
from costmodel.pricing import Flow, Join, KleeneBinary, KleeneUnary, Negation
from costmodel.rates import KleeneGroup, RateFormula, RateModel
from costmodel.statistics import PairSelectivity, Statistics
from costmodel.throughput import AssignedOperator
from decopa.query.query import Query
from tests.support.strategies import queries

#: Ordinary values, and those at which formulas break first.
RATES = st.one_of(st.floats(0.01, 1e4), st.sampled_from((1e-9, 0.5, 1.0, 3.0, 1e6, 1e12, 1e15)))
SHARES = st.one_of(st.floats(0, 1), st.sampled_from((0.0, 1e-300, 1e-9, 0.01, 0.999999, 1.0)))
CAPACITIES = st.builds(Capacity, st.floats(1, 1e6), st.floats(1, 1e9))

_LOG_SHARES = SHARES.map(log_of)
_MODELS = st.sampled_from([RateModel(kleene_pairs=pairs) for pairs in KleenePairs])
_GROUPS = st.builds(KleeneGroup, RATES.map(log_of), _LOG_SHARES, _LOG_SHARES, _MODELS)
_PLAIN = st.builds(RateFormula, st.floats(-10, 20), st.integers(1, 4))
_WITH_GROUP = st.builds(RateFormula, st.floats(-10, 20), st.integers(1, 4), st.tuples(_GROUPS))
_GROUP_ALONE = st.builds(RateFormula, st.just(0.0), st.just(0), st.tuples(_GROUPS))
_FORMULAS = st.one_of(_PLAIN, _WITH_GROUP, _GROUP_ALONE)
_FLOWS = st.builds(Flow, _FORMULAS, st.booleans())
_BROADCAST = st.builds(Flow, _FORMULAS)

#: Every kind of operator, with at most one partitioned input, as Def. 5 asks.
OPERATORS = st.one_of(
    st.builds(Join, _FLOWS, _BROADCAST),
    st.builds(KleeneUnary, _FLOWS, _FORMULAS),
    st.builds(KleeneBinary, _FLOWS, _BROADCAST, _FORMULAS, _FORMULAS),
    st.builds(Negation, _FLOWS, _BROADCAST),
)
PLANS = st.lists(st.builds(AssignedOperator, st.just("o"), OPERATORS, st.integers(1, 8)), min_size=1, max_size=3)
#: OR-free queries with every operator that there is.
BRANCHES = queries(max_positions=4).flatmap(lambda query: st.sampled_from(query.branches))


@st.composite
def statistics(draw: st.DrawFn, query: Query) -> Statistics:
    """Complete statistics of an OR-free query; some pairs of aliases override those of their types."""
    types = sorted(query.event_types)
    pairs = list(itertools.combinations_with_replacement(types, 2))
    pairs_of_aliases = list(itertools.combinations(sorted(query.aliases), 2))[:2]
    return Statistics(
        window_us=query.window_us,
        rates=dict(zip(types, _several(draw, RATES, len(types)), strict=True)),
        type_pairs=_selectivities(draw, pairs),
        alias_pairs=_selectivities(draw, pairs_of_aliases) if draw(st.booleans()) else (),
        filter_shares={query.aliases[0]: draw(st.floats(0.01, 1))},
    )


def _selectivities(draw: st.DrawFn, pairs: list[tuple[str, str]]) -> tuple[PairSelectivity, ...]:
    values = _several(draw, SHARES, len(pairs))
    return tuple(PairSelectivity(*pair, value) for pair, value in zip(pairs, values, strict=True))


def _several(draw: st.DrawFn, values: st.SearchStrategy[float], count: int) -> list[float]:
    return draw(st.lists(values, min_size=count, max_size=count))
