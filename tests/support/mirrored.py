"""Streams whose rates are mirrored after a while, so that another plan becomes right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

#: A is rare and C is frequent, then the other way round: events a minute.
RARE_A = {"A": 12.0, "B": 240.0, "C": 240.0}
RARE_C = {"A": 240.0, "B": 240.0, "C": 12.0}
QUERY = "PATTERN SEQ(A a, B b, C c) WHERE a.x = b.x AND b.x = c.x WITHIN 1 min"


def stream(phases: Sequence[tuple[float, Mapping[str, float]]], *, seed: int = 1, keys: int = 40) -> pa.Table:
    """Random events: for each phase its seconds and rates, events a minute by type; x is one of `keys` numbers."""
    rng = np.random.default_rng(seed)
    times, types, begin = [], [], 0.0
    for seconds, rates in phases:
        for name, per_minute in rates.items():
            count = rng.poisson(per_minute / 60 * seconds)
            times.append(begin + rng.random(count) * seconds)
            types.append(np.full(count, name))
        begin += seconds
    moments, names = np.concatenate(times), np.concatenate(types)
    order = np.argsort(moments, kind="stable")
    return pa.table(
        {
            "id": np.arange(len(order)),
            "ts": (moments[order] * 1e6).astype(np.int64),
            "type": pa.array(names[order]),
            "x": rng.integers(0, keys, len(order)),
        }
    )


def mirrored(seconds: float = 360.0, *, seed: int = 1) -> pa.Table:
    """Rare A, rare C, rare A again."""
    return stream([(seconds, RARE_A), (seconds, RARE_C), (seconds, RARE_A)], seed=seed)
