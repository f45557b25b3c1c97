"""NOT: matches of the positive part inside which (or beside which, at an end of SEQ) no negated match lies."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from actors.columnar.output import Counters
from actors.columnar.pair_writer import Moment, PairWriter, Side
from actors.columnar.probe import ProbeKernel
from actors.columnar.store import Store
from actors.operators.base import LogicState, OperatorSpec
from actors.operators.pairing import Pairing, equality_columns
from actors.operators.row_sets import NEGATED, PENDING
from decopa.planning.times import gap_times
from decopa.query.conditions.predicate import aliases_of
from shuffler.routing.table import END_OF_STREAM, NOTHING_YET
from shuffler.rows.batch import Array, Batch
from shuffler.rows.layout import Layout

#: Column with the last moment at which a negated match can end that still blocks a row.
DEADLINE = "#deadline"


class NegationLogic:
    """Holds a positive match back until every negated match that could block it has arrived, then decides.

    Between two neighbours that is when the negated input has passed the later one; at the end of a SEQ when it has
    passed the end of the window.
    """

    def __init__(self, spec: OperatorSpec) -> None:
        self.counters, self._counting = Counters(), spec.counting
        bound, query = spec.bound, spec.bound.query
        self.window_us = query.window_us
        inputs = [Side.of(bound, source.sub_query) for source in spec.plan.inputs(spec.operator)]
        # Positive matches that come after what may block them are decided at once and in order.
        self._positive_side = spec.roles.main
        self.late_side: int | None = self._positive_side
        positive, negated = inputs[self._positive_side], inputs[1 - self._positive_side]
        assert spec.roles.negation is not None
        self.negation = spec.roles.negation
        self._after, self._before = gap_times(query, self.negation, self.negation.after | self.negation.before)
        self._layout = positive.layout
        output = Side.of(bound, spec.operator.sub_query).layout
        self._output_columns = {name: positive.layout.place(name) for name in output.columns}
        self._kernel = self._write_kernel(spec, positive, negated)
        self._negated = Store(negated.layout, hashed=self._kernel.stored_keys, memory=spec.memory)
        waiting = Layout({**positive.layout.columns, DEADLINE: np.dtype(np.int64)}, positive.layout.groups,
                         positive.layout.places)  # fmt: skip
        self._waiting = Store(waiting, key=DEADLINE, memory=spec.memory)
        self._positive_watermark = self._negated_watermark = NOTHING_YET

    def _write_kernel(self, spec: OperatorSpec, positive: Side, negated: Side) -> ProbeKernel:
        writer = PairWriter(spec.bound, positive, negated)
        for moment in [Moment(name, shift_us=1) for name in self._after] or [Moment("max_ts", windows=-1)]:
            writer.key_from(moment)
        for moment in [Moment(name, shift_us=-1) for name in self._before] or [Moment("min_ts", windows=1)]:
            writer.key_until(moment)
        if negated.layout.place("max_ts") != "min_ts":
            writer.checks.append(f"({writer.s('max_ts')} <= upper)")
        scopes = {self.negation.scope, self.negation.scope[:-1]}
        pairing = Pairing(spec.bound, positive, negated)
        equal: list[tuple[str, str]] = []
        for condition in spec.bound.conditions:
            if {spec.bound.query.scope_of(alias) for alias in aliases_of(condition.predicate)} == scopes:
                equal += equality_columns(spec.bound, pairing, condition.predicate)
                writer.add(condition.predicate)
        return ProbeKernel(writer, self.window_us, tuple(equal), spec.code_of)

    def on_batch(self, side: int, batch: Batch) -> Iterator[Batch]:
        if side != self._positive_side:
            self._negated.insert(batch)
            return
        deadlines = self._deadlines(batch)
        decided = deadlines < self._negated_watermark
        yield from self._decide(batch if bool(decided.all()) else batch.take(np.flatnonzero(decided)))
        waiting = np.flatnonzero(~decided)
        if len(waiting):
            self._hold_back(batch.take(waiting), deadlines[waiting])

    def on_watermark(self, side: int, watermark_us: int) -> Iterator[Batch]:
        if side == self._positive_side:
            self._positive_watermark = watermark_us
        else:
            self._negated_watermark = watermark_us
            if len(self._waiting):
                yield from self._decide(self._waiting.take_before(watermark_us))
        oldest = self._oldest_open()
        if oldest == END_OF_STREAM:
            self._negated.keep(np.zeros(len(self._negated), dtype=np.bool_))
        elif oldest != NOTHING_YET:
            self._negated.evict_before(oldest - self.window_us)

    @property
    def output_watermark_us(self) -> int:
        return self._oldest_open()

    @property
    def state_bytes(self) -> int:
        return self._negated.nbytes + self._waiting.nbytes

    @property
    def state_rows(self) -> int:
        return len(self._negated) + len(self._waiting)

    def snapshot(self) -> LogicState:
        oldest = self._oldest_open()
        blocking = None if oldest == NOTHING_YET else self._negated.view()["min_ts"] >= oldest - self.window_us
        waiting = self._waiting.snapshot()
        columns = {name: waiting.columns[name] for name in self._layout.columns}
        rows = {PENDING: Batch(waiting.length, columns, waiting.heaps), NEGATED: self._negated.snapshot(blocking)}
        marks = (self._positive_watermark, self._negated_watermark)
        return LogicState(rows, marks if self._positive_side == 0 else marks[::-1])

    def restore(self, state: LogicState) -> None:
        self._positive_watermark = state.watermarks[self._positive_side]
        self._negated_watermark = state.watermarks[1 - self._positive_side]
        self._negated.insert(state.rows[NEGATED])
        self._hold_back(state.rows[PENDING], self._deadlines(state.rows[PENDING]))

    def _hold_back(self, rows: Batch, deadlines: Array) -> None:
        self._waiting.insert(Batch(rows.length, {**rows.columns, DEADLINE: deadlines}, rows.heaps))

    def _oldest_open(self) -> int:
        """No undecided or future positive match ends before this."""
        ends = self._waiting.columns[self._layout.place("max_ts")][self._waiting.begin : self._waiting.end]
        return min(self._positive_watermark, int(ends.min()) if len(ends) else END_OF_STREAM)

    def _deadlines(self, batch: Batch) -> Array:
        if not self._before:
            return np.asarray(batch.columns["min_ts"] + self.window_us)
        times = [batch.columns[self._layout.place(name)] for name in self._before]
        return np.asarray(np.minimum.reduce(times) - 1)

    def _decide(self, batch: Batch) -> Iterator[Batch]:
        if not batch.length:
            return
        blocked = self._kernel.any_match(batch, self._negated, self.counters)
        if self._counting:
            yield Batch(batch.length - int(np.count_nonzero(blocked)), {}, {})
            return
        free = batch.take(np.flatnonzero(~blocked))
        if free.length:
            columns = {name: free.columns[place] for name, place in self._output_columns.items()}
            yield Batch(free.length, columns, free.heaps)
