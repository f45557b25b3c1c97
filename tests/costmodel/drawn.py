"""Random statistics, flows and operators for the properties of the cost model."""

from __future__ import annotations

import itertools

from hypothesis import strategies as st

from costmodel.capacity import Capacity
from costmodel.kleene import KleenePairs
from costmodel.logarithms import log_of
from costmodel.pricing import Flow, Join, KleeneBinary, KleeneUnary, Negation, PricedOperator
from costmodel.rates import KleeneGroup, RateFormula, RateModel
from costmodel.statistics import PairSelectivity, Statistics
from costmodel.throughput import AssignedOperator
from decopa.query.query import Query
from tests.support.strategies import queries

#: Ordinary values, and those at which formulas break first.
RATES = st.one_of(st.floats(0.01, 1e4), st.sampled_from((1e-9, 0.5, 1.0, 3.0, 1e6, 1e12, 1e15)))
SHARES = st.one_of(st.floats(0, 1), st.sampled_from((0.0, 1e-300, 1e-9, 0.01, 0.999999, 1.0)))

MODELS = st.builds(RateModel, kleene_pairs=st.sampled_from(KleenePairs))
CAPACITIES = st.builds(Capacity, st.floats(1, 1e6), st.floats(1, 1e9))


@st.composite
def branches(draw: st.DrawFn) -> Query:
    """An OR-free query with every operator that there is."""
    return draw(st.sampled_from(draw(queries()).branches))


@st.composite
def statistics(draw: st.DrawFn, query: Query) -> Statistics:
    """Complete statistics of an OR-free query; some pairs of aliases override those of their types."""
    types = sorted(query.event_types)
    pairs = itertools.combinations_with_replacement(types, 2)
    aliases = list(itertools.combinations(sorted(query.aliases), 2))
    special = draw(st.lists(st.sampled_from(aliases), unique=True, max_size=2)) if aliases else []
    return Statistics(
        window_us=query.window_us,
        rates={name: draw(RATES) for name in types},
        type_pairs=tuple(PairSelectivity(*pair, draw(SHARES)) for pair in pairs),
        alias_pairs=tuple(PairSelectivity(*pair, draw(SHARES)) for pair in special),
        filter_shares={alias: draw(st.floats(0.01, 1)) for alias in query.aliases if draw(st.booleans())},
    )


@st.composite
def formulas(draw: st.DrawFn) -> RateFormula:
    groups = draw(st.lists(st.builds(KleeneGroup, _logs(RATES), _logs(SHARES), _logs(SHARES), MODELS), max_size=1))
    positions = draw(st.integers(0 if groups else 1, 4))
    return RateFormula(draw(st.floats(-10, 20)) if positions else 0.0, positions, tuple(groups))


def _logs(values: st.SearchStrategy[float]) -> st.SearchStrategy[float]:
    return values.map(log_of)


@st.composite
def operators(draw: st.DrawFn) -> PricedOperator:
    """Any kind of operator with at most one partitioned input, as Def. 5 asks."""
    one, other, groups, matches = (draw(formulas()) for _ in range(4))
    partitioned = draw(st.booleans())
    flow, broadcast = Flow(one, partitioned), Flow(other)
    match draw(st.sampled_from(("join", "unary", "binary", "negation"))):
        case "unary":
            return KleeneUnary(flow, matches)
        case "binary":
            return KleeneBinary(flow, broadcast, groups, matches)
        case "negation":
            return Negation(flow, broadcast)
    return Join(flow, broadcast)


@st.composite
def plans(draw: st.DrawFn) -> list[AssignedOperator]:
    found = draw(st.lists(operators(), min_size=1, max_size=4))
    return [AssignedOperator(f"o{n}", operator, draw(st.integers(1, 8))) for n, operator in enumerate(found)]
