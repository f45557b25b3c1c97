"""KL by unary and by binary split (4.1, 5.2): who feeds strip matches to the closure, and when they are complete."""

from __future__ import annotations

from collections.abc import Iterator

from actors.columnar.output import Counters
from actors.operators.arrivals import Arrivals
from actors.operators.base import LogicState, OperatorSpec
from actors.operators.closure import Closure
from actors.operators.join import JoinLogic
from actors.operators.row_sets import FAMILIES
from shuffler.routing.table import NOTHING_YET
from shuffler.rows.batch import Batch, joined
from shuffler.rows.layout import layout_of


class KleeneUnaryLogic:
    """Takes strip matches, hash-partitioned so that a family meets on one unit.

    Groups of any members are formed as these arrive. Runs depend on what lies between, so their events wait until the
    input is complete up to them.
    """

    def __init__(self, spec: OperatorSpec) -> None:
        self.counters = Counters()
        self._closure = Closure(spec, self.counters)
        self._watermark = NOTHING_YET
        self.late_side: int | None = None
        runs = bool(spec.roles.formed & spec.bound.query.run_aliases)
        self._arrivals = Arrivals(layout_of(spec.bound, spec.plan.inputs(spec.operator)[0].sub_query)) if runs else None

    def on_batch(self, side: int, batch: Batch) -> Iterator[Batch]:
        if self._arrivals is None:
            yield from self._closure.extend(batch)
        else:
            self._arrivals.add(batch)

    def on_watermark(self, side: int, watermark_us: int) -> Iterator[Batch]:
        self._watermark = watermark_us
        if self._arrivals is not None:
            complete = self._arrivals.take_before(watermark_us)
            if complete.length:
                yield from self._closure.extend(complete)
        self._closure.forget(watermark_us)

    @property
    def output_watermark_us(self) -> int:
        return self._watermark

    @property
    def state_bytes(self) -> int:
        return self._closure.store.nbytes + (0 if self._arrivals is None else self._arrivals.nbytes)

    @property
    def state_rows(self) -> int:
        return len(self._closure.store) + (0 if self._arrivals is None else self._arrivals.rows)

    def snapshot(self) -> LogicState:
        rows = self._closure.snapshot()
        if self._arrivals is not None:
            rows = joined([rows, *self._arrivals.batches])
        return LogicState({FAMILIES: rows}, (self._watermark,))

    def restore(self, state: LogicState) -> None:
        (self._watermark,) = state.watermarks
        rows = state.rows[FAMILIES]
        if self._arrivals is not None:
            self._arrivals.add(rows)
            rows = self._arrivals.take_before(self._watermark)
        self._closure.restore(rows, self._watermark)


class KleeneBinaryLogic:
    """Joins the rest of the pattern with the events of the Kleene position and forms groups on the spot."""

    def __init__(self, spec: OperatorSpec) -> None:
        self._rest_side = spec.roles.main
        self._join = JoinLogic(spec, spec.roles.strip(spec.operator.sub_query))
        self.counters, self.late_side = self._join.counters, self._join.late_side
        self._closure = Closure(spec, self.counters)

    def on_batch(self, side: int, batch: Batch) -> Iterator[Batch]:
        for strip in self._join.on_batch(side, batch):
            if side == self._rest_side:
                # A match of the rest is new, so its family is exactly what it finds among the stored events.
                yield from self._closure.start(strip)
            else:
                yield from self._closure.extend(strip)

    def on_watermark(self, side: int, watermark_us: int) -> Iterator[Batch]:
        yield from self._join.on_watermark(side, watermark_us)
        if side != self._rest_side:  # a family grows only by events of the Kleene position
            self._closure.forget(watermark_us)

    @property
    def output_watermark_us(self) -> int:
        return self._join.output_watermark_us

    @property
    def state_bytes(self) -> int:
        return self._join.state_bytes + self._closure.store.nbytes

    @property
    def state_rows(self) -> int:
        return self._join.state_rows + len(self._closure.store)

    def snapshot(self) -> LogicState:
        joined = self._join.snapshot()
        return LogicState({**joined.rows, FAMILIES: self._closure.snapshot()}, joined.watermarks)

    def restore(self, state: LogicState) -> None:
        self._join.restore(state)
        self._closure.restore(state.rows[FAMILIES], state.watermarks[1 - self._rest_side])
