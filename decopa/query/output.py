"""What RETURN makes of each match beyond plain attributes: computed columns with names, and which rows are kept.

`RETURN a.x + b.x AS total, sum(c.x), d.* ORDER BY total DESC LIMIT 10`
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from decopa.errors import QueryError
from decopa.query.conditions.predicate import Attr, Expr, attributes
from decopa.query.names import RESULT_COLUMNS, quoted

#: Stands for every attribute of an event, as in `a.*`.
EVERY_ATTRIBUTE = "*"


@dataclass(frozen=True, slots=True)
class Output:
    """One column of the result: an expression over the events of a match, called `name` if it has one."""

    expr: Expr
    name: str | None = None

    @property
    def column(self) -> str:
        """The name of the column in the result."""
        if self.name is not None:
            return self.name
        return f"{self.expr.alias}.{self.expr.name}" if isinstance(self.expr, Attr) else str(self.expr)

    def __str__(self) -> str:
        return str(self.expr) if self.name is None else f"{self.expr} AS {quoted(self.name)}"


@dataclass(frozen=True, slots=True)
class Ranking:
    """ORDER BY and LIMIT: `keys` are columns of the result and whether each is descending; ties stay in canonical
    order. At most `limit` matches are kept."""

    keys: tuple[tuple[str, bool], ...] = ()
    limit: int | None = None

    def __post_init__(self) -> None:
        if not self.keys and self.limit is None:
            raise QueryError("a ranking needs columns or a limit, as in ORDER BY a.x LIMIT 10")
        if self.limit is not None and self.limit < 1:
            raise QueryError(f"LIMIT keeps at least one match, got {self.limit}; write it as in LIMIT 10")

    def __str__(self) -> str:
        parts = []
        if self.keys:
            written = (f"{_key_text(name)}{' DESC' if descending else ''}" for name, descending in self.keys)
            parts.append(f"ORDER BY {', '.join(written)}")
        return " ".join(parts if self.limit is None else [*parts, f"LIMIT {self.limit}"])


def needed_attributes(outputs: Iterable[Output]) -> tuple[Attr, ...]:
    """The attributes that matches must carry for these columns, each once."""
    return tuple(dict.fromkeys(attr for one in outputs for attr in attributes(one.expr)))


def expanded(outputs: Iterable[Output], names: Iterable[str]) -> tuple[Output, ...]:
    """The same with a column for every attribute in the place of `a.*`; an event's id is in the result anyway."""
    listed = [name for name in names if name != "id"]
    found: list[Output] = []
    for one in outputs:
        if isinstance(one.expr, Attr) and one.expr.name == EVERY_ATTRIBUTE:
            found += [Output(replace(one.expr, name=name)) for name in listed]
        else:
            found.append(one)
    return tuple(dict.fromkeys(found))


def check_columns(columns: Iterable[str], aliases: Iterable[str]) -> None:
    """Raises QueryError if two columns of the result would have one name."""
    seen = {*RESULT_COLUMNS, *aliases}
    for name in columns:
        if name in seen:
            raise QueryError(f"two columns of the result are called '{name}'; give one another name with AS")
        seen.add(name)


def _key_text(name: str) -> str:
    alias, dot, attribute = name.partition(".")
    return f"{quoted(alias)}.{quoted(attribute)}" if dot else quoted(name)
