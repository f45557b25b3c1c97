"""Where events are born: a column of the trace, whose values are the nodes of the network."""

from __future__ import annotations

import zlib

import numpy as np

from decopa.errors import TraceError, did_you_mean
from decopa.query.schema import NULL, Kind
from shuffler.rows.batch import Array
from shuffler.rows.events import EventBatch
from shuffler.rows.strings import StringPool
from shuffler.source.trace import TraceSource


class OriginColumn:
    """Reads the origin of events. A whole-number column names nodes by number, a text column by name.

    With `buckets`, nodes are 0, 1, ...: a number belongs to its remainder, a text to that of its checksum. `strings` is
    the pool of whoever converts the events, if that is not the source itself: a text has another code in each pool.
    """

    def __init__(
        self,
        column: str,
        nodes: tuple[str, ...],
        source: TraceSource,
        *,
        buckets: int | None = None,
        strings: StringPool | None = None,
    ) -> None:
        source.require([column])
        self.attribute = column
        kind = source.schema.attributes[column].kind
        if kind not in (Kind.INT, Kind.STRING):
            raise TraceError(f"column '{column}' holds {kind.name.lower()}; origins must be texts or whole numbers")
        self._nodes, self._buckets = nodes, buckets
        self._strings = source.strings if strings is None else strings  # an empty pool is false
        self._texts = kind is Kind.STRING
        if self._texts and buckets is None:
            self._values = {node: self._strings.pin(node) for node in nodes}
        else:
            self._values = {node: int(node) for node in nodes if node.lstrip("-").isdigit()}

    def flags(self, events: EventBatch) -> dict[str, Array]:
        """For each node, which of the events are born there; an event from elsewhere is an error."""
        origins = self.numbers(events)
        found = {
            node: np.asarray(origins == self._values[node]) if node in self._values else np.zeros(len(origins), bool)
            for node in self._nodes
        }
        known = np.isin(origins, list(self._values.values()))
        if not known.all():
            self._refuse(events, int(np.flatnonzero(~known)[0]))
        return found

    def names(self, events: EventBatch) -> tuple[Array, list[str]]:
        """For each event the place of its origin in a list of names; of events whose nodes are not known yet."""
        origins: Array = self.numbers(events).astype(np.int64)
        if (origins == NULL).any():
            self._refuse(events, int(np.flatnonzero(origins == NULL)[0]))
        distinct, places = np.unique(origins, return_inverse=True)
        if self._texts and self._buckets is None:
            return places, [str(text) for text in self._strings.decode(np.asarray(distinct, np.int64)).to_pylist()]
        return places, [str(number) for number in distinct.tolist()]

    def numbers(self, events: EventBatch) -> Array:
        """A number for the origin of each event; NULL where it has none."""
        origins = events.columns[self.attribute]
        if self._buckets is None:
            return origins
        if not self._texts:
            return np.where(origins == NULL, NULL, origins % self._buckets)
        distinct, places = np.unique(origins, return_inverse=True)
        texts = self._strings.decode(np.asarray(distinct, np.int64)).to_pylist()
        sums = [NULL if text is None else zlib.crc32(text.encode()) % self._buckets for text in texts]
        return np.array(sums, dtype=np.int64)[places]

    def _refuse(self, events: EventBatch, place: int) -> None:
        code = int(self.numbers(events)[place])
        if code == NULL:
            raise TraceError(
                f"event {int(events.ids[place])} has no origin: column '{self.attribute}' is empty; fill it, or leave "
                "such events out"
            )
        plain = self._texts and self._buckets is None
        value = str(self._strings.decode(np.array([code]))[0]) if plain else str(code)
        raise TraceError(
            f"event {int(events.ids[place])} is born at node '{value}', which the network does not have"
            f"{did_you_mean(value, self._nodes)}"
        )
