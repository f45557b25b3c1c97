"""Events as NumPy columns in time order, for measuring; `shuffler.rows.events` makes them out of rows.

Columns hold values the way `decopa.query.schema` says: int64 or float64, strings as codes, NULL or NaN where a value
is missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from decopa.query.pattern import ANY_TYPE
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
        """The numbers of the events of a type, ascending; of several as in A|B, and of all for *."""
        if event_type == ANY_TYPE:
            return np.arange(len(self.ts))
        if event_type in self.type_names:
            return np.flatnonzero(self.type_codes == self.type_names.index(event_type))
        codes = [self.type_names.index(name) for name in event_type.split("|") if name in self.type_names]
        return np.flatnonzero(np.isin(self.type_codes, codes))

    def column(self, name: str) -> Array:
        return self.ts if name == "ts" else self.columns[name]

    def code_of(self, text: str) -> int:
        return self.codes.get(text, UNSEEN)

    @cached_property
    def _texts(self) -> dict[int, str]:
        return {code: text for text, code in self.codes.items()}

    def texts_of(self, codes: Array) -> list[str | None]:
        """The strings behind codes; None for missing ones."""
        return [self._texts.get(code) for code in codes.tolist()]
