"""A sequence query that every contender can be told: decopa's text here, SQL in `sql`, FlinkCEP's in `flink_job`.

`following` says which events follow: `any` that fits (SEQ, FlinkCEP's followedByAny), the `next` that fits (NEXT with
FILTER, followedBy), or the very next event of the stream, which must fit (`contiguous`: STRICT, FlinkCEP's next).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

#: `a.x < b.x` as ("a", "x", "<", "b", "x"); the alias that comes first in the sequence stands first.
Comparison = tuple[str, str, str, str, str]
OPERATORS = ("<", "<=", ">", ">=", "=")
FOLLOWING = ("any", "next", "contiguous")


@dataclass(frozen=True)
class SequenceQuery:
    """SEQ over (alias, type) pairs with comparisons between attributes of two aliases, within an inclusive window.

    `key` names an attribute that the comparisons make equal in all events of a match: FlinkCEP may then work on a keyed
    stream. `buckets_per_window` is what DuckDB's and Spark's time-bucket join is fastest with.
    """

    positions: tuple[tuple[str, str], ...]
    comparisons: tuple[Comparison, ...]
    window_us: int
    key: str | None = None
    buckets_per_window: int = 1
    following: str = "any"

    def __post_init__(self) -> None:
        if self.following not in FOLLOWING:
            raise ValueError(f"unknown way to follow '{self.following}'; known: {', '.join(FOLLOWING)}")
        places = {alias: place for place, alias in enumerate(self.aliases)}
        for first, _, operator, second, _ in self.comparisons:
            if operator not in OPERATORS:
                raise ValueError(f"unknown comparison '{operator}'; known: {', '.join(OPERATORS)}")
            if places[first] >= places[second]:
                raise ValueError(f"'{first} {operator} {second}': name the earlier alias first")

    @property
    def aliases(self) -> tuple[str, ...]:
        return tuple(alias for alias, _ in self.positions)

    @property
    def attributes(self) -> tuple[str, ...]:
        """Every attribute that a comparison reads, each once, in order of appearance."""
        return tuple(dict.fromkeys(name for _, left, _, _, right in self.comparisons for name in (left, right)))

    def attributes_of(self, alias: str) -> tuple[str, ...]:
        read = [(first, left) for first, left, *_ in self.comparisons]
        read += [(second, right) for *_, second, right in self.comparisons]
        return tuple(name for name in self.attributes if (alias, name) in read)

    @property
    def text(self) -> str:
        """The query in decopa's language."""
        events = ", ".join(f"{type_name} {alias}" for alias, type_name in self.positions)
        name = {"any": "SEQ", "next": "NEXT", "contiguous": "STRICT"}[self.following]
        conditions = [f"{a}.{x} {operator} {b}.{y}" for a, x, operator, b, y in self.comparisons]
        if self.following == "next":
            conditions = [f"FILTER({condition})" for condition in conditions]
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        return f"PATTERN {name}({events}){where} WITHIN {duration_text(self.window_us)}"

    def to_json(self) -> dict[str, Any]:
        return {
            "positions": self.positions,
            "comparisons": self.comparisons,
            "window_us": self.window_us,
            "key": self.key,
            "buckets_per_window": self.buckets_per_window,
            "following": self.following,
        }

    @staticmethod
    def from_json(record: dict[str, Any]) -> SequenceQuery:
        positions = tuple((alias, type_name) for alias, type_name in record["positions"])
        comparisons = tuple((a, x, operator, b, y) for a, x, operator, b, y in record["comparisons"])
        window_us, key, buckets = record["window_us"], record["key"], record["buckets_per_window"]
        return SequenceQuery(positions, comparisons, window_us, key, buckets, record.get("following", "any"))


def duration_text(duration_us: int) -> str:
    """Microseconds in the query language, in the largest unit in which they are whole."""
    for unit, size_us in (("h", 3_600_000_000), ("min", 60_000_000), ("s", 1_000_000), ("ms", 1000)):
        if duration_us % size_us == 0:
            return f"{duration_us // size_us} {unit}"
    return f"{duration_us} us"
