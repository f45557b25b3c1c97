"""Queries as a problem of shared trees, priced as the engine works: what is ingested, compared and put out per second.

Only plain positions outside of NOT are shared; each query forms its own groups and decides its own NOTs on top.
Conditions on single events are part of what a sub-query demands, so that a fragment keeps no event that nobody wants.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace

from costmodel.capacity import Capacity
from costmodel.formulas import RateModel
from costmodel.rates import QueryRates, model_for
from costmodel.statistics import Statistics
from decopa.planning.split import SplitSpace, Step
from decopa.planning.subquery import SubQuery
from decopa.planning.workload.trees.multitree import sub_patterns
from decopa.query.canonical import canonical, shareable_aliases
from decopa.query.query import Query

#: Patterns of more plain positions are planned on their own: there are too many ways to split them.
MAX_SHARED_POSITIONS = 8
#: What a row of a view costs, as a share of what a unit takes to ingest one.
_VIEWED_ROW = 0.1
#: What an operator costs besides its rows, as a share of a unit: of two plans that do the same work the one with fewer
#: operators is better.
_PER_OPERATOR = 1e-6


class QueryProblem:
    """The plain cores of OR-free queries; `statistics` has what is known of each query.

    Costs are shares of a unit's time, so that parts with different windows add up.
    """

    def __init__(
        self,
        queries: Sequence[Query],
        statistics: Mapping[Query, Statistics],
        capacity: Capacity,
        model: RateModel | None = None,
    ) -> None:
        self.queries, self._statistics, self._capacity, self._model = tuple(queries), statistics, capacity, model
        self.aliases = tuple(shareable_aliases(query) for query in queries)
        #: What sub-queries are parts of, for each query: itself, unless a problem reads it in another way.
        self.demanded = tuple(map(self._demand, queries))
        self._forms: dict[tuple[int, int], Hashable] = {}
        self.numbers: dict[tuple[int, int], dict[str, int]] = {}
        self._windows: dict[Hashable, set[int]] = {}
        self._spaces: dict[tuple[int, int], SplitSpace] = {}
        self._costs: dict[tuple[Hashable, Hashable, Hashable, int], float] = {}
        for pattern in range(len(self.queries)):
            for mask in sub_patterns(self.full(pattern)):
                self._windows.setdefault(self.form(pattern, mask), set()).add(self.window(pattern))

    def _demand(self, query: Query) -> Query:
        return query

    @property
    def patterns(self) -> int:
        return len(self.queries)

    def full(self, pattern: int) -> int:
        return (1 << len(self.aliases[pattern])) - 1

    def window(self, pattern: int) -> int:
        return self.queries[pattern].window_us

    def names(self, pattern: int, mask: int) -> frozenset[str]:
        """The aliases behind a mask."""
        return frozenset(alias for bit, alias in enumerate(self.aliases[pattern]) if mask >> bit & 1)

    def form(self, pattern: int, mask: int) -> Hashable:
        if (pattern, mask) not in self._forms:
            form, numbers = canonical(self.demanded[pattern], self.names(pattern, mask))
            self._forms[pattern, mask], self.numbers[pattern, mask] = form, numbers
        return self._forms[pattern, mask]

    def windows(self, form: Hashable) -> Sequence[int]:
        return sorted(self._windows[form])

    def join_cost(self, pattern: int, mask: int, left: int, right: int, window: int) -> float:
        key = self.form(pattern, mask), self.form(pattern, left), self.form(pattern, right), window
        if key not in self._costs:
            inputs = tuple(SubQuery(self.names(pattern, one)) for one in (left, right))
            step = Step(SubQuery(self.names(pattern, mask)), inputs)
            load = self._space(pattern, window).price(step).load()
            taken, compared, emitted = (part.per_unit(1) for part in (load.ingestion, load.comparisons, load.emission))
            self._costs[key] = self._capacity.for_window(window).busy(taken, compared, emitted) + _PER_OPERATOR
        return self._costs[key]

    def leaf_cost(self, pattern: int, mask: int, window: int) -> float:
        return 0.0

    def view_cost(self, pattern: int, mask: int, window: int) -> float:
        rate = self._space(pattern, window).rates.rate(self.names(pattern, mask))
        return _VIEWED_ROW * rate / self._capacity.for_window(window).max_ingestion

    def _space(self, pattern: int, window: int) -> SplitSpace:
        if (pattern, window) not in self._spaces:
            query, known = self.demanded[pattern], self._statistics[self.queries[pattern]]
            if window != query.window_us:
                query, known = replace(query, window_us=window), known.rescaled(window)
            self._spaces[pattern, window] = SplitSpace(query, QueryRates(query, known, self._model or model_for(known)))
        return self._spaces[pattern, window]
