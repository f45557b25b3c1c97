"""TypeIndex: the events of one batch by type, looked up by every leaf of every query without another scan.

What leaves of several queries have in common is computed once for the batch: the places of a type's events, those that
pass the same conditions, gathered columns and derived ones.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import cached_property

import numpy as np

from decopa.query.pattern import ANY_TYPE
from shuffler.rows.batch import Array, Indices
from shuffler.rows.events import EventBatch

#: Up to this many types, looking for the events of one at a time is quicker than sorting all by type.
_FEW_TYPES = 5


class Rows:
    """Some rows of a batch of events; a column is gathered when it is first read."""

    def __init__(self, events: EventBatch, places: Indices) -> None:
        self.events, self.places = events, places
        self._columns: dict[Hashable, Array] = {}
        self._passing: dict[Hashable, Rows] = {}

    def __len__(self) -> int:
        return len(self.places)

    def where(self, conditions: Hashable, mask: Callable[[], Array]) -> Rows:
        """The rows that fulfil `conditions`, which `mask` decides; decided once however often it is asked for."""
        if conditions not in self._passing:
            flags = mask()
            self._passing[conditions] = self if bool(flags.all()) else Rows(self.events, self.places[flags])
        return self._passing[conditions]

    def times(self) -> Array:
        """The times that the events are ordered by."""
        return self.column(("time",), lambda: self.events.ts.take(self.places))

    def read(self, attribute: str) -> Array:
        return self.column(attribute, lambda: self.events.columns[attribute].take(self.places))

    def is_of(self, types: tuple[str, ...]) -> Array:
        """1 for each event of one of the types, 0 for the others."""
        wanted = np.array([name in types for name in self.events.type_names], dtype=np.int64)
        return wanted[self.events.type_codes.take(self.places)]

    def column(self, key: Hashable, compute: Callable[[], Array]) -> Array:
        """The column known as `key`, computed when it is first asked for."""
        if key not in self._columns:
            self._columns[key] = compute()
        return self._columns[key]

    def identities(self) -> Array:
        return self.column(("identity",), lambda: self.events.ids.take(self.places))

    def ordinals(self) -> Array:
        given = self.events.ordinals
        return self.places + self.events.first_ordinal if given is None else given.take(self.places)


class TypeIndex:
    """The rows of each type in one batch of events."""

    def __init__(self, events: EventBatch) -> None:
        self.events = events
        self._rows: dict[tuple[str, ...], Rows] = {}
        self._code_of = {name: code for code, name in enumerate(events.type_names)}

    @cached_property
    def _sorted(self) -> tuple[Indices, Indices]:
        """Places ordered by type, in time order within each, and where the places of each type begin."""
        codes, types = self.events.type_codes, len(self.events.type_names)
        small = codes.astype(np.int16) if types < np.iinfo(np.int16).max else codes  # 16 bits are sorted by radix
        order = np.argsort(small, kind="stable")
        begins = np.zeros(types + 1, dtype=np.int64)
        np.cumsum(np.bincount(codes, minlength=types)[:types], out=begins[1:])
        return order, begins

    @cached_property
    def types(self) -> dict[str, int]:
        """The types that occur in the batch, with the number of their events."""
        names = self.events.type_names
        if len(names) <= _FEW_TYPES:
            codes = self.events.type_codes
            first = [int(np.count_nonzero(codes == code)) for code in range(len(names) - 1)]
            counted = zip(names, [*first, len(codes) - sum(first)])  # what is of no other type is of the last one
            return {name: count for name, count in counted if count}
        counts = np.diff(self._sorted[1])
        return {names[code]: int(counts[code]) for code in np.flatnonzero(counts)}

    def count(self, types: tuple[str, ...]) -> int:
        """How many events are of one of some types."""
        return len(self.events) if ANY_TYPE in types else sum(self.types.get(name, 0) for name in set(types))

    def rows(self, types: tuple[str, ...], mine: Array | None = None) -> Rows:
        """The events of one of some types, in time order; of those flagged in `mine` if only some are looked at."""
        if types not in self._rows:
            self._rows[types] = Rows(self.events, self._all_places(types))
        rows = self._rows[types]
        return rows if mine is None else Rows(self.events, rows.places[mine[rows.places]])

    def _all_places(self, types: tuple[str, ...]) -> Indices:
        if ANY_TYPE in types:
            return np.arange(len(self.events))
        if len(types) == 1:
            return self._places(types[0])
        wanted = np.array([name in types for name in self.events.type_names], dtype=bool)
        return np.flatnonzero(wanted[self.events.type_codes])

    def _places(self, event_type: str) -> Indices:
        code = self._code_of.get(event_type)
        if code is None:
            return np.empty(0, dtype=np.int64)
        if len(self.events.type_names) <= _FEW_TYPES:
            return np.flatnonzero(self.events.type_codes == code)
        order, begins = self._sorted
        return order[begins[code] : begins[code + 1]]
