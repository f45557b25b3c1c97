"""Events as NumPy columns in time order, for measuring; `shuffler.rows.events` makes them out of rows.

Columns hold values the way `decopa.query.schema` says: int64 or float64, strings as codes, NULL or NaN where a value
is missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from decopa.query.schema import Column, Kind, Schema

Array = npt.NDArray[Any]
Ints = npt.NDArray[np.int64]

#: Code of a string constant that no event holds.
UNSEEN = -1


@dataclass(frozen=True)
class EventColumns:
    """Events in time order: times in microseconds, types, attributes as numeric columns of equal length.

    `type_names[code]` is the type behind a type code, `kinds` says what every attribute of the trace holds (`columns`
    may have fewer), and `codes` gives the code of each string that occurs in any of the columns.
    """

    ts: Ints
    type_codes: Ints
    type_names: tuple[str, ...]
    columns: Mapping[str, Array]
    kinds: Mapping[str, Column]
    codes: Mapping[str, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.ts)

    @property
    def schema(self) -> Schema:
        return Schema({**self.kinds, "ts": Column(Kind.INT)}, frozenset(self.type_names))

    def rows_of(self, event_type: str) -> Ints:
        """The numbers of the events of a type, ascending."""
        if event_type not in self.type_names:
            return np.empty(0, dtype=np.int64)
        return np.flatnonzero(self.type_codes == self.type_names.index(event_type))

    def column(self, name: str) -> Array:
        return self.ts if name == "ts" else self.columns[name]

    def code_of(self, text: str) -> int:
        return self.codes.get(text, UNSEEN)
