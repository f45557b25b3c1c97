"""MatchSink: takes matches off the root operators and makes the result table, in the order that was asked for."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa

from actors.columnar.group_values import GroupValues
from actors.columnar.ordering import Key, Scratch, load_compiled, rough_order, tie_moves
from actors.columnar.output import Pieces
from actors.sinks.match_columns import Run, Values, grouped, typed
from decopa.choices import Order
from decopa.errors import LimitError
from decopa.query.binding import BoundQuery
from decopa.query.conditions.predicate import Attr, Expr
from decopa.query.conditions.typing import column_of_expression
from decopa.query.output import Output
from decopa.query.query import Query
from decopa.query.schema import Kind
from shuffler.routing.table import END_OF_STREAM
from shuffler.rows.batch import Array, Batch, length_of, start_of
from shuffler.rows.events import EventFormat
from shuffler.rows.layout import Layout, member_column
from shuffler.rows.strings import StringPool


def bound_aliases(query: Query) -> list[str]:
    """The aliases that a match of an OR-free query binds."""
    return [alias for alias in query.positive_aliases if query.position(alias).scope == ()]


#: Matches are put in order and turned into Arrow arrays in segments of at least this many.
SEGMENT = 1 << 18


class MatchSink:
    """Collects the matches of one OR-free query as columns.

    Matches that nothing can precede any more become part of the result as the run goes on (`settle`), so that memory
    for them is needed once. They mostly come in order; then the memory that a unit has written them to is that of the
    result. Strings are decoded when they arrive: the pool may forget them once the window has passed.
    """

    def __init__(
        self,
        bound: BoundQuery,
        layout: Layout,
        form: EventFormat,
        strings: StringPool,
        order: Order = Order.CANONICAL,
    ) -> None:
        self._bound, self._layout, self._form, self._strings = bound, layout, form, strings
        self._order = order
        self.aliases = bound_aliases(bound.query)
        self.rows = 0
        self._settled: list[pa.RecordBatch] = []
        self._open: list[Run] = []
        self._waiting = 0
        #: What each result column but the first three holds.
        self._columns: dict[str, Expr] = {alias: Attr(alias, "id") for alias in self.aliases}
        outputs = bound.query.output or [Output(attr) for attr in bound.query.returns]
        self._columns |= {one.column: one.expr for one in outputs}
        #: The result columns whose values may be missing.
        self.nullable = frozenset(
            name for name, expr in self._columns.items() if column_of_expression(expr, bound.column).nullable
        )
        self._query_name = pa.array([bound.query.name])
        self._zeros = np.zeros(0, dtype=np.int32)
        self._scratch, self._room = Scratch(), Pieces()

    def warm_up(self) -> None:
        """Loads what putting many matches in order needs, for half a second, so that the first ones need not wait."""
        nothing = self._nothing()
        load_compiled(self._keys(nothing))
        self._record_batch(nothing).column("end_ts").to_numpy(zero_copy_only=False)  # makes Arrow import pandas

    def add(self, batch: Batch) -> None:
        """Takes the matches of a batch, memory included: nobody may write to it any more."""
        if not batch.length:
            return
        self.rows += batch.length
        self._waiting += batch.length
        self._open.append(self._run(batch))

    def settle(self, watermark_us: int) -> None:
        """Puts matches that end before the watermark, which no later match can precede, into their final place; a few
        wait for more, unless the stream has ended."""
        if not self._waiting or (self._waiting < SEGMENT and watermark_us != END_OF_STREAM):
            return
        runs, self._open, self._waiting = self._ordered(grouped(self._open)), [], 0
        for run in runs:
            final = len(run) if self._order is Order.ANY else int(np.searchsorted(run.end, watermark_us))
            if final:
                self._settled.append(self._record_batch(run.take(slice(0, final))))
            if final < len(run):
                self._open.append(run.take(slice(final, None)))
                self._waiting += len(run) - final

    def release(self) -> list[pa.RecordBatch]:
        """The matches that have their final place, which are forgotten here."""
        settled, self._settled = self._settled, []
        return settled

    def table(self) -> pa.Table:
        """All matches in order; the canonical one is by end, start, then event ids in query order."""
        runs = self._ordered(grouped(self._open))
        parts = [*self._settled, *map(self._record_batch, runs)]
        return pa.Table.from_batches(parts or [self._record_batch(self._nothing())])

    def take(self) -> pa.Table:
        """As `table`, and forgets them: what comes later is counted anew."""
        matches = self.table()
        self._settled, self._open, self.rows, self._waiting = [], [], 0, 0
        return matches

    def _ordered(self, runs: Sequence[Run]) -> list[Run]:
        """The same matches in order: as they are, if they came like that."""
        if self._order is Order.ANY or not runs:
            return list(runs)
        if not all(int(one.end.max()) <= int(other.end.min()) for one, other in pairwise(runs)):
            return [self._sorted(Run.joined(runs))]
        # Each by itself, so that none has to be copied, unless a tie spans two of them.
        alone = [self._sorted(run) for run in runs]
        if all(self._key_at(one, -1) <= self._key_at(other, 0) for one, other in pairwise(alone)):
            return alone
        return [self._sorted(Run.joined(alone))]

    def _sorted(self, run: Run) -> Run:
        order = rough_order(self._keys(run), self._scratch)
        if order is not None:
            run = run.picked(order, self._room)
        moves = tie_moves(self._keys(run))
        return run if moves is None else run.moved(moves)

    def _keys(self, run: Run) -> list[Key]:
        if self._order is Order.END:
            return [run.end]
        return [run.end, run.start, *(run.values[_identity(alias)].key() for alias in self.aliases)]

    def _key_at(self, run: Run, row: int) -> list[int | list[int]]:
        ids = [run.values[_identity(alias)].key_at(row) for alias in self.aliases]
        whole: list[int | list[int]] = [int(run.end[row]), int(run.start[row]), *ids]
        return whole[:1] if self._order is Order.END else whole

    def _record_batch(self, run: Run) -> pa.RecordBatch:
        if len(run) > len(self._zeros):
            self._zeros = np.zeros(len(run), dtype=np.int32)
        columns: dict[str, pa.Array] = {
            "query": pa.DictionaryArray.from_arrays(pa.array(self._zeros[: len(run)]), self._query_name),
            "start_ts": typed(run.start, self._form.ts_type),
            "end_ts": typed(run.end, self._form.ts_type),
        }
        for name, expr in self._columns.items():
            columns[name] = run.values[name].array(self._arrow_type(expr), nullable=name in self.nullable)
        return pa.RecordBatch.from_pydict(columns)

    def _nothing(self) -> Run:
        return self._run(self._layout.empty())

    def _run(self, batch: Batch) -> Run:
        values = {}
        for alias in self.aliases:
            values[_identity(alias)] = self._read(batch, Attr(alias, "id"), "id")
        for name, expr in self._columns.items():
            if not isinstance(expr, Attr):
                values[name] = self._decoded(expr, Values(self._computed(batch, expr)))
                continue
            column = member_column(self._bound, expr)
            known = values.get(_identity(expr.alias)) if column == "id" else None
            values[name] = known or self._decoded(expr, self._read(batch, expr, column))
        return Run(batch.columns["min_ts"], batch.columns[self._layout.place("max_ts")], values)

    def _computed(self, batch: Batch, expr: Expr) -> Array:
        """The values of an expression, in the column type of its kind."""
        found = GroupValues(self._bound, self._layout, batch).values(expr, self._strings)
        is_float = column_of_expression(expr, self._bound.column).kind is Kind.FLOAT
        return np.ascontiguousarray(np.broadcast_to(found, (batch.length,)), dtype=np.float64 if is_float else np.int64)

    def _read(self, batch: Batch, attr: Attr, column: str) -> Values:
        alias = attr.alias
        if alias not in self._layout.groups:
            return Values(batch.columns[self._layout.place(f"{alias}.{column}")])
        starts, lengths = batch.columns[start_of(alias)], batch.columns[length_of(alias)]
        return Values.of_groups(batch.heaps[alias][column], starts, lengths)

    def _decoded(self, expr: Expr, values: Values) -> Values:
        if column_of_expression(expr, self._bound.column).kind is not Kind.STRING:
            return values
        return Values(self._strings.decode(values.flat), values.starts, values.lengths)

    def _arrow_type(self, expr: Expr) -> pa.DataType:
        if isinstance(expr, Attr) and expr.name == "ts":
            return self._form.ts_type
        if isinstance(expr, Attr) and expr.name == "id":
            return self._form.id_type
        return _ARROW_TYPES[column_of_expression(expr, self._bound.column).kind]


def _identity(alias: str) -> str:
    """The name of the integers that matches are put in order by, which are the ids if those are integers."""
    return f"#{alias}"


_ARROW_TYPES = {Kind.FLOAT: pa.float64(), Kind.INT: pa.int64(), Kind.BOOL: pa.bool_(), Kind.STRING: pa.string()}


def check_limit(matches: int, max_matches: int, title: str) -> None:
    if matches > max_matches:
        raise LimitError(
            f"operator {title} found more than {max_matches:,} matches; "
            "use a shorter window or a more selective condition, or raise the limit (--max-matches, Limits.max_matches)"
        )
