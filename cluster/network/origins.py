"""Where events are born: a column of the trace, whose values are the nodes of the network."""

from __future__ import annotations

import numpy as np

from decopa.errors import TraceError, did_you_mean
from decopa.query.schema import NULL, Kind
from shuffler.rows.batch import Array
from shuffler.rows.events import EventBatch
from shuffler.source.trace import TraceSource


class OriginColumn:
    """Reads the origin of events. An integer column names nodes by number, a text column by name."""

    def __init__(self, column: str, nodes: tuple[str, ...], source: TraceSource) -> None:
        source.require([column])
        self.attribute = column
        kind = source.schema.attributes[column].kind
        if kind not in (Kind.INT, Kind.STRING):
            raise TraceError(f"column '{column}' holds {kind.name.lower()}; origins must be texts or whole numbers")
        self._nodes = nodes
        self._texts = kind is Kind.STRING
        if self._texts:
            self._values = {node: source.strings.pin(node) for node in nodes}
        else:
            self._values = {node: int(node) for node in nodes if node.lstrip("-").isdigit()}
        self._strings = source.strings

    def flags(self, events: EventBatch) -> dict[str, Array]:
        """For each node, which of the events are born there; an event from elsewhere is an error."""
        origins = events.columns[self.attribute]
        found = {
            node: np.asarray(origins == self._values[node]) if node in self._values else np.zeros(len(origins), bool)
            for node in self._nodes
        }
        known = np.isin(origins, list(self._values.values()))
        if not known.all():
            self._refuse(events, int(np.flatnonzero(~known)[0]))
        return found

    def _refuse(self, events: EventBatch, place: int) -> None:
        code = int(events.columns[self.attribute][place])
        if code == NULL:
            raise TraceError(
                f"event {int(events.ids[place])} has no origin: column '{self.attribute}' is empty; fill it, or leave "
                "such events out"
            )
        value = str(self._strings.decode(np.array([code]))[0]) if self._texts else str(code)
        raise TraceError(
            f"event {int(events.ids[place])} is born at node '{value}', which the network does not have"
            f"{did_you_mean(value, self._nodes)}"
        )
