"""PairWriter: the source of everything that is decided or copied between a probe row and a stored row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from decopa.planning.subquery import SubQuery
from decopa.query.binding import BoundQuery
from decopa.query.conditions.kernel import ConditionWriter, Constants
from decopa.query.conditions.predicate import Attr, Predicate, aliases_of
from shuffler.rows.batch import Array, length_of, start_of
from shuffler.rows.layout import Layout, layout_of, member_column


@dataclass(frozen=True)
class Checks:
    """Source of conditions: `plain` ones are expressions, `groups` are loops over members that clear `ok`."""

    plain: tuple[str, ...]
    groups: tuple[str, ...]


@dataclass(frozen=True)
class Side:
    """A sub-query with the layout of its matches."""

    sub_query: SubQuery
    layout: Layout

    @classmethod
    def of(cls, bound: BoundQuery, sub_query: SubQuery) -> Side:
        return cls(sub_query, layout_of(bound, sub_query))


class Read(NamedTuple):
    """A column by its physical name; one that is only `copied` is taken as 64 bits."""

    name: str
    copied: bool = False

    def of(self, columns: Mapping[str, Array]) -> Array:
        column = columns[self.name]
        return column.view(np.int64) if self.copied else column


@dataclass(frozen=True, slots=True)
class Moment:
    """A time of the probe row, moved by a number of windows and of microseconds."""

    logical: str
    windows: int = 0
    shift_us: int = 0


class PairWriter:
    """Collects source and the columns that it reads.

    In the source, `p<n>` is a value of the probe row, `S<n>[j]` one of the stored row at place j, `G<n>` and `H<n>`
    are member columns of groups of the probe and the stored row. Columns that are only copied to the match are read
    apart from those that are looked at, as 64 bits whatever they mean: loops then differ by how many there are of them,
    not by which, and many queries share one.
    """

    def __init__(self, bound: BoundQuery, probe: Side, store: Side) -> None:
        self.bound, self.probe, self.store = bound, probe, store
        self.probe_columns: list[Read] = []
        self.store_columns: list[Read] = []
        self.probe_heaps: list[tuple[str, str]] = []
        self.store_heaps: list[tuple[str, str]] = []
        self.constants = Constants()
        self.lower: list[str] = []
        self.upper: list[str] = []
        self.checks: list[str] = []
        self.group_checks: list[str] = []
        #: (output column, source of its value) for each column of the match that a pair makes
        self.outputs: list[tuple[Read, str]] = []
        #: Columns that are gathered after the loop, which then tells which rows match: output column -> the column of
        #: the probe row or None, and that of the stored row or None. Of both it is the earlier or the later time.
        self.gathered: dict[str, tuple[str | None, str | None]] = {}
        self._positive = probe.sub_query.positive(bound.query)

    def p(self, logical: str) -> str:
        """A value of the probe row."""
        return f"p{_register(self.probe_columns, Read(self.probe.layout.place(logical)))}"

    def carries(self, logical: str) -> bool:
        """Whether the probe row has a column for it; a time may be missing where tighter ones make it needless."""
        return self.probe.layout.place(logical) in self.probe.layout.columns

    def s(self, logical: str) -> str:
        """A value of the stored row."""
        return f"S{_register(self.store_columns, Read(self.store.layout.place(logical)))}[j]"

    def copied_from_probe(self, name: str) -> str:
        """A column of the probe row that goes into the match as it is."""
        return f"p{_register(self.probe_columns, Read(name, copied=True))}"

    def copied_from_store(self, name: str) -> str:
        """A column of the stored row that goes into the match as it is."""
        return f"S{_register(self.store_columns, Read(name, copied=True))}[j]"

    def of(self, alias: str, logical: str) -> str:
        """A value of the row that binds `alias`."""
        return self.p(logical) if alias in self._positive else self.s(logical)

    def is_group(self, alias: str) -> bool:
        side = self.probe if alias in self._positive else self.store
        return alias in side.sub_query.closed

    def member(self, alias: str, column: str) -> str:
        """A value of the group member at hand (`m_<n>` runs over the group's places)."""
        heaps, letter = (self.probe_heaps, "G") if alias in self._positive else (self.store_heaps, "H")
        return f"{letter}{_register(heaps, (alias, column))}[m_{self._number(alias)}]"

    def key_from(self, moment: Moment) -> None:
        """The key of the stored row is at least this."""
        self.lower.append(self._moment(moment))

    def key_until(self, moment: Moment) -> None:
        """The key of the stored row is at most this."""
        self.upper.append(self._moment(moment))

    def add_until(self, stored: str, moment: Moment) -> None:
        """Requires that a time of the stored row is at most this."""
        self.checks.append(f"({self.s(stored)} <= {self._moment(moment)})")

    def add_before(self, stored: str, probing: str) -> None:
        """Requires that a time of the stored row is before one of the probe row."""
        self.checks.append(f"({self.s(stored)} < {self.p(probing)})")

    def add_after(self, stored: str, probing: str) -> None:
        """Requires that a time of the stored row is after one of the probe row."""
        self.checks.append(f"({self.p(probing)} < {self.s(stored)})")

    def add_equal(self, logical: str) -> None:
        """Requires that both rows have the same value."""
        self.checks.append(f"({self.p(logical)} == {self.s(logical)})")

    def arrange(self) -> None:
        """Everything is required that will be; a writer that sorts does it now."""

    def add(self, predicate: Predicate) -> None:
        """Requires a condition, for every member of each group that it names."""
        groups = sorted(alias for alias in aliases_of(predicate) if self.is_group(alias))
        self._require(self._condition(predicate), groups)

    def _condition(self, predicate: Predicate) -> str:
        def read(attr: Attr) -> str:
            column = member_column(self.bound, attr)
            if self.is_group(attr.alias):
                return self.member(attr.alias, column)
            return self.of(attr.alias, f"{attr.alias}.{column}")

        return ConditionWriter(read, self.bound.column, self.constants).condition(predicate)

    def _moment(self, moment: Moment) -> str:
        source = self.p(moment.logical)
        for count, what in ((moment.windows, "window"), (moment.shift_us, str(abs(moment.shift_us)))):
            if count:
                source += f" {'+' if count > 0 else '-'} {what}"
        return source

    def take_checks(self) -> Checks:
        """What has been required since the last call."""
        taken = Checks(tuple(self.checks), tuple(self.group_checks))
        self.checks, self.group_checks = [], []
        return taken

    def add_distinct(self, one: str, other: str) -> None:
        """Requires that two positions hold different events."""
        ids = [self.member(a, "id") if self.is_group(a) else self.of(a, f"{a}.id") for a in (one, other)]
        self._require(f"({ids[0]} != {ids[1]})", [alias for alias in (one, other) if self.is_group(alias)])

    def add_same_group(self, alias: str) -> None:
        """Requires that both rows hold the same group for an alias that they share."""
        begin_p, begin_s = self.p(start_of(alias)), self.s(start_of(alias))
        length_p, length_s = self.p(length_of(alias)), self.s(length_of(alias))
        number_p, number_s = _register(self.probe_heaps, (alias, "id")), _register(self.store_heaps, (alias, "id"))
        self.checks.append(f"({length_p} == {length_s})")
        self.group_checks.append(
            f"for m in range({length_p}):\n"
            f"    if G{number_p}[{begin_p} + m] != H{number_s}[{begin_s} + m]:\n"
            "        ok = False\n"
            "        break"
        )

    def _require(self, source: str, groups: Sequence[str]) -> None:
        if not groups:
            self.checks.append(source)
            return
        lines, depth = [], 0
        for alias in groups:
            begin, length = self.of(alias, start_of(alias)), self.of(alias, length_of(alias))
            lines.append("    " * depth + f"for m_{self._number(alias)} in range({begin}, {begin} + {length}):")
            depth += 1
        lines.append("    " * depth + f"if not {source}:")
        lines.append("    " * (depth + 1) + "ok = False")
        lines.append("    " * (depth + 1) + "break")
        self.group_checks.append("\n".join(lines))

    def _number(self, alias: str) -> int:
        return self.bound.query.aliases.index(alias)


def _register(names: list[Any], name: Any) -> int:
    if name not in names:
        names.append(name)
    return names.index(name)
