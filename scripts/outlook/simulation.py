"""A discrete-event simulation of a plan's processes: shufflers, units, sinks, and the credits between them.

A message costs its sender and its receiver a fixed time each, and the receiver what its capacity says for the rows. A
sender may have `window` unanswered messages at one receiver and waits for an answer beyond that; a message is answered
when all that came of it has been sent on. That is how the runtime works (`shuffler.exchange`).
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from costmodel.capacity import Capacity
from decopa.planning.plan import Plan
from decopa.planning.predict import Prediction
from shuffler.routing.topology import Topology


@dataclass(frozen=True)
class Costs:
    """Seconds of CPU: of a message, at its sender and at its receiver, and of an event at a shuffler (a call costs
    about the same whatever it carries). Rows wait for company for `flush_s`, or until there are `flush_rows`."""

    message_s: float = 0.6e-3
    shuffled_s: float = 1e-6
    flush_s: float = 0.05
    flush_rows: float = 16_384.0


@dataclass(frozen=True)
class Simulated:
    """Events per second that passed, the process that was busy most, and the share of the time that it was."""

    events_per_s: float
    busiest: str
    busy_share: float
    messages: int


@dataclass
class _Process:
    """`seconds_per_row` and `rows_out` (rows put out, by receiver, for each row that comes in) are averages."""

    name: str
    seconds_per_row: float
    rows_out: Mapping[str, float]
    inbox: deque[tuple[str, float]] = field(default_factory=deque)
    #: Who sent the message that is worked on, or whose results are sent on.
    working_for: str | None = None
    at_work: bool = False
    held: dict[str, tuple[float, float]] = field(default_factory=dict)
    unsent: list[tuple[str, float]] = field(default_factory=list)
    busy_s: float = 0.0


def simulate(
    plan: Plan,
    expected: Sequence[Mapping[str, Prediction]],
    events: float,
    capacity: Capacity,
    *,
    shufflers: int = 1,
    batch: int = 32_768,
    batches: int = 200,
    window: int = 4,
    costs: Costs | None = None,
    offered: float | None = None,
) -> Simulated:
    """The rate at which a plan takes `batches` batches of events, if its operators do what is `expected` of them over
    `events` events. They come at `offered` events per second, or all at once."""
    return _Simulation(_processes(plan, expected, events, capacity, shufflers, costs or Costs()), batch, window,
                       costs or Costs()).run(shufflers, batches, offered)  # fmt: skip


def _processes(
    plan: Plan,
    expected: Sequence[Mapping[str, Prediction]],
    events: float,
    capacity: Capacity,
    shufflers: int,
    costs: Costs,
) -> dict[str, _Process]:
    topology = Topology(plan, shufflers)
    rows: dict[tuple[str, str], float] = {}
    for ends, lanes in topology.channels.items():
        for lane in lanes:
            part = plan.parts[lane.part]
            source = part.operator(lane.source)
            sent = expected[lane.part][lane.source].emitted.value / len(topology.routing[lane.part].senders(source))
            if lane.target is not None and source.partitioned:
                sent /= part.roles(part.operator(lane.target)).active_units
            rows[ends] = rows.get(ends, 0.0) + sent / part.slices
    incoming: dict[str, float] = {}
    for (_, target), count in rows.items():
        incoming[target] = incoming.get(target, 0.0) + count
    found = {}
    for name in topology.shuffler_names:
        out = {target: count * shufflers / events for (source, target), count in rows.items() if source == name}
        found[name] = _Process(name, costs.shuffled_s, out)
    for unit in topology.units:
        seconds = 0.0
        for number, _, name, _ in unit.units:
            part, one = plan.parts[number], expected[number][name]
            busy = capacity.per_second_at(part.query.window_us).busy(
                one.ingested.value, one.comparisons.value, one.emitted.value
            )
            seconds += busy / part.roles(part.operator(name)).active_units / part.slices
        taken = incoming.get(unit.name, 0.0) or 1.0
        out = {target: count / taken for (source, target), count in rows.items() if source == unit.name}
        found[unit.name] = _Process(unit.name, seconds / taken, out)
    for name in topology.sink_names:
        found[name] = _Process(name, 0.0, {})
    return found


class _Simulation:
    def __init__(self, processes: dict[str, _Process], batch: int, window: int, costs: Costs) -> None:
        self._processes, self._batch, self._window, self._costs = processes, batch, window, costs
        self._in_flight: dict[tuple[str, str], int] = {}
        #: (moment, number, process): when a process is done with a message, or, with a number below 0, a batch comes.
        self._done: list[tuple[float, int, str]] = []
        self._now_s, self._messages = 0.0, 0

    def run(self, shufflers: int, batches: int, offered: float | None) -> Simulated:
        names = list(self._processes)[:shufflers]
        for number in range(batches):
            due_s = 0.0 if offered is None else number * self._batch / offered
            heapq.heappush(self._done, (due_s, number - batches, names[number % shufflers]))
        while self._done or self._flush_rest():
            self._now_s, number, name = heapq.heappop(self._done)
            process = self._processes[name]
            if number < 0:
                process.inbox.append(("", float(self._batch)))
                self._begin(process)
            else:
                process.at_work = False
                self._send(process)
        busiest = max(self._processes.values(), key=lambda one: one.busy_s)
        return Simulated(
            batches * self._batch / self._now_s, busiest.name, busiest.busy_s / self._now_s, self._messages
        )

    def _flush_rest(self) -> bool:
        """At the end of the stream, the first process that still holds rows sends them; False if none does."""
        for process in self._processes.values():
            rest = [(target, rows) for target, (rows, _) in process.held.items() if rows > 0]
            if rest:
                process.held = {}
                process.unsent, process.working_for = rest, ""
                seconds = len(rest) * self._costs.message_s
                process.busy_s += seconds
                self._messages += 1
                heapq.heappush(self._done, (self._now_s + seconds, self._messages, process.name))
                return True
        return False

    def _begin(self, process: _Process) -> None:
        """Takes up the next message, if there is one and the last has been dealt with."""
        if process.working_for is not None or not process.inbox:
            return
        process.working_for, rows = process.inbox.popleft()
        process.unsent, process.at_work = self._due(process, rows), True
        calls = len(process.unsent) + bool(process.working_for)
        seconds = rows * process.seconds_per_row + calls * self._costs.message_s
        process.busy_s += seconds
        self._messages += 1
        heapq.heappush(self._done, (self._now_s + seconds, self._messages, process.name))

    def _due(self, process: _Process, rows: float) -> list[tuple[str, float]]:
        """What is sent of the rows that come of a message and of those that waited: (receiver, rows)."""
        found = []
        for target, share in process.rows_out.items():
            held, sent_s = process.held.get(target, (0.0, self._now_s))
            held += rows * share
            due = held >= self._costs.flush_rows or self._now_s - sent_s >= self._costs.flush_s
            if due:
                found.append((target, held))
            process.held[target] = (0.0, self._now_s) if due else (held, sent_s)
        return found

    def _send(self, process: _Process) -> None:
        """Sends on what came of a message, as far as there is credit; then answers it."""
        while process.unsent:
            target, rows = process.unsent[-1]
            ends = process.name, target
            if self._in_flight.get(ends, 0) >= self._window:
                return  # the answer that gives credit calls this again
            process.unsent.pop()
            self._in_flight[ends] = self._in_flight.get(ends, 0) + 1
            self._processes[target].inbox.append((process.name, rows))
            self._begin(self._processes[target])
        sender, process.working_for = process.working_for, None
        if sender:
            self._in_flight[sender, process.name] -= 1
            waiting = self._processes[sender]
            if waiting.unsent and waiting.unsent[-1][0] == process.name and not waiting.at_work:
                self._send(waiting)
        self._begin(process)
