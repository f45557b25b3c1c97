"""Traces of a few events, and a look at what became of them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from shuffler.source.trace import EventBatch, TraceSource


def trace(**columns: object) -> pa.Table:
    """A table of as many events as the first given column has rows, with id, ts and type unless given."""
    length = len(next(iter(columns.values()))) if columns else 3  # type: ignore[arg-type]
    fixed = {"id": np.arange(length), "ts": np.arange(length) * 10, "type": ["A"] * length}
    return pa.table(fixed | columns)


def only_batch(source: TraceSource, *attributes: str) -> EventBatch:
    (batch,) = source.batches(attributes, 1_000)
    return batch
