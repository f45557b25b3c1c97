"""The streams of the experiment: inputs at steady rates, of which some are inflated after three of ten minutes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from costmodel.drift.inflation import Inflation, inflated

#: The thesis lets each run last ten minutes and inflates inputs from the third minute on.
LENGTH_S = 600
INFLATED_FROM_S = 180
#: Non-partitioning inputs begin at this share of the partitioning one.
SHARE = 0.05


@dataclass(frozen=True)
class Drift:
    """Events a second by type, before and after inflation, and for how long."""

    before: Mapping[str, float]
    after: Mapping[str, float]
    length_s: int = LENGTH_S
    inflated_from_s: int = INFLATED_FROM_S

    def rates_at(self, second: float) -> Mapping[str, float]:
        return self.before if second < self.inflated_from_s else self.after

    def events(self, event_type: str, *, until_s: float | None = None) -> float:
        """How many events of a type are expected."""
        until = self.length_s if until_s is None else until_s
        early = min(until, self.inflated_from_s)
        return self.before[event_type] * early + self.after[event_type] * (until - early)

    def table(self, seed: int, keys: int) -> pa.Table:
        """Random events (Poisson) in order of time; `k` is one of so many keys."""
        rng = np.random.default_rng(seed)
        times, types = [], []
        names = list(self.before)
        for code, name in enumerate(names):
            spans = ((0, self.inflated_from_s, self.before), (self.inflated_from_s, self.length_s, self.after))
            for begin, end, rates in spans:
                count = rng.poisson(rates[name] * (end - begin))
                times.append(begin + rng.random(count) * (end - begin))
                types.append(np.full(count, code))
        seconds, codes = np.concatenate(times), np.concatenate(types)
        order = np.argsort(seconds, kind="stable")
        return pa.table(
            {
                "id": np.arange(len(order)),
                "ts": (seconds[order] * 1e6).astype(np.int64),
                "type": pa.array(names).take(pa.array(codes[order])),
                "k": rng.integers(0, keys, len(order)),
            }
        )


def inflated_by(
    alpha: float, per_second: float, others: Mapping[str, float], inflation: Inflation = Inflation.MAX
) -> Drift:
    """C at `per_second`, the others at shares of that; then inflated to alpha times C, as the author's code does it:
    the largest of them, or their sum; never lowered."""
    before = {"C": per_second, **{name: share * per_second for name, share in others.items()}}
    after = inflated(list(before.values()), alpha, inflation)
    return Drift(before, {name: max(was, rate) for (name, was), rate in zip(before.items(), after, strict=True)})
