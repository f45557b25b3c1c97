"""Pipeline: a whole plan with all its units in one process, fed batch by batch.

Units exchange batches and watermarks through first-in-first-out channels, as they do on a cluster. Normally the
message nearest to the root is delivered first, which keeps queues short and batches in the processor's cache; with
`interleaving` the next channel is drawn at random instead, to show that the order between senders changes nothing.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from actors.group import GroupState, Limits
from actors.host import PartsHost
from actors.reports import OperatorReport, UnitReport, operator_report, unit_reports
from actors.sinks.outlet import MatchTaker, Outcome, OutletSpec, outcome_of, taker_of
from actors.sinks.parts import PartSink
from actors.sinks.sink import MatchSink, check_limit
from cluster.live import NewMatches
from decopa.errors import LimitError
from decopa.planning.plan import Plan
from decopa.planning.validate import check_structure
from decopa.query.binding import bind
from shuffler.exchange.codecs import needed_attributes
from shuffler.routing.counts import FeedCounts
from shuffler.routing.feeder import FeederState, WorkloadFeeder
from shuffler.routing.table import END_OF_STREAM, NOTHING_YET, Delivery
from shuffler.routing.topology import Topology
from shuffler.rows.batch import Batch
from shuffler.rows.events import EventBatch, EventFormat
from shuffler.rows.strings import StringPool

#: Matches become rows of a table in canonical order.
TABLE = OutletSpec()


@dataclass(frozen=True)
class PartState:
    """What a pipeline holds of one part: its units by copy, where it is in dealing out events, and how far the senders
    of its matches have come."""

    groups: Mapping[int, GroupState]
    feeder: FeederState
    watermarks: Mapping[tuple[int, str], int]


class Pipeline:
    """The units of a plan, the feeder in front of them and what takes their matches behind them.

    `outlet` says what becomes of matches: a table, unless it is told otherwise. `on_progress` is called after every
    message.
    """

    def __init__(
        self,
        plan: Plan,
        form: EventFormat,
        strings: StringPool,
        *,
        limits: Limits | None = None,
        interleaving: random.Random | None = None,
        outlet: OutletSpec = TABLE,
        on_progress: Callable[[], None] = lambda: None,
    ) -> None:
        check_structure(plan)
        self.plan, self._limits, self._strings = plan, limits or Limits(), strings
        topology = Topology(plan)
        bounds = [bind(part.query, form.schema) for part in plan.parts]
        #: The attributes that events must have.
        self.attributes = needed_attributes(bounds, form.schema)
        #: The longest window of all queries.
        self.window_us = max((bound.query.window_us for bound in bounds), default=0)
        self._host = PartsHost(
            topology,
            bounds.__getitem__,
            strings,
            limits=self._limits,
            outside=self._outside,
            counting=lambda part: outlet.counts_only(bounds[part].query),
            interleaving=interleaving,
            on_progress=on_progress,
            on_limit=self._drop if self._limits.on_limit == "drop-query" else None,
        )
        self._feeder = WorkloadFeeder(topology.routing, bounds, strings, unsplit=self._host)
        self._taker: Callable[[int], MatchTaker] = lambda part: taker_of(
            outlet, plan.parts[part], bounds[part], form, strings, self._limits, str(part)
        )
        self._takers: dict[int, MatchTaker] = {part: self._taker(part) for part in topology.sink_of}
        #: Queries that exceeded a limit and were dropped, with what they exceeded.
        self.dropped: dict[str, str] = {}
        #: How far each sender of each part's matches has come.
        self._watermarks: dict[int, dict[tuple[int, str], int]] = {
            part: {
                (copy, sender): NOTHING_YET
                for copy in range(plan.parts[part].slices)
                for sender in topology.routing[part].senders(plan.parts[part].root)
            }
            for part in self._takers
        }
        #: Parts that have found matches or heard of a watermark since their matches were last put in their place.
        self._touched: set[int] = set()
        self.events, self._last_us = 0, NOTHING_YET

    def _drop(self, part: int, err: LimitError) -> None:
        """The queries that take part in what exceeded a limit have no result."""
        names = {one: self.plan.parts[one].query.name for one in self._takers}
        lost = {name for one, name in names.items() if one in self._host.dropped}
        self.dropped |= {name: str(err) for name in sorted(lost) if name not in self.dropped}
        if lost == set(names.values()):
            raise LimitError(f"every query exceeds a limit; the last: {err}") from err
        for one in names:
            if one in self._host.dropped:
                self._takers[one] = self._taker(one)

    def absorb(self, keys: Collection[str]) -> None:
        """The parts of these keys, and no others, are built from events of which all matches are out."""
        self._host.absorb([self.plan.place_of[key] for key in keys])

    def feed(self, events: EventBatch) -> None:
        """Works on a batch to its end; the watermark is then the time of its last event."""
        self._deliver(self._feeder.feed(events))
        self._host.read_on(events)
        self.events += len(events)
        self._last_us = int(events.ts[-1])

    def forget_strings(self, reach_us: int = 0) -> None:
        """Forgets strings of events that no match to come can have, except those of the last `reach_us`."""
        # Twice the window is the latest that a match can still be on its way, held back by a NOT at its end.
        self._strings.forget_before(self._last_us - reach_us - 3 * self.window_us)

    def advance(self, watermark_us: int) -> None:
        """Promises every part that no event before the watermark follows, and works on what that decides."""
        self._deliver(self._feeder.advance(watermark_us))

    def settle(self) -> None:
        """Puts matches that are final in their place."""
        for part in self._touched:
            self._takers[part].settle(min(self._watermarks[part].values()))
        self._touched.clear()

    def finish(self) -> None:
        """The stream has ended: decides what waits for later events."""
        self.advance(END_OF_STREAM)
        for taker in self._takers.values():
            taker.settle(END_OF_STREAM)

    def abandon(self) -> None:
        """Removes what was written to files: the run has failed."""
        for taker in self._takers.values():
            if isinstance(taker, PartSink):
                taker.abandon()

    def close(self) -> None:
        """Lets go of matches and state: whoever asks for them must have done so."""
        self._takers.clear()
        self._touched.clear()
        self._host.close()

    def warm_up(self) -> None:
        """Loads compiled loops, so that the first events need not wait."""
        self._host.warm_up()
        for sink in self.sinks:
            sink.warm_up()

    def _deliver(self, deliveries: Iterator[tuple[int, int, Delivery]]) -> None:
        for part, copy, delivery in deliveries:
            self._host.take(part, copy, delivery)
        self._host.drain()

    def _outside(self, part: int, copy: int, delivery: Delivery) -> None:
        """What leaves a plan that is hosted here as a whole comes from its roots."""
        self._touched.add(part)
        if not isinstance(delivery.content, Batch):
            self._watermarks[part][copy, delivery.sender] = delivery.content
            return
        taker, plan = self._takers[part], self.plan.parts[part]
        taker.add(delivery.content)
        if isinstance(taker, MatchSink) and taker.rows > self._limits.max_matches:  # else the title is not needed
            check_limit(taker.rows, self._limits.max_matches, plan.text(plan.root))

    def snapshot(self) -> dict[str, PartState]:
        """What is held of each part, by its key; for matches, see `take`."""
        self._deliver(self._feeder.release())
        self._host.catch_up()
        groups: dict[int, dict[int, GroupState]] = {}
        for (part, copy), group in self._host.snapshot().items():
            groups.setdefault(part, {})[copy] = group
        return {
            key: PartState(groups.get(part, {}), feeder, dict(self._watermarks.get(part, {})))
            for part, (key, feeder) in enumerate(zip(self.plan.keys, self._feeder.snapshot(), strict=True))
        }

    def restore(self, states: Mapping[str, PartState]) -> None:
        """Goes on from snapshots of the same parts, on as many units; for a pipeline that has not seen anything yet."""
        mine = {part: states[key] for part, key in enumerate(self.plan.keys)}
        self._host.restore({(part, copy): group for part, one in mine.items() for copy, group in one.groups.items()})
        self._feeder.restore([one.feeder for one in mine.values()])
        for part, marks in self._watermarks.items():
            before = mine[part].watermarks
            least_us = min(before.values(), default=NOTHING_YET)
            marks.update({sender: before.get(sender, least_us) for sender in marks})

    def hand_over_to(self, other: Pipeline, keys: Collection[str]) -> None:
        """The other pipeline goes on with what takes the matches of these parts; what it has found itself is dropped.

        Both plan the same queries, so a match has the same columns in both, and takers keep their order and counts.
        """
        for key in keys:
            other._takers[other.plan.place_of[key]] = self._takers[self.plan.place_of[key]]
            other._touched.add(other.plan.place_of[key])

    def take(self) -> tuple[pa.Table, ...]:
        """The matches that came since the last call, a table for each OR-free query, where rows are wanted."""
        return tuple(sink.take() for sink in self.sinks)

    def new_matches(self) -> NewMatches | None:
        """The matches that came since the last call, if there are any, and how far each query is."""
        return NewMatches(self.take(), self.finals_us) if any(sink.rows for sink in self.sinks) else None

    def take_of(self, keys: Collection[str]) -> dict[str, pa.Table]:
        """As `take`, of these parts only, by their keys."""
        takers = {key: self._takers[self.plan.place_of[key]] for key in keys}
        return {key: taker.take() for key, taker in takers.items() if isinstance(taker, MatchSink)}

    @property
    def finals_us(self) -> tuple[int, ...]:
        """For each OR-free query: no later match ends before this."""
        return tuple(min(marks.values()) for marks in self._watermarks.values())

    @property
    def sinks(self) -> list[MatchSink]:
        """Those who collect the matches of each OR-free query, where rows are wanted."""
        return [taker for taker in self._takers.values() if isinstance(taker, MatchSink)]

    @property
    def outcomes(self) -> list[Outcome]:
        """What became of the matches of each OR-free query, in the plan's order."""
        return [outcome_of(taker) for taker in self._takers.values()]

    @property
    def matches(self) -> int:
        return sum(taker.rows for taker in self._takers.values())

    @property
    def counts(self) -> FeedCounts:
        """Events by type and rows by leaf so far."""
        return self._feeder.counts

    def part_reports(self) -> list[tuple[OperatorReport, ...]]:
        """What the operators of each part did so far."""
        units: list[list[UnitReport]] = [[] for _ in self.plan.parts]
        for (part, copy), group in self._host.groups.items():
            units[part] += unit_reports(group.units, copy, part)
        found = []
        for plan, mine in zip(self.plan.parts, units, strict=True):
            reports = (operator_report(plan, operator, mine) for operator in plan.operators)
            found.append(tuple(report for report in reports if report is not None))
        return found

    def reports(self) -> tuple[OperatorReport, ...]:
        """What all operators did so far."""
        return tuple(report for reports in self.part_reports() for report in reports)
