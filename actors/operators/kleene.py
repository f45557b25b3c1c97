"""KL by unary and by binary split (4.1, 5.2): who feeds strip matches to the closure, and when they are complete."""

from __future__ import annotations

from collections.abc import Iterator

from actors.columnar.output import Counters
from actors.operators.base import LogicState, OperatorSpec
from actors.operators.closure import Closure
from actors.operators.join import JoinLogic
from actors.operators.row_sets import FAMILIES, row_sets
from shuffler.routing.table import NOTHING_YET
from shuffler.rows.batch import Batch


class KleeneUnaryLogic:
    """Takes strip matches, hash-partitioned so that a family meets on one unit."""

    def __init__(self, spec: OperatorSpec) -> None:
        self.counters = Counters()
        source = spec.plan.inputs(spec.operator)[0].sub_query
        self._closure = Closure(spec, source, self.counters)
        self._watermark = NOTHING_YET

    def on_batch(self, side: int, batch: Batch) -> Iterator[Batch]:
        yield from self._closure.extend(batch)

    def on_watermark(self, side: int, watermark_us: int) -> Iterator[Batch]:
        self._watermark = watermark_us
        self._closure.forget(watermark_us)
        return iter(())

    @property
    def output_watermark_us(self) -> int:
        return self._watermark

    @property
    def state_bytes(self) -> int:
        return self._closure.store.nbytes

    @property
    def state_rows(self) -> int:
        return len(self._closure.store)

    def snapshot(self) -> LogicState:
        return LogicState({FAMILIES: self._closure.snapshot()}, (self._watermark,))

    def restore(self, state: LogicState) -> None:
        (self._watermark,) = state.watermarks
        self._closure.restore(state.rows[FAMILIES], self._watermark)


class KleeneBinaryLogic:
    """Joins the rest of the pattern with the events of the Kleene position and forms groups on the spot."""

    def __init__(self, spec: OperatorSpec) -> None:
        families = row_sets(spec.plan, spec.operator)[FAMILIES]
        self._rest_side = families.side
        self._join = JoinLogic(spec, families.sub_query)
        self.counters = self._join.counters
        self._closure = Closure(spec, families.sub_query, self.counters)

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
