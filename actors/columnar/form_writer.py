"""FormWriter: conditions between two rows by their form, so that joins of one form share a compiled loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from actors.columnar.pair_writer import Moment, PairWriter, Read, Side
from decopa.query.binding import BoundQuery
from decopa.query.conditions.predicate import (
    Arithmetic,
    Call,
    Compare,
    Expr,
    Node,
    Predicate,
    aliases_of,
    attributes,
    rewrite,
)

#: An operator that says the same with its sides exchanged.
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "!=": "!="}
#: Writes a condition; each column and constant that it names is a new argument of the loop.
Writing = Callable[[PairWriter], str]


class _Form(NamedTuple):
    """What decides about the compiled code of a condition: which operations it has, on which kinds of columns."""

    source: str
    probe_kinds: tuple[str, ...]
    store_kinds: tuple[str, ...]


class FormWriter(PairWriter):
    """A writer whose source says how conditions compare, not which columns and constants.

    Conditions are kept until all are known and then sorted by form. Every use of a column or constant is an argument
    of its own, even if another condition reads the same one: `a.x < b.x AND a.x < b.y` has the form of `a.x < b.x AND
    a.y < b.y`. Bounds are times that constants move, at least two on each side. A column that is read twice costs a
    load per pair, which is why single queries use `PairWriter`. Conditions on groups stay as `PairWriter` writes them.
    """

    def __init__(self, bound: BoundQuery, probe: Side, store: Side) -> None:
        super().__init__(bound, probe, store)
        self._writings: list[Writing] = []
        self._from: list[Moment] = []
        self._until: list[Moment] = []

    def p(self, logical: str) -> str:
        self.probe_columns.append(Read(self.probe.layout.place(logical)))
        return f"p{len(self.probe_columns) - 1}"

    def s(self, logical: str) -> str:
        self.store_columns.append(Read(self.store.layout.place(logical)))
        return f"S{len(self.store_columns) - 1}[j]"

    def key_from(self, moment: Moment) -> None:
        self._from.append(moment)

    def key_until(self, moment: Moment) -> None:
        self._until.append(moment)

    def add_until(self, stored: str, moment: Moment) -> None:
        self._writings.append(lambda to: f"({to.s(stored)} <= {to._moment(moment)})")

    def add_before(self, stored: str, probing: str) -> None:
        self.add_until(stored, Moment(probing, shift_us=-1))  # one form for all latest times

    def add_after(self, stored: str, probing: str) -> None:
        self._writings.append(lambda to: f"({to.p(probing)} < {to.s(stored)})")

    def add_equal(self, logical: str) -> None:
        self._writings.append(lambda to: f"({to.p(logical)} == {to.s(logical)})")

    def add(self, predicate: Predicate) -> None:
        if any(self.is_group(alias) for alias in aliases_of(predicate)):
            super().add(predicate)
            return
        oriented = self._oriented(predicate)
        self._writings.append(lambda to: to._condition(oriented))

    def arrange(self) -> None:
        """Writes bounds and conditions; columns and constants are numbered in the order in which they are read."""
        for moments, bounds in ((self._from, self.lower), (self._until, self.upper)):
            padding = moments[:1] if len(moments) == 1 else []
            bounds += [self._moment(moment) for moment in (*moments, *padding)]
        self.checks += [write(self) for write in sorted(self._writings, key=self._form)]

    def _form(self, write: Writing) -> _Form:
        """The form of a condition: what it is if nothing else is written."""
        alone = FormWriter(self.bound, self.probe, self.store)
        source = write(alone)
        probe, store = self.probe.layout.columns, self.store.layout.columns
        return _Form(
            source,
            tuple(probe[read.name].str for read in alone.probe_columns),
            tuple(store[read.name].str for read in alone.store_columns),
        )

    def _moment(self, moment: Moment) -> str:
        moved_us = moment.windows * self.bound.query.window_us + moment.shift_us
        return f"{self.p(moment.logical)} + {self.constants.name(moved_us)}"

    def _oriented(self, predicate: Predicate) -> Predicate:
        """The condition with what the probe row has first, wherever two sides can be exchanged."""

        def change(node: Node) -> Node | None:
            match node:
                case Compare() if self._is_after(node.left, node.right):
                    return rewrite(Compare(_MIRRORED[node.op], node.right, node.left), change)
                case Arithmetic("+" | "*") if self._is_after(node.left, node.right):
                    return rewrite(Arithmetic(node.op, node.right, node.left), change)
                case Call("abs", (Arithmetic("-", left, right),)) if self._is_after(left, right):
                    return rewrite(Call("abs", (Arithmetic("-", right, left),)), change)
            return None

        oriented = rewrite(predicate, change)
        assert isinstance(oriented, Predicate)
        return oriented

    def _is_after(self, one: Expr, other: Expr) -> bool:
        return self._rank(one) > self._rank(other)

    def _rank(self, expr: Expr) -> int:
        """0 if the first attribute is one of the probe row, 1 if it is one of the stored row, 2 if there is none."""
        first = next(attributes(expr), None)
        if first is None:
            return 2
        return 0 if first.alias in self._positive else 1
