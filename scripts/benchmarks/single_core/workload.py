"""Seeded synthetic workloads whose windows are sized for a wanted number of matches per event.

Arrivals are Poisson, the event types of a query share them by Zipf 1.2, attributes are uniform. The window comes from
the closed form of the expected number of matches, corrected by what a sample of the trace really gives.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import pyarrow as pa

Family = Literal["seq2", "seq3", "and3", "key4", "kleene"]

EVENTS_PER_SECOND = 1000  # a mean gap of 1000 us: about one event in a thousand shares its timestamp with another
ZIPF_EXPONENT = 1.2
CLOSENESS = 0.05  # the d of workload (b), abs(a.x - b.x) < d
CALIBRATION_EVENTS = 250_000
CALIBRATION_ROUNDS = 3

PATTERNS: dict[Family, str] = {
    "seq2": "PATTERN SEQ(A a, B b) WHERE a.x < b.x",
    "seq3": "PATTERN SEQ(A a, B b, C c) WHERE a.x < b.x AND b.x < c.x AND a.y < c.y",
    "and3": (
        "PATTERN AND(A a, B b, C c) "
        f"WHERE abs(a.x - b.x) < {CLOSENESS} AND abs(a.x - c.x) < {CLOSENESS} AND abs(b.x - c.x) < {CLOSENESS}"
    ),
    "key4": "PATTERN SEQ(A a, B b, C c, D d) WHERE a.k = b.k AND b.k = c.k AND c.k = d.k",
    "kleene": "PATTERN SEQ(A a, KL(B b), C c) WHERE a.x < b.x AND b.x < c.x",
}
ALIASES: dict[Family, str] = {"seq2": "ab", "seq3": "abc", "and3": "abc", "key4": "abcd", "kleene": "abc"}
ATTRIBUTES: dict[Family, str] = {"seq2": "x", "seq3": "xy", "and3": "x", "key4": "k", "kleene": "x"}

# Name of a workload -> its family and the wanted number of matches per event.
CATALOGUE: dict[str, tuple[Family, float]] = {
    "a1": ("seq3", 1.0),
    "a5": ("seq3", 5.0),
    "a20": ("seq3", 20.0),
    "b": ("and3", 2.0),
    "c": ("key4", 2.0),
    "d": ("kleene", 3.0),
}
SCALING_MATCHES_PER_EVENT = 2.0  # at the smallest of the four windows of the scaling section
SCALING_FACTORS = (1, 2, 4, 8)


@dataclass(frozen=True)
class Workload:
    """A query and the events it runs on; `window_us` is the window inside `query_text`.

    `events` has the columns id, ts (int64 microseconds, ascending), type (dictionary-encoded) and the attributes.
    """

    name: str
    family: Family
    query_text: str
    events: pa.Table
    window_us: int

    @property
    def aliases(self) -> str:
        """The pattern's aliases in order, one letter each; the type of alias `a` is `A`."""
        return ALIASES[self.family]


MatchCounter = Callable[[Workload], int]


def build_workload(name: str, *, events: int, seed: int, count_matches: MatchCounter) -> Workload:
    """The workload `name` of the catalogue over `events` events; `count_matches` measures the calibration sample."""
    family, target = CATALOGUE[name]
    return _sized_workload(name, family, target, events, seed, count_matches)


def build_scaling_workloads(*, events: int, seed: int, count_matches: MatchCounter) -> list[Workload]:
    """SEQ(A a, B b) with a.x < b.x on the same events at one, two, four and eight times a window."""
    base = _sized_workload("W", "seq2", SCALING_MATCHES_PER_EVENT, events, seed, count_matches)
    return [replace(with_window(base, factor * base.window_us), name=f"{factor}W") for factor in SCALING_FACTORS]


def with_window(workload: Workload, window_us: int) -> Workload:
    """The same workload with another window, in the query text too."""
    text = f"{PATTERNS[workload.family]} WITHIN {duration_text(window_us)}"
    return replace(workload, query_text=text, window_us=window_us)


def duration_text(duration_us: int) -> str:
    """Microseconds in the query language, in ms if they are whole."""
    return f"{duration_us // 1000} ms" if duration_us % 1000 == 0 else f"{duration_us} us"


def type_shares(family: Family) -> np.ndarray:
    """Share of each type of the pattern, first type most frequent: proportional to 1 / rank ** 1.2."""
    weights = np.arange(1, len(ALIASES[family]) + 1) ** -ZIPF_EXPONENT
    return weights / weights.sum()


def key_count(events: int) -> int:
    """Number of distinct keys of workload (c): 500, fewer on short traces so that the window stays inside them."""
    return max(2, min(500, events // 1000))


def make_events(family: Family, *, events: int, seed: int, mean_gap_us: float = 1e6 / EVENTS_PER_SECOND) -> pa.Table:
    """A trace in time order with the columns that the family's query needs."""
    rng = np.random.default_rng(seed)
    shares = type_shares(family)
    columns: dict[str, pa.Array] = {
        "id": pa.array(np.arange(events, dtype=np.int64)),
        "ts": pa.array(np.cumsum(rng.exponential(mean_gap_us, events)).astype(np.int64)),
    }
    codes = rng.choice(len(shares), size=events, p=shares).astype(np.int32)
    names = pa.array([alias.upper() for alias in ALIASES[family]])
    columns["type"] = pa.DictionaryArray.from_arrays(pa.array(codes), names)
    for attribute in ATTRIBUTES[family]:
        values = rng.integers(0, key_count(events), events) if attribute == "k" else rng.random(events)
        columns[attribute] = pa.array(values)
    return pa.table(columns)


def expected_matches(family: Family, window_events: float, *, keys: int) -> float:
    """Expected matches per event if `window_events` events arrive within a window, far from the ends of the trace."""
    shares = type_shares(family)
    combined = float(np.prod(shares))
    if family == "seq2":
        return combined * window_events / 2
    if family == "seq3":  # 1/6 for a.x < b.x < c.x, 1/2 for a.y < c.y
        return combined * window_events**2 / 2 / 12
    if family == "and3":  # six orders; all three pairs are close when the range of x is below d
        return 6 * combined * window_events**2 / 2 * (3 * CLOSENESS**2 - 2 * CLOSENESS**3)
    if family == "key4":
        return combined * (window_events / keys) ** 3 / 6
    return _expected_kleene(shares, window_events)


def _expected_kleene(shares: np.ndarray, window_events: float) -> float:
    """2^n - 1 subsets of a Poisson number n of qualifying B events have the mean exp(mean of n) - 1.

    With z the B events between a and c, a share u = c.x - a.x of them qualifies, u having the density 1 - u; the
    integral over u is (e^z - 1 - z) / z^2 - 1/2, and the one over the distance of a and c is taken numerically.
    """
    share_a, share_b, share_c = (float(share) for share in shares)
    steps = 400
    total = 0.0
    for step in range(steps):
        z = share_b * window_events * (step + 0.5) / steps
        total += (math.expm1(z) - z) / z**2 - 0.5 if z > 1e-3 else z / 6
    return share_a * share_c * total * window_events / steps


def _window_events_for(family: Family, target: float, *, keys: int) -> float:
    """The inverse of `expected_matches`, by bisection; the upper end stays where e^z does not overflow."""
    low, high = 0.0, 1.0
    while expected_matches(family, high, keys=keys) < target:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        if expected_matches(family, middle, keys=keys) < target:
            low = middle
        else:
            high = middle
    return high


def _sized_workload(
    name: str, family: Family, target: float, events: int, seed: int, count_matches: MatchCounter
) -> Workload:
    """Closed-form window, then corrected by the ratio of measured to expected matches on a sample."""
    table = make_events(family, events=events, seed=seed)
    keys = key_count(events)
    sample = Workload(name, family, PATTERNS[family], table.slice(0, CALIBRATION_EVENTS), 0)
    correction = 1.0
    window_us = 0
    for _ in range(CALIBRATION_ROUNDS):
        window_events = _window_events_for(family, target / correction, keys=keys)
        window_us = _three_digits(window_events * 1e6 / EVENTS_PER_SECOND)
        measured = count_matches(with_window(sample, window_us)) / max(sample.events.num_rows, 1)
        if measured == 0:
            break
        correction = measured / expected_matches(family, window_us * EVENTS_PER_SECOND / 1e6, keys=keys)
    return replace(with_window(sample, window_us), events=table)


def _three_digits(duration_us: float) -> int:
    """Rounded to three significant digits, because a person reads the query."""
    digits = max(0, math.floor(math.log10(max(duration_us, 1.0))) - 2)
    return max(1, round(duration_us / 10**digits)) * 10**digits
