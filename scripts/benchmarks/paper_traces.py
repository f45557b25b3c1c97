"""Traces with the rates and selectivities that the paper's authors published, and the queries of Table 3 on them.

The recovered traces lack types of several queries, so events are made up: each type at its published rate, at even
distances with jitter, so that even a type of one event in five windows has its rate in every part of the trace. The
conditions are those of `decopa.traces.synthetic`: independent, with the published selectivity. One window is one
minute, as in the authors' replays.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from costmodel.capacity import Capacity
from decopa.language.text.parser import parse
from decopa.query.query import Query
from decopa.traces.synthetic import PairSelectivity
from scripts.experiments.as_published.published import PaperQuery

WINDOW_US = 60_000_000


@dataclass(frozen=True)
class PaperCase:
    name: str
    query: Query
    capacity: Capacity
    gains: Mapping[int, Mapping[str, float]]
    rates: Mapping[str, float]
    pairs: tuple[PairSelectivity, ...]

    def trace(self, windows: int, seed: int = 0) -> pa.Table:
        rng = np.random.default_rng(seed)
        names = sorted(self.rates)
        counts = [max(1, round(self.rates[name] * windows)) for name in names]
        times = [(np.arange(count) + rng.random(count)) / count * windows * WINDOW_US for count in counts]
        codes = np.repeat(np.arange(len(names)), counts)
        order = np.argsort(np.concatenate(times), kind="stable")
        codes, size = codes[order], sum(counts)
        columns = {
            "id": np.arange(size),
            "ts": np.concatenate(times)[order].astype(np.int64),
            "type": pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), pa.array(names)),
        }
        for pair in self.pairs:
            mine = np.isin(codes, [names.index(pair.first), names.index(pair.second)])
            columns[pair.column] = pa.array(rng.random(size), mask=~mine)
        return pa.table(columns)


def paper_case(paper: PaperQuery) -> PaperCase:
    """The query with conditions that have the published selectivities; pairs with selectivity 1 have none."""
    pattern = re.sub(r"\b([A-I])\b", lambda found: f"{found[1]} {found[1].lower()}", paper.letters)
    plain = paper.case.query
    statistics, positions = paper.case.statistics, {one.type: one for one in plain.positions}
    pairs: list[PairSelectivity] = []
    where = []
    members = [(name, name) for name, position in sorted(positions.items()) if position.kleene]
    for first, second in [*itertools.combinations(sorted(positions), 2), *members]:
        selectivity = statistics.selectivity(positions[first], positions[second], connected=True)
        if selectivity < 1:
            pair = PairSelectivity(first, second, selectivity)
            pairs.append(pair)
            where.append(pair.predicate(first.lower(), second.lower()) if first != second else _between_members(pair))
    rates = {name: statistics.rate(position) for name, position in positions.items()}
    conditions = f" WHERE {' AND '.join(where)}" if where else ""
    query = parse(f"QUERY {paper.name} PATTERN {pattern}{conditions} WITHIN 1 min")
    capacity = Capacity(paper.case.capacity.max_ingestion, paper.case.capacity.max_comparisons, WINDOW_US)
    return PaperCase(paper.name, query, capacity, paper.gains, rates, tuple(pairs))


def _between_members(pair: PairSelectivity) -> str:
    """Members of a KL are compared with each other only if both sides of a comparison name it; of two numbers evenly
    drawn from 0 to 1 the one exceeds the other by t with probability (1 - t)^2 / 2."""
    value = f"{pair.first.lower()}.{pair.column}"
    return f"{value} > {value} + {1 - math.sqrt(2 * pair.selectivity):.6g}"
