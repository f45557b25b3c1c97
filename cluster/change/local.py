"""A pipeline whose plan changes while it runs, in one process.

What is new in the plan is built beside the old one: it works on the last windows of events again, with its matches
muted, until it is where the old plan is. Then both get the same watermark, the old plan hands over its matches and the
state of the parts that stay, dealt out anew where they have other numbers of units, and the next events go to the new
one.
"""

from __future__ import annotations

import math
import random
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa

from actors.group import Limits
from actors.reports import OperatorReport
from actors.sinks.outlet import Outcome, OutletSpec, check_rows_only
from actors.sinks.sink import MatchSink
from cluster.change.cut import final_at, held_from, matches_at_cut, released, reported
from cluster.change.history import History
from cluster.change.staying import dealt_out, staying_parts, with_sources
from cluster.live import NewMatches
from cluster.matches import joined
from cluster.pipeline import TABLE, PartState, Pipeline
from decopa.errors import DecoPaError, PlanError
from decopa.planning.history import history_us, uncertain_windows
from decopa.planning.plan import Plan
from shuffler.routing.counts import FeedCounts
from shuffler.routing.table import END_OF_STREAM, NOTHING_YET
from shuffler.rows.events import EventBatch, EventFormat
from shuffler.rows.strings import StringPool


@dataclass(frozen=True, slots=True)
class Replayed:
    """What it took to build a plan in the middle of the stream: where the cut is, how many events were worked on
    again, and the rows and comparisons that this took."""

    at_event: int
    at_us: int
    events: int
    rows: int = 0
    comparisons: int = 0


@dataclass
class _Warming:
    """A plan that is being built beside the one that runs: `side` works on `blocks`, then on those that came later."""

    plan: Plan
    #: The parts that stay as they are, and those that have other numbers of units, by their keys.
    kept: frozenset[str]
    dealt: frozenset[str]
    side: Pipeline | None
    blocks: Iterator[EventBatch]
    later: deque[EventBatch] = field(default_factory=deque)

    def step(self) -> bool:
        """Works on the next batch; False if there is none, so that both plans are at the same place."""
        if self.side is None:
            return False
        events = next(self.blocks, None)
        if events is None:
            if not self.later:
                return False
            events = self.later.popleft()
        self.side.feed(events)
        return True


class ChangeUnderWay(DecoPaError):
    """A change was asked for while another one is being made."""


class ChangingPipeline:
    """Works on batches of events; between two of them its plan may be replaced.

    `history` keeps the events that a new plan is built from. What takes matches stays when the plan changes, so
    `outlet` may be of any kind. With `rows_only` matches are tables by the key of their part, which come while the
    stream goes on (`take`). A match of which plans become certain at different moments is then held back until all of
    them would be.
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
        outlet: OutletSpec = TABLE,
        rows_only: bool = True,
        on_progress: Callable[[], None] = lambda: None,
    ) -> None:
        self._form, self._strings, self._history = form, strings, history
        self._limits, self._interleaving, self._on_progress = limits, interleaving, on_progress
        self._rows_only = rows_only
        self._pipeline = self._built(plan.with_keys, outlet)
        #: Of a plan that is being built: files are written by the one that runs.
        self._muted = replace(outlet, folder=None)
        self._warming: _Warming | None = None
        self._watermark_us = NOTHING_YET
        #: Matches that were found under earlier plans and have not been taken yet, by part.
        self._earlier: dict[str, pa.Table] = {}
        self._ended_reports: list[OperatorReport] = []
        self.events = 0

    def _built(self, plan: Plan, outlet: OutletSpec) -> Pipeline:
        if self._rows_only:
            check_rows_only(plan, "a run whose plan may change")
        return Pipeline(
            plan,
            self._form,
            self._strings,
            limits=self._limits,
            interleaving=self._interleaving,
            outlet=outlet,
            on_progress=self._on_progress,
        )

    @property
    def plan(self) -> Plan:
        return self._pipeline.plan

    @property
    def watermark_us(self) -> int:
        """The time of the last event that was worked on."""
        return self._watermark_us

    @property
    def attributes(self) -> list[str]:
        """The attributes that events must have."""
        return self._pipeline.attributes

    @property
    def window_us(self) -> int:
        return self._pipeline.window_us

    def feed(self, events: EventBatch) -> None:
        self._history.add(events, int(events.ts[-1]), size_of(events))
        self._pipeline.feed(events)
        self._pipeline.settle()
        if self._warming is not None:
            self._warming.later.append(events)
        self.events += len(events)
        self._watermark_us = int(events.ts[-1])

    def forget_strings(self) -> None:
        """Forgets strings of events that no match to come can have; what is kept may be worked on again."""
        self._pipeline.forget_strings(self._history.reach_us)

    # ------------------------------------------------------------- the change

    def switch(self, plan: Plan, begin_us: Mapping[str, int] | None = None) -> Replayed:
        """From the next event on `plan` finds the matches. If it cannot be built, nothing changes.

        A part that stays keeps its state, also on other numbers of units; only others are built from the history, each
        from `begin_us` on, by default as far back as its query looks.
        """
        self.begin(plan, begin_us)
        made = self.step()
        assert made is not None
        return made

    def begin(self, plan: Plan, begin_us: Mapping[str, int] | None = None) -> None:
        """Begins to build a plan beside the one that runs; `step` goes on with it."""
        if self._warming is not None:
            raise ChangeUnderWay("the plan is being changed already; ask again when that is done")
        plan = plan.with_keys
        kept, dealt = staying_parts(self.plan, plan) if self.events else (frozenset[str](), frozenset[str]())
        self._check_outlet(plan, kept)
        needed = with_sources(plan, frozenset(plan.keys) - kept - dealt)
        if not needed:
            self._warming = _Warming(plan, kept, dealt, None, iter(()))
            return
        parts = tuple(part for key, part in zip(plan.keys, plan.parts, strict=True) if key in needed)
        side = self._built(replace(plan, parts=parts).with_keys, self._muted)
        if self.events:
            side.absorb(reported(self.plan).keys() & reported(side.plan).keys())
        self._warming = _Warming(plan, kept, dealt, side, self._replayed(side.plan, begin_us or {}))

    def _check_outlet(self, plan: Plan, kept: frozenset[str]) -> None:
        """Matches that are told apart by their ends must be rows that nobody has seen yet."""
        for key, query in reported(plan).items():
            if not self._rows_only and key not in kept and uncertain_windows(query):
                raise PlanError(
                    f"query {query.name} keeps its plan: it has NOT inside NOT, or NEXT beside a NOT at its end, so "
                    "plans report a match at different moments"
                )

    def _replayed(self, plan: Plan, begin_us: Mapping[str, int]) -> Iterator[EventBatch]:
        """The last events, as far back as the parts of a plan look."""
        if not self.events:
            return iter(())
        earliest_us = min(
            begin_us.get(key, self._watermark_us - history_us(Plan((part,))))
            for key, part in zip(plan.keys, plan.parts, strict=True)
        )
        return self._history.since(earliest_us) if earliest_us <= self._watermark_us else iter(())

    def step(self, seconds: float = math.inf) -> Replayed | None:
        """Goes on with a change for about so long. Returns what it took once the new plan has taken over. After an
        error the change is given up, and the old plan stays."""
        assert self._warming is not None
        ends_s = time.perf_counter() + seconds
        try:
            while self._warming.step():
                if time.perf_counter() >= ends_s:
                    return None
            made = self._cut(self._warming)
        except BaseException:
            self._warming = None
            raise
        self._warming = None
        return made

    @property
    def changing(self) -> bool:
        """Whether a change is under way."""
        return self._warming is not None

    def give_up(self) -> None:
        """Ends a change that is under way; the old plan stays."""
        self._warming = None

    def _cut(self, change: _Warming) -> Replayed:
        """Both plans get the same watermark, and the new one takes over. Who takes the matches of a part goes on to do
        so, unless its matches must be told apart by their ends."""
        old, side, plan, kept, watermark_us = self._pipeline, change.side, change.plan, change.kept, self._watermark_us
        if not self.events:
            self._pipeline = self._restored(change, {}) if side is None else side
            old.hand_over_to(self._pipeline, reported(old.plan).keys() & reported(plan).keys())
            old.close()
            return Replayed(0, watermark_us, 0)
        for one in (old, *([] if side is None else [side])):
            one.advance(watermark_us)
        if side is not None:
            side.absorb(())
        done = [] if side is None else side.reports()
        before, after = reported(old.plan), reported(plan)
        handed = {
            key for key in before.keys() & after.keys() if key in kept or final_at(before[key], watermark_us) is None
        }
        mine = joined(
            {key: table for key, table in self._earlier.items() if key not in handed},
            old.take_of(before.keys() - handed),
        )
        muted = {} if side is None else side.take_of(after.keys() - handed - kept)
        at_cut = matches_at_cut(mine, muted, before | after, watermark_us)
        new = side if side is not None and not kept | change.dealt else None
        new = new or self._restored(change, {} if side is None else side.snapshot())
        old.hand_over_to(new, handed)
        self._ended_reports += self._reports_of(old, lambda key: key not in kept)
        self._earlier = {key: table for key, table in self._earlier.items() if key in handed} | at_cut
        self._pipeline = new
        made = Replayed(
            self.events,
            watermark_us,
            0 if side is None else side.events,
            sum(report.ingested for report in done),
            sum(report.comparisons for report in done),
        )
        for over in (old, side):
            if over is not None and over is not new:
                over.close()
        return made

    def _restored(self, change: _Warming, built: Mapping[str, PartState]) -> Pipeline:
        """The new plan with the state of the parts that stay, and that of those that were built."""
        plan, old = change.plan, self._pipeline
        new, held = self._built(plan, self._muted), old.snapshot()
        staying = {key: held[key] for key in change.kept} | dealt_out(old.plan, plan, change.dealt, held)
        new.restore({**built, **staying})
        new.advance(self._watermark_us)
        return new

    def _reports_of(self, pipeline: Pipeline, wanted: Callable[[str], bool]) -> list[OperatorReport]:
        parts = zip(pipeline.plan.keys, pipeline.part_reports(), strict=True)
        return [report for key, reports in parts if wanted(key) for report in reports]

    def finish(self) -> None:
        """The stream has ended: nothing is held back any more."""
        self._pipeline.finish()
        self._watermark_us = END_OF_STREAM

    def take(self) -> dict[str, pa.Table]:
        """The matches since the last call, by the key of their part."""
        mine = joined(self._earlier, _by_key(self._pipeline))
        found, self._earlier = released(mine, reported(self.plan), self._watermark_us)
        return found

    def new_matches(self) -> NewMatches | None:
        """The matches that came since the last call, if there are any, and how far each query is."""
        found = self.take() if self.matches else {}
        if not any(table.num_rows for table in found.values()):
            return None
        return NewMatches(tuple(found.values()), tuple(self.finals_us[key] for key in found))

    def nothing(self) -> dict[str, pa.Table]:
        """No matches, by the keys of the parts that report: shows the columns of each."""
        tables = (sink.table().slice(0, 0) for sink in self._pipeline.sinks)
        return dict(zip(reported(self.plan), tables, strict=True))

    @property
    def finals_us(self) -> dict[str, int]:
        """For each part that reports: no later match ends before this."""
        certain = dict(zip(reported(self.plan), self._pipeline.finals_us, strict=True))
        held = held_from(reported(self.plan), self._watermark_us)
        return {key: min(final_us, held.get(key, final_us)) for key, final_us in certain.items()}

    def settle(self) -> None:
        """Matches are put in their place with every batch."""

    def warm_up(self) -> None:
        self._pipeline.warm_up()

    def abandon(self) -> None:
        """Removes what was written to files: the run has failed."""
        self._pipeline.abandon()

    def close(self) -> None:
        self._pipeline.close()

    @property
    def dropped(self) -> Mapping[str, str]:
        return self._pipeline.dropped

    @property
    def sinks(self) -> list[MatchSink]:
        return self._pipeline.sinks

    @property
    def outcomes(self) -> list[Outcome]:
        """What became of the matches of each OR-free query, in the plan's order."""
        return self._pipeline.outcomes

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

    @property
    def earlier_reports(self) -> tuple[OperatorReport, ...]:
        """What the operators of earlier plans did."""
        return tuple(self._ended_reports)


def _by_key(pipeline: Pipeline) -> dict[str, pa.Table]:
    return dict(zip(reported(pipeline.plan), pipeline.take(), strict=True))


def size_of(events: EventBatch) -> int:
    """Bytes that a batch holds."""
    arrays = [events.ts, events.ids, events.type_codes, *events.columns.values()]
    return int(sum(array.nbytes for array in arrays) + (0 if events.ordinals is None else events.ordinals.nbytes))
