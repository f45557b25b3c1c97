"""Tables as the columns that statistics are measured on, by way of the engine's own checks."""

from __future__ import annotations

import pyarrow as pa

from costmodel.sampling.events import EventColumns
from decopa.runs.preparation.measure import event_columns
from shuffler.source.trace import TraceColumns, open_trace


def columns_of(table: pa.Table, columns: TraceColumns | None = None) -> EventColumns:
    """All events of a table with all attributes that conditions can use."""
    source = open_trace(table, columns=columns or TraceColumns())
    return event_columns(source, sorted(source.schema.attributes.keys() - {"ts"}))
