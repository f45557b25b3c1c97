"""RETURN count(*), sum(a.x) GROUP BY b.k EVERY 1 h: figures about matches in place of the matches."""

from __future__ import annotations

from dataclasses import dataclass

from decopa.errors import QueryError
from decopa.query.conditions.predicate import Attr
from decopa.query.names import duration_text

#: What can be computed over an attribute; `count` takes `*` only.
FUNCTIONS = ("count", "min", "max", "sum", "avg")


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One figure over all matches of a group; missing values are left out, as in SQL. `of` is None for count(*)."""

    function: str
    of: Attr | None = None

    def __post_init__(self) -> None:
        if self.function not in FUNCTIONS:
            raise QueryError(f"unknown aggregate '{self.function}'; known: {', '.join(FUNCTIONS)}")
        if (self.of is None) != (self.function == "count"):
            example = "count(*)" if self.function == "count" else f"{self.function}(a.x)"
            raise QueryError(f"'{self}' is no aggregate; write {example}")

    def __str__(self) -> str:
        return f"{self.function}({'*' if self.of is None else self.of})"


@dataclass(frozen=True, slots=True)
class Summary:
    """The items of RETURN in order, what matches are grouped by, and the length of the periods that are told apart.

    A match belongs to the period in which it ends; periods begin at multiples of their length since 1970.
    """

    items: tuple[Attr | Aggregate, ...]
    group_by: tuple[Attr, ...] = ()
    every_us: int | None = None

    def __post_init__(self) -> None:
        if not self.aggregates:
            raise QueryError("GROUP BY and EVERY need an aggregate to compute, as in RETURN a.k, count(*) GROUP BY a.k")
        if self.every_us is not None and self.every_us < 1:
            raise QueryError("a period must be positive; write it as in EVERY 1 h")
        for item in self.items:
            if isinstance(item, Attr) and item not in self.group_by:
                raise QueryError(
                    f"RETURN has '{item}' beside aggregates, but matches are not grouped by it; add GROUP BY {item}"
                )

    @property
    def aggregates(self) -> tuple[Aggregate, ...]:
        return tuple(item for item in self.items if isinstance(item, Aggregate))

    @property
    def attributes(self) -> tuple[Attr, ...]:
        """Every attribute that is needed of a match."""
        wanted = [item if isinstance(item, Attr) else item.of for item in (*self.group_by, *self.items)]
        return tuple(dict.fromkeys(attr for attr in wanted if attr is not None))

    @property
    def counts_only(self) -> bool:
        """Whether the number of matches says it all, so that no match has to be looked at."""
        return not self.group_by and self.every_us is None and all(one.of is None for one in self.aggregates)

    def __str__(self) -> str:
        text = "RETURN " + ", ".join(map(str, self.items))
        if self.group_by:
            text += " GROUP BY " + ", ".join(map(str, self.group_by))
        return text if self.every_us is None else f"{text} EVERY {duration_text(self.every_us)}"
