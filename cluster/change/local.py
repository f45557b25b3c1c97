"""A pipeline whose plan changes while it runs, in one process.

What is new in the plan is built beside the old one: it works on the last windows of events again, with its matches
muted, until it is where the old plan is. Then both get the same watermark, the old plan hands over its matches and the
state of the parts that stay, and the next events go to the new one.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from actors.group import Limits
from actors.reports import OperatorReport
from actors.sinks.outlet import check_rows_only
from cluster.change.cut import held_from, joined, matches_at_cut, released, reported
from cluster.change.history import History
from cluster.pipeline import Pipeline
from decopa.planning.history import history_us
from decopa.planning.plan import Plan
from shuffler.routing.counts import FeedCounts
from shuffler.routing.table import END_OF_STREAM, NOTHING_YET
from shuffler.rows.events import EventBatch, EventFormat
from shuffler.rows.strings import StringPool


@dataclass(frozen=True, slots=True)
class Replayed:
    """What it took to build a plan in the middle of the stream: where the cut is, and how many events were worked on
    again."""

    at_event: int
    at_us: int
    events: int


class ChangingPipeline:
    """Works on batches of events; between two of them its plan may be replaced.

    `history` keeps the events that a new plan is built from. Matches are tables by the key of their part. They come
    while the stream goes on (`take`). A match of which plans become certain at different moments is held back until all
    of them would be.
    """

    def __init__(
        self,
        plan: Plan,
        form: EventFormat,
        strings: StringPool,
        history: History[EventBatch],
        *,
        limits: Limits | None = None,
        interleaving: random.Random | None = None,
        on_progress: Callable[[], None] = lambda: None,
    ) -> None:
        self._form, self._strings, self._history = form, strings, history
        self._limits, self._interleaving, self._on_progress = limits, interleaving, on_progress
        self._pipeline = self._built(plan.with_keys)
        self._watermark_us = NOTHING_YET
        #: Matches that were found under earlier plans and have not been taken yet, by part.
        self._earlier: dict[str, pa.Table] = {}
        self._ended_reports: list[OperatorReport] = []
        self.events = 0

    def _built(self, plan: Plan) -> Pipeline:
        check_rows_only(plan, "a run whose plan may change")
        return Pipeline(
            plan,
            self._form,
            self._strings,
            limits=self._limits,
            interleaving=self._interleaving,
            on_progress=self._on_progress,
        )

    @property
    def plan(self) -> Plan:
        return self._pipeline.plan

    @property
    def watermark_us(self) -> int:
        """The time of the last event that was worked on."""
        return self._watermark_us

    def feed(self, events: EventBatch) -> None:
        self._history.add(events, int(events.ts[-1]), size_of(events))
        self._pipeline.feed(events)
        self._pipeline.settle()
        self.events += len(events)
        self._watermark_us = int(events.ts[-1])
        # Twice the window is the latest that a match can still be on its way; what is kept may be worked on again.
        reach_us = self._history.reach_us + 3 * self._pipeline.window_us
        self._strings.forget_before(self._watermark_us - reach_us)

    def switch(self, plan: Plan, begin_us: Mapping[str, int] | None = None) -> Replayed:
        """From the next event on `plan` finds the matches. If it cannot be built, nothing changes.

        A part that stays as it is keeps its state; only others are built from the history, each from `begin_us` on,
        by default as far back as its query looks.
        """
        plan = plan.with_keys
        new, watermark_us = self._built(plan), self._watermark_us
        if not self.events:
            self._pipeline = new
            return Replayed(0, watermark_us, 0)
        kept = kept_parts(self.plan, plan)
        side = self._side_run(plan, kept, begin_us or {})
        for one in (self._pipeline, *([] if side is None else [side])):
            one.advance(watermark_us)
        found = {} if side is None else _by_key(side)
        muted = {key: table for key, table in found.items() if key not in kept}
        at_cut = matches_at_cut(self._taken(), muted, reported(self.plan) | reported(plan), watermark_us)
        held, built = self._pipeline.snapshot(), {} if side is None else side.snapshot()
        new.restore({key: held[key] if key in kept else built[key] for key in plan.keys})
        new.advance(watermark_us)
        self._ended_reports += self._reports_of(self._pipeline, lambda key: key not in kept)
        self._earlier, self._pipeline = at_cut, new
        return Replayed(self.events, watermark_us, 0 if side is None else side.events)

    def _side_run(self, plan: Plan, kept: frozenset[str], begin_us: Mapping[str, int]) -> Pipeline | None:
        """The parts that are not kept, and copies of those that they take matches from, after the last events."""
        needed = with_sources(plan, frozenset(plan.keys) - kept)
        if not needed:
            return None
        parts = tuple(part for key, part in zip(plan.keys, plan.parts, strict=True) if key in needed)
        side = self._built(replace(plan, parts=parts).with_keys)
        earliest_us = min(
            begin_us.get(key, self._watermark_us - history_us(Plan((part,))))
            for key, part in zip(side.plan.keys, parts, strict=True)
        )
        if earliest_us <= self._watermark_us:
            for events in self._history.since(earliest_us):
                side.feed(events)
        return side

    def _reports_of(self, pipeline: Pipeline, wanted: Callable[[str], bool]) -> list[OperatorReport]:
        parts = zip(pipeline.plan.keys, pipeline.part_reports(), strict=True)
        return [report for key, reports in parts if wanted(key) for report in reports]

    def finish(self) -> None:
        """The stream has ended: nothing is held back any more."""
        self._pipeline.finish()
        self._watermark_us = END_OF_STREAM

    def take(self) -> dict[str, pa.Table]:
        """The matches since the last call, by the key of their part."""
        found, self._earlier = released(self._taken(), reported(self.plan), self._watermark_us)
        return found

    def nothing(self) -> dict[str, pa.Table]:
        """No matches, by the keys of the parts that report: shows the columns of each."""
        tables = (sink.table().slice(0, 0) for sink in self._pipeline.sinks)
        return dict(zip(reported(self.plan), tables, strict=True))

    def _taken(self) -> dict[str, pa.Table]:
        return joined(self._earlier, _by_key(self._pipeline))

    @property
    def finals_us(self) -> dict[str, int]:
        """For each part that reports: no later match ends before this."""
        certain = dict(zip(reported(self.plan), self._pipeline.finals_us, strict=True))
        held = held_from(reported(self.plan), self._watermark_us)
        return {key: min(final_us, held.get(key, final_us)) for key, final_us in certain.items()}

    def warm_up(self) -> None:
        self._pipeline.warm_up()

    @property
    def matches(self) -> int:
        """Matches that have not been taken yet."""
        return self._pipeline.matches + int(sum(table.num_rows for table in self._earlier.values()))

    @property
    def counts(self) -> FeedCounts:
        """Events by type and rows by leaf that the present plan has seen, those of its history among them."""
        return self._pipeline.counts

    def part_reports(self) -> list[tuple[OperatorReport, ...]]:
        """What the operators of each part of the present plan did so far."""
        return self._pipeline.part_reports()

    def reports(self) -> tuple[OperatorReport, ...]:
        """What all operators did, those of earlier plans first."""
        return (*self._ended_reports, *self._pipeline.reports())


def kept_parts(old: Plan, new: Plan) -> frozenset[str]:
    """The keys of the parts that both plans have, equal in all that decides what they hold, with what they view."""
    before = dict(zip(old.keys, old.parts, strict=True))
    equal = {key for key, part in zip(new.keys, new.parts, strict=True) if before.get(key) == part}
    return frozenset(key for key in equal if with_sources(new, frozenset({key})) <= equal)


def with_sources(plan: Plan, keys: frozenset[str]) -> frozenset[str]:
    """These parts and all that they take matches from."""
    found, waiting = set(keys), list(keys)
    while waiting:
        for operator in plan.parts[plan.place_of[waiting.pop()]].views:
            assert operator.view is not None
            if operator.view.part not in found:
                found.add(operator.view.part)
                waiting.append(operator.view.part)
    return frozenset(found)


def _by_key(pipeline: Pipeline) -> dict[str, pa.Table]:
    return dict(zip(reported(pipeline.plan), pipeline.take(), strict=True))


def size_of(events: EventBatch) -> int:
    """Bytes that a batch holds."""
    arrays = [events.ts, events.ids, events.type_codes, *events.columns.values()]
    return int(sum(array.nbytes for array in arrays) + (0 if events.ordinals is None else events.ordinals.nbytes))
