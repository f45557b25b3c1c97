"""Synthetic traces: Poisson arrivals, Zipf-skewed event types, attributes with chosen pairwise selectivities.

Each event has `id` (0, 1, ...), `ts`, `type` (A, B, ...; the first is the most frequent), `x` and `y` (uniform on
[0, 1)), `k` (uniform key below `keys`) and `s` (one of a few strings).

For a pair of types, say A and B with selectivity p, a column `a_b` holds points on a circle of circumference 1,
uniform for A and B events and missing for others. Two such points are closer than p / 2 with probability p, *whatever
the first point is*; so the condition

    min(abs(a.a_b - b.a_b), 1 - abs(a.a_b - b.a_b)) < p / 2

holds for a share p of all pairs, independent of every other pair, of other columns, and between the members of a KL.
(On a line instead of a circle, events near an end would meet fewer partners than others.)
"""

from __future__ import annotations

import itertools
import math
import string
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from decopa.errors import TraceError, did_you_mean
from decopa.query.names import quoted

MAX_TYPES = 10_000
#: Values of column `s`.
LABELS = ("red", "green", "blue", "white", "black")
#: Events drawn together. Part of what a seed means: another value gives other traces.
CHUNK_EVENTS = 65_536
#: Timestamps (rather than microseconds) start on 2024-01-01 UTC.
EPOCH_US = 1_704_067_200_000_000
_MAX_TS_US = 2**62


@dataclass(frozen=True, slots=True)
class PairSelectivity:
    """The share of (first, second) pairs of events that fulfil `predicate`; the types may be the same."""

    first: str
    second: str
    selectivity: float

    def __post_init__(self) -> None:
        if not 0 < self.selectivity <= 1:
            raise TraceError(
                f"the selectivity of {self.first},{self.second} must be above 0 and at most 1, got {self.selectivity:g}"
            )

    @property
    def column(self) -> str:
        return f"{self.first.lower()}_{self.second.lower()}"

    def predicate(self, first: str, second: str) -> str:
        """The condition to write in a query, for these two aliases."""
        distance = f"abs({quoted(first)}.{self.column} - {quoted(second)}.{self.column})"
        return f"min({distance}, 1 - {distance}) < {self.selectivity / 2!r}"


@dataclass(frozen=True, slots=True)
class SyntheticSpec:
    """What a synthetic trace looks like; the same spec is always the same trace.

    A trace of fewer events is the beginning of a longer one. `rate_per_s` counts the events of all types together.
    Type number r, from 1, has a share of r ** -zipf of them.
    """

    events: int
    rate_per_s: float = 1_000.0
    types: int = 5
    zipf: float = 1.2
    keys: int = 100
    pairs: tuple[PairSelectivity, ...] = ()
    seed: int = 0
    timestamps: bool = False

    def __post_init__(self) -> None:
        for name, value, low in (("events", self.events, 0), ("keys", self.keys, 1), ("seed", self.seed, 0)):
            if value < low:
                raise TraceError(f"{name} must be at least {low}, got {value}")
        if not 1 <= self.types <= MAX_TYPES:
            raise TraceError(f"types must be between 1 and {MAX_TYPES}, got {self.types}")
        if not (math.isfinite(self.rate_per_s) and self.rate_per_s > 0):
            raise TraceError(f"the rate must be a positive number of events per second, got {self.rate_per_s:g}")
        if not (math.isfinite(self.zipf) and self.zipf >= 0):
            raise TraceError(f"the Zipf exponent must be 0 or more, got {self.zipf:g}")
        if self.events / self.rate_per_s * 1e6 > _MAX_TS_US / 4:
            raise TraceError(f"{self.events} events at {self.rate_per_s:g}/s take too long; raise the rate")
        names = self.type_names
        for pair in self.pairs:
            for name in (pair.first, pair.second):
                if name not in names:
                    raise TraceError(f"no event type '{name}' to give a selectivity{did_you_mean(name, names)}")
        columns = [pair.column for pair in self.pairs]
        for column in columns:
            if columns.count(column) > 1:
                raise TraceError(f"two selectivities for column '{column}'; give one per pair of types")

    @property
    def type_names(self) -> tuple[str, ...]:
        """A, ..., Z, AA, AB, ..."""
        letters = string.ascii_uppercase
        words = itertools.chain.from_iterable(itertools.product(letters, repeat=size) for size in itertools.count(1))
        return tuple("".join(word) for word in itertools.islice(words, self.types))

    @property
    def type_rates_per_s(self) -> tuple[float, ...]:
        """Events per second of each type."""
        return tuple((self.rate_per_s * self._shares()).tolist())

    @property
    def schema(self) -> pa.Schema:
        fields = {
            "id": pa.int64(),
            "ts": pa.timestamp("us", "UTC") if self.timestamps else pa.int64(),
            "type": pa.dictionary(pa.int32(), pa.string()),
            "x": pa.float64(),
            "y": pa.float64(),
            "k": pa.int64(),
            "s": pa.dictionary(pa.int32(), pa.string()),
        }
        return pa.schema([*fields.items(), *((pair.column, pa.float64()) for pair in self.pairs)])

    def _shares(self) -> npt.NDArray[np.float64]:
        weights = np.arange(1, self.types + 1, dtype=np.float64) ** -self.zipf
        shares: npt.NDArray[np.float64] = weights / weights.sum()
        return shares

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The trace in time order, in batches of bounded size."""
        now_us = float(EPOCH_US if self.timestamps else 0)
        for number, first in enumerate(range(0, self.events, CHUNK_EVENTS)):
            # A generator per chunk, so that a chunk depends on the seed and its number alone (but for its start).
            rng = np.random.default_rng([self.seed, number])
            ts = now_us + np.cumsum(rng.exponential(1e6 / self.rate_per_s, CHUNK_EVENTS))
            now_us = float(ts[-1])
            yield self._chunk(rng, first, ts).slice(0, self.events - first)

    def table(self) -> pa.Table:
        """The whole trace in memory."""
        return pa.Table.from_batches(self.batches(), self.schema)

    def _chunk(self, rng: np.random.Generator, first: int, ts: npt.NDArray[np.float64]) -> pa.RecordBatch:
        size = len(ts)
        types = rng.choice(self.types, size=size, p=self._shares()).astype(np.int32)
        columns = [
            pa.array(np.arange(first, first + size)),
            pa.array(ts.astype(np.int64)).cast(self.schema.field("ts").type),
            pa.DictionaryArray.from_arrays(types, list(self.type_names)),
            pa.array(rng.random(size)),
            pa.array(rng.random(size)),
            pa.array(rng.integers(0, self.keys, size)),
            pa.DictionaryArray.from_arrays(rng.integers(0, len(LABELS), size).astype(np.int32), list(LABELS)),
        ]
        for pair in self.pairs:
            absent = ~np.isin(types, [self.type_names.index(pair.first), self.type_names.index(pair.second)])
            columns.append(pa.array(rng.random(size), mask=absent))
        return pa.record_batch(columns, schema=self.schema)


def example_query(spec: SyntheticSpec, window: str) -> str:
    """A query to try on the trace: the types of its (first few) pairs in a row, under the pairs' conditions.

    Without pairs: the two most frequent types with `x` increasing. The second event of an (A, A) pair is called a2.
    """
    if not spec.pairs:
        return f"PATTERN SEQ(A a, {spec.type_names[:2][-1]} b) WHERE a.x < b.x WITHIN {window}"
    type_of: dict[str, str] = {}
    conditions = []
    for pair in spec.pairs[:8]:
        first = pair.first.lower()
        second = f"{first}2" if pair.first == pair.second else pair.second.lower()
        type_of |= {first: pair.first, second: pair.second}
        conditions.append(pair.predicate(first, second))
    events = ", ".join(f"{quoted(name)} {quoted(alias)}" for alias, name in type_of.items())
    return f"PATTERN SEQ({events}) WHERE {' AND '.join(conditions)} WITHIN {window}"
