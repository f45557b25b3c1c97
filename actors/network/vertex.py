"""VertexLogic: one vertex of a network plan at work. Rows of what it reads in, rows of its projection out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from actors.group import GroupState, Limits, UnitGroup
from actors.unit import Channel
from decopa.planning.network.graphs.compile import LocalPlan
from decopa.planning.subquery import SubQuery
from decopa.query.binding import BoundQuery
from shuffler.routing.table import END_OF_STREAM, NOTHING_YET, Delivery, RoutingTable, Sender, SenderState
from shuffler.rows.batch import Batch
from shuffler.rows.layout import Layout, layout_of

#: Rows, or a watermark, that a vertex puts out.
Emit = Callable[[Batch | int], None]


@dataclass(frozen=True)
class VertexState:
    """What a vertex holds between two messages: its units, how far each input is, and the events a reducer keeps."""

    group: GroupState
    leaves: Mapping[str, SenderState]
    watermarks: Mapping[str, int]
    kept: Batch | None


class VertexLogic:
    """Feeds the local operators of a vertex. Inputs of one projection share a leaf, whose watermark is their least."""

    def __init__(
        self, local: LocalPlan, bound: BoundQuery, code_of: Callable[[str], int], *, limits: Limits, emit: Emit
    ) -> None:
        self.vertex, self.plan = local.vertex, local.plan
        self.routing = RoutingTable(local.plan)
        self._leaf_of, self._emit = local.leaf_of, emit
        self._watermarks = dict.fromkeys(local.leaf_of, NOTHING_YET)
        self._senders = {
            leaf.name: Sender(self.routing.senders(leaf)[0], self.routing.edges_from(leaf)) for leaf in self.plan.leaves
        }
        self._reducer = None if self.vertex.forwards is None else Reducer(bound, self.vertex.forwards)
        self._forwarding = _leaf_named(local, self.vertex.forwards)
        self._hosting = partial(UnitGroup, self.plan, bound, code_of, routing=self.routing)
        self.group = self._hosting(limits=limits, outside=self._outside)

    def warm_up(self) -> None:
        """Loads compiled loops, so that the first rows need not wait for them."""
        self._hosting(limits=Limits(), outside=lambda delivery: None).sample()

    def rows(self, source: str, batch: Batch) -> None:
        """Takes rows of a vertex that it reads."""
        leaf = self._leaf_of.get(source)
        if leaf is None:  # a position that another input has decided already
            return
        if self._reducer is not None and leaf == self._forwarding:
            self._reducer.keep(batch)
        self._deliver(self._senders[leaf].rows(batch))

    def watermark(self, source: str, watermark_us: int) -> None:
        """No later row of this input ends before the watermark."""
        leaf = self._leaf_of.get(source)
        if leaf is None or watermark_us <= self._watermarks[source]:
            return
        self._watermarks[source] = watermark_us
        least = min(mark for name, mark in self._watermarks.items() if self._leaf_of[name] == leaf)
        self._deliver(self._senders[leaf].watermark(least))

    def _deliver(self, deliveries: object) -> None:
        for delivery in deliveries:  # type: ignore[attr-defined]
            if delivery.edge is None:
                self._outside(delivery)
            else:
                channel = Channel(delivery.edge.side, delivery.sender)
                self.group.accept(delivery.edge.target.name, delivery.unit, channel, delivery.content)
        self.group.drain()

    def _outside(self, delivery: Delivery) -> None:
        content = delivery.content
        if self._reducer is None:
            self._emit(content)
        elif isinstance(content, Batch):
            found = self._reducer.matched(content)
            if found.length:
                self._emit(found)
        else:
            self._emit(self._reducer.passed(content))

    def snapshot(self) -> VertexState:
        return VertexState(
            self.group.snapshot(),
            {name: sender.snapshot() for name, sender in self._senders.items()},
            dict(self._watermarks),
            None if self._reducer is None else self._reducer.kept,
        )

    def restore(self, state: VertexState) -> None:
        """Goes on from a snapshot of the same vertex; for one that has not seen anything yet."""
        self.group.restore(state.group)
        for name, sender in self._senders.items():
            sender.restore(state.leaves[name])
        self._watermarks.update(state.watermarks)
        if self._reducer is not None and state.kept is not None:
            self._reducer.keep(state.kept)


class Reducer:
    """Keeps the events of a position until they have a match, then lets them pass, once; forgets them when no match
    can come any more. A partner comes within one window, so what passes is at most that much behind the inputs."""

    def __init__(self, bound: BoundQuery, alias: str) -> None:
        self._id, self._window_us = f"{alias}.id", bound.query.window_us
        self.layout: Layout = layout_of(bound, SubQuery(frozenset({alias})))
        self.kept = self.layout.empty()

    def keep(self, events: Batch) -> None:
        columns = {name: np.concatenate([column, events.columns[name]]) for name, column in self.kept.columns.items()}
        self.kept = Batch(self.kept.length + events.length, columns, {})

    def matched(self, matches: Batch) -> Batch:
        """The kept events that are in some of the matches; they are not kept any longer."""
        flags = np.isin(self.kept.columns[self._id], matches.columns[self._id])
        found = self.kept.take(np.flatnonzero(flags))
        self.kept = self.kept.take(np.flatnonzero(~flags))
        return found

    def passed(self, watermark_us: int) -> int:
        """Forgets what can have no match any more; returns how far this output is."""
        if watermark_us in (END_OF_STREAM, NOTHING_YET):
            return watermark_us
        horizon = watermark_us - self._window_us
        live = self.kept.columns["min_ts"] >= horizon
        if not live.all():
            self.kept = self.kept.take(np.flatnonzero(live))
        return horizon


def _leaf_named(local: LocalPlan, alias: str | None) -> str | None:
    """The leaf of the local plan that is the events of a position."""
    wanted = None if alias is None else SubQuery(frozenset({alias}))
    return next((leaf.name for leaf in local.plan.leaves if leaf.sub_query == wanted), None)
