"""SEQ and AND: every match of one input with every match of the other that fits (5.2)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from actors.columnar.output import BLOCK, CHUNK, Counters, OutputBlocks
from actors.columnar.pair_writer import PairWriter, Read, Side
from actors.columnar.probe import ProbeKernel
from actors.columnar.probe_loops import Form
from actors.columnar.store import Store
from actors.operators.base import LogicState, OperatorSpec
from actors.operators.pairing import Pairing, write_pairing
from actors.operators.row_sets import SIDES
from decopa.planning.subquery import SubQuery
from shuffler.routing.table import END_OF_STREAM, NOTHING_YET
from shuffler.rows.batch import Array, Batch
from shuffler.rows.layout import Layout


class JoinLogic:
    """A symmetric windowed join: a batch probes what the other side has stored, then is stored itself.

    Every pair is met once, when its later-arriving row probes, so results do not depend on batches or arrival order.
    A row is stored only while a partner can still arrive: within the window, and for a row that must come after all
    of its partner, only until the partner's side has passed it.
    """

    def __init__(self, spec: OperatorSpec, sub_query: SubQuery | None = None) -> None:
        self.counters = Counters()
        self.window_us = spec.bound.query.window_us
        inputs = [Side.of(spec.bound, source.sub_query) for source in spec.plan.inputs(spec.operator)]
        output = Side.of(spec.bound, sub_query or spec.operator.sub_query)
        self.pairing = Pairing(spec.bound, inputs[0], inputs[1])
        pairings = (self.pairing, self.pairing.flipped())
        # Groups are formed from all strip matches of one row together, so these are needed and stay together.
        whole = output.sub_query == spec.operator.sub_query
        self._counting = spec.counting and whole
        blocks = None
        if not self._counting:
            blocks = OutputBlocks(output.layout.columns, BLOCK if spec.operator == spec.plan.root else CHUNK)
        self._kernels = tuple(
            _kernel(spec, pairing, output.layout, blocks, by_end=whole and _ends_together(pairing, output.layout))
            for pairing in pairings
        )
        self._groups = output.layout.groups
        self._aliases = (self.pairing.left_aliases, self.pairing.right_aliases)
        self._stores = tuple(
            Store(inputs[side].layout, hashed=self._kernels[1 - side].stored_keys, memory=spec.memory)
            for side in range(2)
        )
        self._passed = tuple(_passed_rule(pairing) for pairing in pairings)
        # Stored rows of one event are found by their bounds alone; among others the late side would look at more rows
        # than the other side does, which costs more than putting matches in order afterwards if few pairs match.
        exact = [inputs[1 - side].layout.place("max_ts") == "min_ts" for side in range(2)]
        self.late_side = next((side for side in range(2) if self._passed[side] is not None and exact[side]), None)
        self._watermarks = [NOTHING_YET, NOTHING_YET]
        self._kept = [0, 0]
        #: Whether rows are stored only: what they would be part of is out already (`decopa.planning.warming`).
        self.absorbs = False

    def on_batch(self, side: int, batch: Batch) -> Iterator[Batch]:
        if not self.absorbs:
            yield from self._matches(side, batch)
        live = self._live(side, batch.columns, self._watermarks[1 - side])
        if live is not None:
            wanted = np.flatnonzero(live)
            if not len(wanted):
                return
            batch = batch.take(wanted)
        self._stores[side].defer(batch)

    def _matches(self, side: int, batch: Batch) -> Iterator[Batch]:
        other = self._stores[1 - side]
        other.settle()
        if len(other) and self._counting:
            yield Batch(self._kernels[side].count(batch, other, self.counters), {}, {})
        elif len(other):
            stored = other.heaps
            heaps = {
                alias: batch.heaps[alias] if alias in self._aliases[side] else stored[alias] for alias in self._groups
            }
            for rows, columns in self._kernels[side].matches(batch, other, self.counters):
                yield Batch(rows, columns, heaps)

    def on_watermark(self, side: int, watermark_us: int) -> Iterator[Batch]:
        """Forgets stored rows of the other side that no later row of this side can join."""
        self._watermarks[side] = watermark_us
        store = self._stores[1 - side]
        if watermark_us == END_OF_STREAM:
            store.drop()
        elif watermark_us != NOTHING_YET:
            store.evict_before(watermark_us - self.window_us)
            if self._passed[1 - side] is not None and len(store) > 2 * self._kept[1 - side]:
                live = self._live(1 - side, store.view(), watermark_us)
                if live is not None:
                    store.keep(live)
                self._kept[1 - side] = len(store)
        yield from ()

    @property
    def output_watermark_us(self) -> int:
        return min(self._watermarks)

    @property
    def state_bytes(self) -> int:
        return sum(store.nbytes for store in self._stores)

    @property
    def state_rows(self) -> int:
        return sum(len(store) + store.deferred for store in self._stores)

    def snapshot(self) -> LogicState:
        for store in self._stores:
            store.settle()
        rows = {
            SIDES[side]: store.snapshot(self._live(side, store.view(), self._watermarks[1 - side]))
            for side, store in enumerate(self._stores)
        }
        return LogicState(rows, tuple(self._watermarks))

    def restore(self, state: LogicState) -> None:
        self._watermarks = list(state.watermarks)
        for side, store in enumerate(self._stores):
            store.insert(state.rows[SIDES[side]])
            self._kept[side] = len(store)

    def _live(self, side: int, rows: Mapping[str, Array], watermark_us: int) -> Array | None:
        """Flags of the rows of `side` that can still meet a row of the other side; None if all can."""
        if watermark_us == NOTHING_YET:
            return None
        live = rows["min_ts"] >= watermark_us - self.window_us
        rule = self._passed[side]
        if rule is not None:
            latest = rows[self._stores[side].layout.place("max_ts")]
            live &= latest > watermark_us if rule == "strict" else latest >= watermark_us
        return None if bool(live.all()) else live


def _kernel(
    spec: OperatorSpec, pairing: Pairing, output: Layout, blocks: OutputBlocks | None, *, by_end: bool
) -> ProbeKernel:
    """Without blocks to write to, matches are counted."""
    writer, equal = write_pairing(spec.bound, pairing, by_form=spec.gathering)
    form = Form.COUNT
    if blocks is not None:
        write_outputs(writer, output, gathered=spec.gathering)
        form = Form.BY_END if by_end else Form.BY_ROW
    return ProbeKernel(writer, spec.bound.query.window_us, equal, spec.code_of, blocks, form)


def _ends_together(pairing: Pairing, output: Layout) -> bool:
    """Whether several probe (left) rows may share the event that ends their matches while stored rows begin them.

    The matches of these rows are then in order by stored row, else by probe row.
    """
    if pairing.left.layout.place("max_ts") == "min_ts" or _passed_rule(pairing.flipped()) is not None:
        return False
    return owner_of("min_ts", output) not in pairing.left_aliases


def _passed_rule(pairing: Pairing) -> str | None:
    """How a partner (right) of a left row is bounded by the left row's max_ts.

    `strict`: every event of the partner precedes some event of the row, so it ends before the row does. `weak`: it
    may also share events with the row, so it ends no later. None: it may end later.
    """
    order = pairing.bound.query.order_constraints
    bounded = [
        any((alias, other) in order for other in pairing.left_aliases) for alias in sorted(pairing.right_aliases)
    ]
    if all(bounded):
        return "strict"
    shared = [alias in pairing.left_aliases for alias in sorted(pairing.right_aliases)]
    return "weak" if all(one or other for one, other in zip(bounded, shared, strict=True)) else None


def write_outputs(writer: PairWriter, output: Layout, *, gathered: bool = False) -> None:
    """Where each column of a match comes from: the probe row, the stored row, or both for the ends of its span.

    Where columns are `gathered` after the loop, the same loop serves all queries with the same conditions.
    """
    probing = writer.probe.sub_query.positive(writer.bound.query)
    probe, store = writer.probe.layout, writer.store.layout
    owners = {name: owner_of(name, output) for name in output.columns}
    if gathered:
        for name, owner in owners.items():
            here = None if owner is not None and owner not in probing else probe.place(name)
            writer.gathered[name] = here, None if owner in probing else store.place(name)
        return
    for name, owner in owners.items():
        if owner in probing:
            writer.outputs.append((Read(name, copied=True), writer.copied_from_probe(probe.place(name))))
    for name, owner in owners.items():
        if owner is not None and owner not in probing:
            writer.outputs.append((Read(name, copied=True), writer.copied_from_store(store.place(name))))
    for name, owner in owners.items():
        if owner is None:
            fold = "min" if name == "min_ts" else "max"
            writer.outputs.append((Read(name), f"{fold}({writer.p(name)}, {writer.s(name)})"))


def owner_of(name: str, output: Layout) -> str | None:
    """The alias whose row holds an output column; None for a span that both rows share in."""
    if name in ("min_ts", "max_ts"):
        edge = ".first" if name == "min_ts" else ".last"
        return next((p.removesuffix(edge) for p, q in output.places.items() if q == name and p.endswith(edge)), None)
    for alias in output.groups:
        if name.startswith(f"{alias}#"):
            return alias
    return name.partition(".")[0]
