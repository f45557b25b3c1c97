"""What the events look like: the kinds of attribute a query can meet, and how columns hold them.

Inside the engine every column is int64 or float64. Strings are codes of a StringPool, truth values are 0 and 1.
A missing value is NULL in an int64 column and NaN in a float64 one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

NULL = -(2**63)


class Kind(Enum):
    INT = "integer"
    FLOAT = "number"
    STRING = "string"
    BOOL = "truth value"

    @property
    def is_number(self) -> bool:
        return self in (Kind.INT, Kind.FLOAT)


@dataclass(frozen=True, slots=True)
class Column:
    """The kind of an attribute and whether values may be missing."""

    kind: Kind
    nullable: bool = False


@dataclass(frozen=True, slots=True)
class Schema:
    """Attributes of the events by name, `id` and `ts` (integer microseconds) included.

    `event_types` are the types seen in the trace, or None if they cannot be known beforehand (a live stream).
    With `intervals`, events last: from `ts` to `end`.
    """

    attributes: Mapping[str, Column]
    event_types: frozenset[str] | None = None
    intervals: bool = False
