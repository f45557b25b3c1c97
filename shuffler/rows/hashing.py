"""Hashes of key columns, for indexes and for partitioning; the same values hash the same in every process."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from shuffler.rows.batch import Array

Hashes = npt.NDArray[np.int64]
_ODD = np.uint64(0x9E3779B97F4A7C15)


def mix(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Spreads 64-bit values, in place, so that every bit depends on every bit given (splitmix64's finaliser)."""
    values ^= values >> np.uint64(30)
    values *= np.uint64(0xBF58476D1CE4E5B9)
    values ^= values >> np.uint64(27)
    values *= np.uint64(0x94D049BB133111EB)
    values ^= values >> np.uint64(31)
    return values


def hash_columns(columns: Sequence[Array], rows: int) -> Hashes:
    """One hash per row over all columns; equal rows have equal hashes (0.0 and -0.0 are equal)."""
    result: npt.NDArray[np.uint64] | None = None
    for column in columns:
        bits = (column + 0.0).view(np.uint64) if column.dtype.kind == "f" else column.view(np.uint64)
        if result is None:
            result = mix(bits + _ODD)
        else:
            result *= _ODD
            result += bits
            mix(result)
    return np.zeros(rows, dtype=np.int64) if result is None else result.view(np.int64)


def hash_groups(ids: Array, lengths: Array) -> Hashes:
    """One hash per group of ids that lie one after the other."""
    ends = np.cumsum(lengths)
    mixed = mix(ids.view(np.uint64) * _ODD + _ODD)
    totals = np.concatenate([np.zeros(1, dtype=np.uint64), np.cumsum(mixed)])
    return mix(totals[ends] - totals[ends - lengths] + lengths.view(np.uint64)).view(np.int64)
