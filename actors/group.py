"""UnitGroup: the units of a plan that one process hosts, and the channels between them.

In the local runtime one group hosts a whole plan; on a cluster a group is what one actor hosts, mostly one unit.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from actors.columnar.memory import Spill
from actors.columnar.store import load_merging
from actors.operators.base import OperatorSpec
from actors.operators.join import JoinLogic
from actors.operators.succession import SuccessionLogic
from actors.operators.succession_scan import EventScan, scan_of
from actors.unit import Channel, ProcessingUnit, UnitState
from decopa.choices import (
    DEFAULT_MAX_GROUPS,
    DEFAULT_MAX_MATCHES,
    DEFAULT_MAX_STATE_BYTES,
    LIMIT_POLICIES,
    LimitPolicy,
)
from decopa.errors import CheckpointError, DecoPaError, did_you_mean
from decopa.planning.plan import PlanOperator, QueryPlan
from decopa.planning.subquery import SubQuery
from decopa.planning.warming import absorbing
from decopa.query.binding import BoundQuery
from shuffler.routing.slices import Slices
from shuffler.routing.table import END_OF_STREAM, Delivery, RoutingTable, Sender, SenderState
from shuffler.rows.batch import Batch
from shuffler.rows.events import EventBatch
from shuffler.rows.layout import layout_of

Inbound = tuple[str, int, Channel]
#: Hears of the matches and watermarks of an operator's units, by their numbers.
Tap = Callable[[int, Batch | int], None]
#: An operator and one of its sides, all units together.
Input = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Limits:
    """What a run may use: matches per query, bytes of partial matches per unit, and groups that a unit may form out of
    one batch of its input. With `spill`, partial matches beyond the limit go to files.

    A run ends when all its units together have made `max_comparisons`, or after `max_seconds`; None is no limit.
    `on_limit` says what happens when a query exceeds one of the others: the run ends with an error, or it goes on with
    the other queries, in the local runtime.
    """

    max_matches: int = DEFAULT_MAX_MATCHES
    max_state_bytes: int = DEFAULT_MAX_STATE_BYTES
    spill: Spill | None = None
    max_groups: int = DEFAULT_MAX_GROUPS
    max_comparisons: int | None = None
    max_seconds: float | None = None
    on_limit: LimitPolicy = LIMIT_POLICIES[0]

    def __post_init__(self) -> None:
        if self.on_limit not in LIMIT_POLICIES:
            raise DecoPaError(f"unknown policy '{self.on_limit}'{did_you_mean(self.on_limit, LIMIT_POLICIES)}")


@dataclass(frozen=True)
class GroupState:
    """What the units of a group hold, and where they were in dealing out matches; keys are (operator, number)."""

    units: Mapping[tuple[str, int], UnitState]
    senders: Mapping[tuple[str, int], SenderState]
    #: Of views, by name and number of the unit whose matches they take.
    views: Mapping[tuple[str, int], SenderState] = field(default_factory=dict)


@dataclass
class _Inbox:
    """One channel into a unit, with the messages on their way.

    Messages wait until no input in `after` has any: rows that end a match are delivered once all rows that they may
    meet are stored, so that matches are found in the order of their ends.
    """

    unit: ProcessingUnit
    sender: Sender
    channel: Channel
    source: SubQuery
    depth: int
    input: Input
    number: int
    tap: Tap | None = None
    #: Whether a view brings the messages.
    viewed: bool = False
    after: tuple[Input, ...] = ()
    messages: deque[Batch | int] = field(default_factory=deque)


class UnitGroup:
    """Some units of copy `copy` of a plan: all, or those in `hosted`, as (operator, number).

    What goes to a unit elsewhere, and what the root finds, is handed to `outside`. Normally the message nearest to the
    root is delivered first, which keeps queues short and batches in the processor's cache; messages for the side of a
    join that ends its matches wait for those of the other side. With `interleaving` the next channel is drawn at
    random instead. With `counting` the root hands over how many matches it finds instead of the matches. `on_progress`
    is called after every chunk of matches and every message. `taps` hear of what operators put out, by
    name. `gathering` is explained at `OperatorSpec`.
    """

    def __init__(
        self,
        plan: QueryPlan,
        bound: BoundQuery,
        code_of: Callable[[str], int],
        *,
        routing: RoutingTable,
        limits: Limits,
        outside: Callable[[Delivery], None],
        hosted: Collection[tuple[str, int]] | None = None,
        copy: int = 0,
        interleaving: random.Random | None = None,
        counting: bool = False,
        on_progress: Callable[[], None] = lambda: None,
        taps: Mapping[str, Tap] | None = None,
        gathering: bool = False,
    ) -> None:
        self._taps = taps or {}
        self._plan, self._bound, self._limits = plan, bound, limits
        self._outside, self._interleaving, self._on_progress = outside, interleaving, on_progress
        self._slices, self._copy = Slices(plan), copy
        self.units: dict[tuple[str, int], ProcessingUnit] = {}
        self._senders: dict[str, Sender] = {}
        self._inboxes: dict[Inbound, _Inbox] = {}
        self.waiting_rows = 0
        #: Messages that wait or are worked on, by input.
        self._open: Counter[Input] = Counter()
        for operator in plan.operators:
            numbers = [
                number
                for number in range(plan.roles(operator).active_units)
                if hosted is None or (operator.name, number) in hosted
            ]
            if operator.inputs and numbers:
                # Copies of a sliced plan have to look at matches to tell which are theirs.
                counted = counting and operator == plan.root and plan.slices == 1
                spec = OperatorSpec(bound, plan, operator, code_of, counting=counted, gathering=gathering)
                self._add_units(operator, numbers, spec, routing)
        self._join_successions()
        #: What finds all matches in events that are not split, if the plan allows that, all of it is in here and no
        #: operator has a second unit, which would hold matches that the scan does not know of.
        self.scan: EventScan | None = None
        single = all(number == 0 for _, number in self.units)
        if hosted is None and interleaving is None and single and not self._taps and plan.slices == 1:
            self.scan = scan_of(plan, bound, {name: unit for (name, _), unit in self.units.items()})
        # Nearest to the root first; among equals events before matches of other parts, as they would come before the
        # matches of an operator in here: partial matches that look for later events find them by their times alone,
        # events that look for earlier partial matches have to look at more than they meet. Else plan order.
        self._by_depth = sorted(self._inboxes.values(), key=lambda inbox: (inbox.depth, inbox.viewed))

    def _add_units(
        self, operator: PlanOperator, numbers: Iterable[int], spec: OperatorSpec, routing: RoutingTable
    ) -> None:
        inputs = self._plan.inputs(operator)
        for number in numbers:
            channels = [
                Channel(side, sender)
                for side, source in enumerate(inputs)
                for sender in routing.senders_to(source, number)
            ]
            unit = ProcessingUnit(
                spec,
                number,
                channels,
                max_state_bytes=self._limits.max_state_bytes,
                max_groups=self._limits.max_groups,
                spill=self._limits.spill,
            )
            self.units[operator.name, number] = unit
            self._senders[unit.name] = sender = Sender(unit.name, routing.edges_from(operator), number)
            late = unit.logic.late_side
            for channel in channels:
                self._inboxes[operator.name, number, channel] = _Inbox(
                    unit,
                    sender,
                    channel,
                    inputs[channel.side].sub_query,
                    self._plan.depth[operator.name],
                    (operator.name, channel.side),
                    number,
                    self._taps.get(operator.name),
                    inputs[channel.side].view is not None,
                    self._feeding(operator, 1 - channel.side) if channel.side == late else (),
                )

    def _join_successions(self) -> None:
        """Steps of a NEXT that are alone with each other in here are gone through at once, unless others want to know
        what comes between them."""
        plan = self._plan
        for operator in sorted(plan.operators, key=lambda one: -plan.depth[one.name]):
            unit = self.units.get((operator.name, 0))
            if unit is None or plan.roles(operator).active_units > 1 or not isinstance(unit.logic, SuccessionLogic):
                continue
            source = plan.inputs(operator)[plan.roles(operator).main]
            before = self.units.get((source.name, 0))
            alone = plan.roles(source).active_units == 1 and plan.successors(source) == (operator,)
            if before is not None and alone and source.name not in self._taps and not before.decides_afterwards:
                logic = before.logic
                if isinstance(logic, SuccessionLogic) and unit.logic.can_take_over(logic):
                    unit.logic.take_over(logic)

    def _feeding(self, operator: PlanOperator, side: int) -> tuple[Input, ...]:
        """All inputs that rows for a side of an operator pass through."""
        source = self._plan.inputs(operator)[side]
        above = [self._feeding(source, number) for number in range(len(source.inputs))]
        return tuple(dict.fromkeys([(operator.name, side), *(one for inputs in above for one in inputs)]))

    def sample(self) -> None:
        """Shows every unit a row of zeros on each side: compiled loops are loaded, or compiled, by their first use.

        For a group that is thrown away afterwards. Outputs go nowhere, and few rows are shown: groups multiply.
        """
        for unit in self.units.values():
            inboxes = [inbox for inbox in self._inboxes.values() if inbox.unit is unit]
            sides = {inbox.channel.side: inbox for inbox in inboxes}
            for _ in range(2):  # in the second round both sides have something to probe
                for inbox in sides.values():
                    deque(unit.on_batch(inbox.channel, layout_of(self._bound, inbox.source).sample()), maxlen=0)
            for inbox in inboxes:
                deque(unit.on_watermark(inbox.channel, END_OF_STREAM), maxlen=0)
        if self.scan is not None:
            self.scan.warm_up()
        load_merging()  # a store of one row has nothing to move

    def read(self, events: EventBatch, taken: Mapping[str, int]) -> None:
        """Finds the matches that events complete by reading them unsplit; `taken` says how many each leaf takes."""
        assert self.scan is not None
        sender = self._senders[self.units[self._plan.root.name, 0].name]
        matches = self.scan.feed(events, taken)
        if matches is not None:
            self._send(sender.rows(matches))
        if self.scan.active:
            self._send(sender.watermark(int(events.ts[-1])))
        self._on_progress()

    def absorb(self, *, absorbs: bool) -> None:
        """From now on joins that need not look for matches store their rows only, see `decopa.planning.warming`; or
        they look again."""
        names = absorbing(self._plan)
        for (operator, _), unit in self.units.items():
            if operator in names and isinstance(unit.logic, JoinLogic):
                unit.logic.absorbs = absorbs

    def accept(self, target: str, unit: int, channel: Channel, content: Batch | int) -> None:
        """Puts rows or a watermark into a channel; `drain` delivers them."""
        self._put(self._inboxes[target, unit, channel], content)

    def drain(self, above: int | None = None) -> None:
        """Delivers messages until none is left, or none to operators nearer to the root than depth `above`."""
        while (inbox := self._next(above)) is not None:
            message = inbox.messages.popleft()
            if isinstance(message, Batch):
                self.waiting_rows -= message.length
                self._pass_on(inbox, inbox.unit.on_batch(inbox.channel, message))
            else:
                self._pass_on(inbox, inbox.unit.on_watermark(inbox.channel, message))
                self._send(inbox.sender.watermark(inbox.unit.output_watermark_us))
                if inbox.tap is not None:
                    inbox.tap(inbox.number, inbox.unit.output_watermark_us)
            self._open[inbox.input] -= 1
            self._on_progress()

    def snapshot(self) -> GroupState:
        """What the units hold; only between messages, so that none is lost between two units."""
        assert not any(inbox.messages for inbox in self._inboxes.values()), "drain a group before its snapshot"
        units = {key: unit.snapshot() for key, unit in self.units.items()}
        return GroupState(units, {key: self._senders[unit.name].snapshot() for key, unit in self.units.items()})

    def restore(self, state: GroupState) -> None:
        """Goes on from a snapshot of the same units of the same plan; for a group that has not seen anything yet.

        The state may hold more units than the group does.
        """
        if self.scan is not None:
            self.scan.release()
        for key, unit in self.units.items():
            if key not in state.units or key not in state.senders:
                raise CheckpointError(f"the checkpoint has no state of unit {unit.name}; rescale it first")
            unit.restore(state.units[key])
            self._senders[unit.name].restore(state.senders[key])

    def _pass_on(self, inbox: _Inbox, matches: Iterable[Batch]) -> None:
        for batch in matches:
            if inbox.depth == 0:
                batch = self._slices.begun_in(batch, self._copy)
            self._send(inbox.sender.rows(batch))
            if inbox.tap is not None:
                inbox.tap(inbox.number, batch)
            if self._interleaving is None and inbox.depth > 0:
                self.drain(above=inbox.depth)  # use each chunk while it is warm, and keep no more than one
            self._on_progress()

    def _send(self, deliveries: Iterator[Delivery]) -> None:
        for delivery in deliveries:
            edge = delivery.edge
            if edge is not None:
                inbox = self._inboxes.get((edge.target.name, delivery.unit, Channel(edge.side, delivery.sender)))
                if inbox is not None:
                    self._put(inbox, delivery.content)
                    continue
            self._outside(delivery)

    def _put(self, inbox: _Inbox, content: Batch | int) -> None:
        inbox.messages.append(content)
        if isinstance(content, Batch):
            self.waiting_rows += content.length
        self._open[inbox.input] += 1

    def _next(self, above: int | None) -> _Inbox | None:
        if self._interleaving is not None:
            waiting = [inbox for inbox in self._by_depth if inbox.messages]
            return self._interleaving.choice(waiting) if waiting else None
        for inbox in self._by_depth:
            if above is not None and inbox.depth >= above:
                return None
            if inbox.messages and not any(self._open[one] for one in inbox.after):
                return inbox
        return None
