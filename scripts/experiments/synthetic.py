"""Random queries with random statistics, as 7.1 describes them: Zipf rates (skew 1.2), selectivities of 1 to 10 %."""

from __future__ import annotations

import itertools
import string
from dataclasses import dataclass

import numpy as np

from costmodel.capacity import Capacity
from costmodel.statistics import Statistics
from decopa.language.text.parser import parse
from decopa.query.query import Query
from scripts.experiments.model import Case

SKEW = 1.2
#: A Zipf distribution with this skew has no mean; like the authors' generator, rates above this are drawn again.
MAX_RATE = 50_000
SELECTIVITIES = (0.01, 0.1)
MINUTE_US = 60_000_000
IOTA, KAPPA = 6500, 60_000
ORDERS = ("random", "increasing", "decreasing")


@dataclass(frozen=True)
class Setting:
    """One random instance. Rates, iota and kappa are per minute; `kleene` is the rate of the KL type as a multiple of
    the mean of the others, 0 for no KL.
    """

    seed: int
    length: int = 6
    units: int = 15
    window_min: int = 1
    kappa: int = KAPPA
    iota: int = IOTA
    order: str = "random"
    kleene: int = 0

    def case(self) -> Case:
        rng = np.random.default_rng([self.seed, self.length])
        types = list(string.ascii_uppercase[: self.length])
        rates = draw_rates(rng, types)
        selectivities = draw_selectivities(rng, types)
        shape = rng.integers(3)
        if self.order != "random":
            types.sort(key=rates.__getitem__, reverse=self.order == "decreasing")
        groups = set()
        if self.kleene:
            kleene = types[int(rng.integers(self.length))]
            others = [rates[one] for one in types if one != kleene]
            rates[kleene] = self.kleene * sum(others) / len(others)
            selectivities[kleene, kleene] = float(rng.uniform(*SELECTIVITIES))
            groups.add(kleene)
        query = parse(f"PATTERN {pattern_text(types, int(shape), groups)} WITHIN {self.window_min} min")
        per_window = {one: rate * self.window_min for one, rate in rates.items()}
        statistics = Statistics.of(self.window_min * MINUTE_US, per_window, selectivities)
        return Case(query, statistics, Capacity(self.iota * self.window_min, self.kappa * self.window_min))


def draw_rates(rng: np.random.Generator, types: list[str]) -> dict[str, float]:
    """Events per minute of each type."""
    while (drawn := rng.zipf(SKEW, len(types))).max() > MAX_RATE:
        pass
    return dict(zip(types, map(float, drawn), strict=True))


def draw_selectivities(rng: np.random.Generator, types: list[str]) -> dict[tuple[str, str], float]:
    return {pair: float(rng.uniform(*SELECTIVITIES)) for pair in itertools.combinations(types, 2)}


def pattern_text(types: list[str], shape: int, kleene: set[str]) -> str:
    """SEQ of all types (shape 0), AND of all (1), or a SEQ whose last two are an AND (2)."""
    leaves = [f"KL({one} {one.lower()})" if one in kleene else f"{one} {one.lower()}" for one in types]
    if shape == 2 and len(leaves) > 2:
        return f"SEQ({', '.join(leaves[:-2])}, AND({leaves[-2]}, {leaves[-1]}))"
    return f"{'AND' if shape else 'SEQ'}({', '.join(leaves)})"


def small_case(seed: int) -> tuple[Case, int]:
    """A query of 3 to 5 types, every sixth with KL, and 3 to 12 units: small enough to look at all plans."""
    rng = np.random.default_rng([seed, 3])
    length = int(rng.integers(3, 6))
    units = int(rng.integers(max(3, length), 13))
    kleene = int(rng.choice([1, 2])) if seed % 6 == 5 else 0
    kappa = int(rng.choice([60_000, 600_000]))
    return Setting(seed, length=length, units=units, kappa=kappa, kleene=kleene).case(), units


def workload(seed: int, queries: int, units: int) -> tuple[list[Query], Statistics, Capacity]:
    """Queries of 3 or 4 of 8 types, with no more operators than there are units."""
    rng = np.random.default_rng([seed, queries, 15])
    types = list(string.ascii_uppercase[:8])
    statistics = Statistics.of(MINUTE_US, draw_rates(rng, types), draw_selectivities(rng, types))
    while True:
        lengths = rng.integers(3, 5, queries)
        if sum(lengths) - queries <= units:
            break
    drawn = []
    for number, length in enumerate(lengths):
        chosen = [str(one) for one in rng.choice(types, int(length), replace=False)]
        drawn.append(parse(f"PATTERN {pattern_text(chosen, number % 3, set())} WITHIN 1 min"))
    return drawn, statistics, Capacity(IOTA, KAPPA)
