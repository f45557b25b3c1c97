"""A chain of NEXT that reads events as they come, not split by type: one pass from the last event to the first.

Going back in time, the next event of each step is known when an event is reached, so a first event has its whole match
at once, without comparing times and without a branch. That takes events in the same process as all steps, and times
that are all different. Where this does not hold, events go the usual way and the steps hold what is open.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

import numpy as np

from actors.columnar import jit
from actors.columnar.links import is_rising, pick
from actors.operators.base import OperatorLogic
from actors.operators.succession import SuccessionLogic
from actors.operators.succession_chain import origins
from actors.operators.succession_source import scan_source
from decopa.planning.plan import PlanOperator, QueryPlan
from decopa.query.binding import BoundQuery
from decopa.query.pattern import ANY_TYPE
from decopa.query.query import Query
from shuffler.rows.batch import Array, Batch
from shuffler.rows.events import EventBatch
from shuffler.rows.layout import layout_of

#: Of places in a batch; half the size of others, so that more of them stay in the processor's cache.
_PLACE = np.int32
#: The place of a successor that has not come yet: after all others.
_NONE = 2**31 - 1
#: What the loop remembers grows with the square of the steps.
MOST_STEPS = 6


@dataclass(frozen=True)
class ScannedLeaf:
    """An input of the chain, which takes all events of some types: its name, and the attribute behind each column."""

    name: str
    types: tuple[str, ...]
    attributes: Mapping[str, str]


class HasLogic(Protocol):
    """What a scan has to know of a unit."""

    logic: OperatorLogic

    @property
    def decides_afterwards(self) -> bool: ...


class EventScan:
    """Finds the matches of a chain in whole batches of events; `leaves` are its inputs in the order of the pattern.

    While it is `active` the steps hold nothing: the events that open matches may consist of are in here. Whoever sends
    later events the usual way sends these first (`release`).
    """

    def __init__(self, query: Query, steps: Sequence[SuccessionLogic], leaves: Sequence[ScannedLeaf]) -> None:
        self._window_us, self._steps, self._leaves = query.window_us, tuple(steps), tuple(leaves)
        self._blocks = steps[-1].blocks
        found = steps[-1].origins or origins(query, [step.shape for step in steps])
        self._outputs = {name: (place, leaves[place].attributes[column]) for name, (place, column) in found.items()}
        self._source = scan_source(len(steps))
        self._names: tuple[str, ...] = ()
        self._masks = np.empty(0, dtype=np.int64)
        self._places = np.empty((len(leaves), 0), dtype=_PLACE)
        self._open: list[EventBatch] = []
        self.active = True
        steps[-1].scan = self

    @property
    def rows(self) -> int:
        return sum(map(len, self._open))

    @property
    def nbytes(self) -> int:
        columns = 2 + len({attribute for _, attribute in self._outputs.values()})
        return self.rows * columns * np.dtype(np.int64).itemsize

    def takes(self, events: EventBatch) -> bool:
        """Whether these events can be read as they are."""
        follow = all(int(piece.ts[-1]) < int(events.ts[0]) for piece in self._open)
        return self.active and follow and is_rising(events.ts)

    def feed(self, events: EventBatch, taken: Mapping[str, int]) -> Batch | None:
        """The matches that the events complete, if any; `taken` says how many of the events each leaf takes.

        The last event stays open, since another of the same time may follow. If something is open that began before
        these events, the scan is not active any more: the steps hold such matches without reading them over again.
        """
        self.count_events(taken)
        before = self._open[0] if self._open else events.slice(0, 0)
        found = self._chains(before, events)
        complete = int(np.searchsorted(found[-1], _NONE))
        begins = _gathered("ts", found[0], before, events)
        decided = max(complete, int(np.searchsorted(begins, int(events.ts[-1]) - self._window_us)))
        ends = _gathered("ts", found[-1][:complete], before, events)
        fits = ends - begins[:complete] <= self._window_us
        rows = int(np.count_nonzero(fits))
        for number, (step, following) in enumerate(pairwise(self._steps), start=1):
            pairs = rows
            if not rows == complete == decided:
                known = found[number][: min(decided, int(np.searchsorted(found[number], _NONE)))]
                spans = _gathered("ts", known, before, events) - begins[: len(known)]
                pairs = int(np.count_nonzero(spans <= self._window_us))
            _count(step, following, pairs)
        self._steps[-1].counters.comparisons += rows
        self._steps[-1].counters.emitted += rows
        start = int(found[0][decided]) if decided < len(found[0]) else len(events) - 1
        places = [some[:complete] if rows == complete else some[:complete][fits] for some in found]
        times = {0: begins[:complete], len(found) - 1: ends} if rows == complete else {}
        matches = self._gathered(places, before, events, times) if rows else None
        self.active = start >= 0
        self._open = [before.slice(len(before) + start, len(before)), events]
        if self.active:
            self._open = [events.slice(start, len(events))]
        return matches

    def count_events(self, taken: Mapping[str, int], sign: int = 1) -> None:
        """Counts events that steps take; those that are released count where they arrive, so they are taken off."""
        for leaf, step in zip(self._leaves, (self._steps[0], *self._steps), strict=True):
            step.counters.ingested += sign * taken[leaf.name]

    def release(self) -> list[EventBatch]:
        """What is open, in order of time; it is up to the steps then."""
        self.active, released = False, self._open
        self._open = []
        return released

    def enter(self, events: EventBatch) -> None:
        """Takes what is open from the steps, if all of it began in these events, which are the last that they got."""
        since_us = min(step.held_since_us for step in self._steps)
        start = min(int(np.searchsorted(events.ts, since_us)), len(events) - 1)
        if self.active or start == 0 or not is_rising(events.ts[start - 1 :]):
            return
        for number, step in enumerate(self._steps):
            pairs = step.forget()
            for earlier, following in pairwise(self._steps[: number + 1]):
                _count(earlier, following, -pairs)
        self.active, self._open = True, [events.slice(start, len(events))]

    def warm_up(self) -> None:
        """Loads the compiled loops."""
        times, codes = np.arange(2), np.zeros(2, dtype=np.int32)
        for array in (times, codes):
            array.flags.writeable = False
        events = EventBatch(times, times, codes, ("",), 0, {})
        self._chains(events.slice(0, 0), events)
        _gathered("ts", np.zeros(1, dtype=_PLACE), events, events)
        is_rising(times)

    def _chains(self, before: EventBatch, events: EventBatch) -> list[Array]:
        """For each first event, in order of time, the places of its chain; those in `before` are below zero."""
        size = len(before) + len(events) + 1
        if self._places.shape[1] < size:
            self._places = np.empty((len(self._leaves), size), dtype=_PLACE)
        state = np.full(len(self._steps) * (len(self._steps) + 1) // 2, _NONE, dtype=np.int64)
        row = self._scan(events, len(events) - 1, 0, state, size)
        row = self._scan(before, len(before), -len(before), state, row)
        return [places[row:size] for places in self._places]

    def _scan(self, events: EventBatch, count: int, base: int, state: Array, row: int) -> int:
        if events.type_names is not self._names:
            self._names = events.type_names
            self._masks = np.array([self._mask(name) for name in self._names], dtype=np.int64)
        call = jit.load(self._source).scan
        return int(call(events.type_codes, self._masks, count, base, state, row, *self._places))

    def _mask(self, event_type: str) -> int:
        """The inputs that take a type, as bits."""
        taking = (event_type in leaf.types or ANY_TYPE in leaf.types for leaf in self._leaves)
        return sum(1 << place for place, takes in enumerate(taking) if takes)

    def _gathered(
        self, places: Sequence[Array], before: EventBatch, events: EventBatch, times: Mapping[int, Array]
    ) -> Batch:
        """The matches at places; of some events the times are known."""
        rows = len(places[0])
        if self._blocks is None:
            return Batch(rows, {}, {})
        columns = self._blocks.room(rows)
        for name, (place, attribute) in self._outputs.items():
            if attribute == "ts" and place in times:
                columns[name][:] = times[place]
            else:
                _gathered(attribute, places[place], before, events, columns[name])
        self._blocks.take(rows)
        return Batch(rows, columns, {})


def scan_of(plan: QueryPlan, bound: BoundQuery, units: Mapping[str, HasLogic]) -> EventScan | None:
    """The scan of a plan that is nothing but a chain of events whose times alone say what follows; else None."""
    last = None if plan.root.name not in units else units[plan.root.name].logic
    if not isinstance(last, SuccessionLogic) or not last.by_time_alone or plan.since_us is not None or bound.lasting:
        return None
    steps = [one for one in plan.operators if one.inputs]
    if len(last.steps) != len(steps) or len(steps) > MOST_STEPS or units[plan.root.name].decides_afterwards:
        return None
    chain: list[PlanOperator] = []
    step = plan.root
    while step.inputs:
        inputs, roles = plan.inputs(step), plan.roles(step)
        chain.append(inputs[roles.other])
        step = inputs[roles.main]
    leaves = [_scanned(bound, leaf) for leaf in (step, *reversed(chain))]
    found = [leaf for leaf in leaves if leaf is not None]
    return EventScan(plan.query, last.steps, found) if len(found) == len(leaves) else None


def _scanned(bound: BoundQuery, leaf: PlanOperator) -> ScannedLeaf | None:
    """A leaf as a scan sees it; None for a leaf that does not take events as they are."""
    if leaf.inputs or leaf.view is not None:
        return None
    (alias,) = leaf.sub_query.aliases
    position, columns = bound.query.position(alias), layout_of(bound, leaf.sub_query).columns
    attributes = {name: "ts" if name == "min_ts" else name.partition(".")[2] for name in columns}
    derived = {one.name for one in bound.derived.get(alias, ())} | {"ordinal", ""}
    if position.strict or position.delay_us or bound.filters.get(alias) or derived & set(attributes.values()):
        return None
    return ScannedLeaf(leaf.name, position.types, attributes)


def _count(step: SuccessionLogic, following: SuccessionLogic, pairs: int) -> None:
    """Matches of a step that go to the next one, as both would count them."""
    step.counters.comparisons += pairs
    step.counters.emitted += pairs
    following.counters.ingested += pairs


def _gathered(attribute: str, places: Array, before: EventBatch, events: EventBatch, out: Array | None = None) -> Array:
    """The values at ascending places; those below zero count from the end of `before`."""
    later = int(np.searchsorted(places, 0))
    column = _column(attribute, events)
    out = np.empty(len(places), column.dtype) if out is None else out
    if later:
        pick(_column(attribute, before), places[:later] + len(before), out[:later])
    pick(column, places[later:], out[later:])
    return out


def _column(attribute: str, events: EventBatch) -> Array:
    if attribute == "ts":
        return events.ts
    if attribute == "id":
        return events.ids
    return events.columns["id" if attribute == "id text" else attribute]
