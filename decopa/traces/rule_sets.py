"""Synthetic rule sets: many patterns over the same stream, with statistics that are known because they were drawn.

`families` makes what rule sets look like: groups of rules that share a core of chained conditions, each with events of
its own. `independent` draws every pattern by itself, from pairs of types that have the same condition wherever they
meet. Both follow the parameters that MCEP reports (rates of 2 to 47 events per window, selectivities from 0.003), and
the condition of a pair of types is `abs(s.xk - t.xk) < d` on one of sixteen independent columns, so that pairs are
independent of each other, as the models assume.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from costmodel.statistics import PairSelectivity, Statistics
from decopa.query.conditions.predicate import Arithmetic, Attr, Call, Compare, Literal, Predicate
from decopa.query.pattern import And, EventRef, Seq
from decopa.query.query import Query

#: Independent columns that conditions are drawn from.
COLUMNS = 16
#: Events of one type in a window, from and to.
RATES = (2.0, 47.0)
_SELECTIVITIES = (0.003, 0.3)


@dataclass(frozen=True)
class RuleSet:
    """Queries with one window, the rates of types per window, and the selectivity of pairs of types that have a
    condition."""

    queries: tuple[Query, ...]
    rates: Mapping[str, float]
    selectivities: Mapping[tuple[str, str], float]
    window_us: int
    columns: Mapping[tuple[str, str], int] = field(default_factory=dict)

    @property
    def statistics(self) -> Statistics:
        pairs = tuple(PairSelectivity(*pair, value) for pair, value in sorted(self.selectivities.items()))
        return Statistics(self.window_us, dict(self.rates), pairs)

    def trace(self, events: int, seed: int = 0) -> pa.Table:
        """Events of all types at their rates, evenly at random, in time order."""
        rng = np.random.default_rng(seed)
        types = sorted(self.rates)
        weights = np.array([self.rates[name] for name in types])
        total = float(weights.sum())
        ts = np.cumsum(rng.exponential(self.window_us / total, events)).astype(np.int64)
        kinds = rng.choice(len(types), events, p=weights / total).astype(np.int32)
        names = pa.DictionaryArray.from_arrays(pa.array(kinds), pa.array(types))
        attributes = {f"x{column}": rng.random(events) for column in range(COLUMNS)}
        return pa.table({"id": np.arange(events), "ts": ts, "type": names.cast(pa.string()), **attributes})


class _Drawing:
    """What types and pairs of types have in all patterns alike."""

    def __init__(self, types: int, window_us: int, seed: int) -> None:
        self.random, self.window_us = random.Random(seed), window_us
        self.types = [f"T{number:03d}" for number in range(types)]
        self.rates = {name: self._log_uniform(*RATES) for name in self.types}
        self.selectivities: dict[tuple[str, str], float] = {}
        self.columns: dict[tuple[str, str], int] = {}

    def _log_uniform(self, low: float, high: float) -> float:
        return math.exp(self.random.uniform(math.log(low), math.log(high)))

    def connect(self, one: str, other: str) -> None:
        """Gives a pair of types its condition."""
        pair = (min(one, other), max(one, other))
        if pair not in self.selectivities:
            self.selectivities[pair] = self._log_uniform(*_SELECTIVITIES)
            self.columns[pair] = self.random.randrange(COLUMNS)

    def query(
        self, name: str, types: Sequence[str], *, ordered: bool, only: Sequence[tuple[str, str]] | None = None
    ) -> Query:
        """A pattern over the types; each pair that has a condition has it here, or those in `only`."""
        events = tuple(EventRef(one, f"e{place}") for place, one in enumerate(types))
        where = []
        for (first, one), (second, other) in itertools.combinations(enumerate(types), 2):
            pair = (min(one, other), max(one, other))
            if pair in self.selectivities and (only is None or pair in only):
                where.append(self._condition(f"e{first}", f"e{second}", pair))
        return Query(Seq(events) if ordered else And(events), tuple(where), self.window_us, name)

    def _condition(self, first: str, second: str, pair: tuple[str, str]) -> Predicate:
        column = f"x{self.columns[pair]}"
        distance = Call("abs", (Arithmetic("-", Attr(first, column), Attr(second, column)),))
        return Compare("<", distance, Literal(1 - math.sqrt(1 - self.selectivities[pair])))

    def rule_set(self, queries: Sequence[Query]) -> RuleSet:
        used = {one for query in queries for one in query.event_types}
        rates = {name: rate for name, rate in self.rates.items() if name in used}
        pairs = {pair: value for pair, value in self.selectivities.items() if set(pair) <= used}
        return RuleSet(tuple(queries), rates, pairs, self.window_us, self.columns)


def families(
    queries: int, types: int, cores: int, core_size: int, own: int, *, window_us: int = 1_000_000, seed: int = 0
) -> RuleSet:
    """SEQ patterns of a core with chained conditions, and `own` types that are tied to one type of the core and stand
    anywhere in the order."""
    drawing = _Drawing(types, window_us, seed)
    made = [drawing.random.sample(drawing.types, core_size) for _ in range(cores)]
    for core in made:
        for one, other in itertools.pairwise(core):
            drawing.connect(one, other)
    found = []
    for number in range(queries):
        core = drawing.random.choice(made)
        chosen = drawing.random.sample([one for one in drawing.types if one not in core], own)
        ties = [(one, drawing.random.choice(core)) for one in chosen]
        for one, other in ties:
            drawing.connect(one, other)
        order = list(core)
        for one in chosen:
            order.insert(drawing.random.randrange(len(order) + 1), one)
        pairs = [(min(pair), max(pair)) for pair in (*itertools.pairwise(core), *ties)]
        found.append(drawing.query(f"q{number}", order, ordered=True, only=pairs))
    return drawing.rule_set(found)


def independent(queries: int, types: int, share: float, *, window_us: int = 1_000_000, seed: int = 0) -> RuleSet:
    """Patterns of 4 to 6 types: SEQ, four of five in one order of all types, or AND. `share` of the pairs of types has
    a condition, in every pattern."""
    drawing = _Drawing(types, window_us, seed)
    for one, other in itertools.combinations(drawing.types, 2):
        if drawing.random.random() < share:
            drawing.connect(one, other)
    found = []
    for number in range(queries):
        chosen = drawing.random.sample(drawing.types, drawing.random.randint(4, min(6, types)))
        ordered = drawing.random.random() < 0.5
        if ordered and drawing.random.random() < 0.8:
            chosen.sort()
        found.append(drawing.query(f"q{number}", chosen, ordered=ordered))
    return drawing.rule_set(found)


def cores_at_density(queries: int, density: float) -> int:
    """How many cores `families` needs for each pattern to have the sub-patterns of its core in common with that share
    of the workload, itself included: the density of the multi-pattern graph (MCEP appendix D)."""
    return max(1, round(queries / max(1.0, density * queries)))
