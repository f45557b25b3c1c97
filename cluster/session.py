"""Session: events into a deployment, block by block, and matches out of it, at the end or while it goes on."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from actors.sinks.outlet import Outcome, joined
from cluster.deploy.deployment import Deployment
from cluster.feeding import BlockSource, FeedBlock
from shuffler.exchange.node import ReplayStart
from shuffler.exchange.wall_clock import ClockOffset, ClockReading, clock_offset, machine_time_s
from shuffler.routing.table import NOTHING_YET
from shuffler.source.live.position import Position
from shuffler.source.pacing import Replay

#: Blocks at one shuffler: one that it works on and one that waits.
_BLOCKS_IN_FLIGHT = 2
_PROGRESS_EVERY_S = 0.5
#: How often a clock is read to find out how far it is ahead; the quickest answer counts.
_CLOCK_READINGS = 3

#: How often to look whether a checkpoint is due or done, while waiting for something else.
_STEP_EVERY_S = 0.02

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class StreamPlace:
    """How far a stream was fed: events, blocks, how many blocks there were when all was last passed on, and where a
    live source goes on."""

    events: int = 0
    blocks: int = 0
    flushed: int = 0
    position: Position | None = None

    def is_at(self, other: StreamPlace | None) -> bool:
        """Whether nothing has been fed or passed on in between."""
        return other is not None and (self.blocks, self.flushed) == (other.blocks, other.flushed)


class Stepping(Protocol):
    """Whoever has something to do now and then, such as checkpoints."""

    def step(self, place: StreamPlace) -> None: ...


class Following(Protocol):
    """Whoever follows the stream block by block, such as another plan that is to take over."""

    def between_blocks(self, next_us: int | None = None) -> None:
        """Called where the stream may be cut: nothing is fed until this returns. The next event is at `next_us`, where
        that is known."""
        ...

    def fed(self, block: FeedBlock, ordinal: int, number: int) -> None:
        """A block was fed: the ordinal of its first event, and its number."""
        ...

    def holds(self, block: FeedBlock) -> bool:
        """Whether this block, the next one, has to wait; `between_blocks` is called again meanwhile."""
        ...

    def step(self) -> None:
        """Called now and then, while the session waits for something."""
        ...

    def ended(self) -> None:
        """No block follows; returns when all that is before the last cut is in its place."""
        ...


class Recording(Protocol):
    """Whoever looks at a run now and then."""

    def look(self, deployment: Deployment, events: int) -> None: ...


class Session:
    """Feeds shufflers in turn. Every call waits until there is room, and raises if any actor has failed."""

    def __init__(self, deployment: Deployment, progress: Progress | None = None) -> None:
        self._deployment, self._progress = deployment, progress
        self._names = list(deployment.shufflers)
        self._calls: dict[str, deque[Any]] = {name: deque() for name in self._names}
        self._start: ReplayStart | None = None
        #: The time of the last event that was fed: none earlier follows.
        self._last_ts = NOTHING_YET
        self._told = time.monotonic()
        #: When an actor last finished something: what was lost was there until then.
        self.progressed_s = time.monotonic()
        #: Events and blocks that were fed so far: the place in the stream.
        self.events = self.blocks = 0
        #: By how much the clocks of shufflers and sinks were ahead of this process's, by name.
        self.clock_offsets: dict[str, ClockOffset] = {}
        self._position: Position | None = None
        self._flushed_at = 0
        self.coordinator: Stepping | None = None
        self.recorder: Recording | None = None
        self.follower: Following | None = None
        #: Called now and then; may raise to end the run.
        self.watch: Callable[[], None] | None = None

    @property
    def deployment(self) -> Deployment:
        """The actors that are fed now."""
        return self._deployment

    @property
    def last_ts(self) -> int:
        """The time of the last event: none earlier follows."""
        return self._last_ts

    def exchange(self, other: Session) -> None:
        """From now on this session feeds the actors of another, which have been fed the same events, and the other one
        has those that were fed here so far, with what they still have to do."""
        self._deployment, other._deployment = other._deployment, self._deployment
        self._names, other._names = other._names, self._names
        self._calls, other._calls = other._calls, self._calls
        self.clock_offsets, other.clock_offsets = other.clock_offsets, self.clock_offsets

    @property
    def place(self) -> StreamPlace:
        return StreamPlace(self.events, self.blocks, self._flushed_at, self._position)

    def go_on_from(self, events: int, blocks: int) -> None:
        """The stream begins here instead of at its start; shufflers take turns as they would have."""
        self.events, self.blocks = events, blocks

    def replay_from_here(self, first_ts: int, replay: Replay) -> float:
        """What is fed from now on is played like this, beginning now; returns the time of the beginning."""
        self._start = ReplayStart(machine_time_s(), first_ts, self.events, replay)
        return self._start.at_s

    def await_actors(self) -> None:
        """Returns when all actors are up and know each other; they start in parallel."""
        for name, actor in self._deployment.actors.items():
            self._ask(actor.status, name)
        for call, name in [(actor.greet.remote(), name) for name, actor in self._deployment.actors.items()]:
            self._wait(call)
            self._deployment.result(call, name)
        self._set_clocks()

    def _set_clocks(self) -> None:
        """Shufflers and sinks, whose times are compared, go by the clock of this process."""
        for name, actor in {**self._deployment.shufflers, **self._deployment.sinks}.items():
            readings = []
            for _ in range(_CLOCK_READINGS):
                sent = machine_time_s()
                there = self._ask(actor.clock, name)
                readings.append(ClockReading(sent, there, machine_time_s()))
            self.clock_offsets[name] = clock_offset(readings)
            correction = self.clock_offsets[name].correction_s
            if correction:
                self._deployment.result(actor.set_clock.remote(correction), name)

    def feed(self, block: FeedBlock) -> None:
        if self.follower is not None:
            # Once there is room: another plan, which is fed the same blocks, has had time for the last one.
            self._wait_for_room(self._next_name, _BLOCKS_IN_FLIGHT)
            self.follower.between_blocks(block.first_ts)
            while self.follower.holds(block):
                self.idle(_STEP_EVERY_S)
                self.follower.between_blocks(block.first_ts)
        if self._start is None:
            self._start = ReplayStart(machine_time_s(), block.first_ts, self.events)
        name = self._next_name
        self._wait_for_room(name, _BLOCKS_IN_FLIGHT)
        shuffler = self._deployment.shufflers[name]
        self._calls[name].append(
            shuffler.feed.remote(block.content, block.place, self.events, self._start, block.urgent)
        )
        self._last_ts = max(self._last_ts, block.last_ts)
        self.events += block.rows
        self.blocks += 1
        self._position = block.position
        if block.urgent and len(self._names) == 1:  # others, whose turn it was not, do not know how far the stream is
            self._flushed_at = self.blocks
        if self.follower is not None:
            self.follower.fed(block, self.events - block.rows, self.blocks - 1)
        self._step()

    @property
    def _next_name(self) -> str:
        """The shuffler whose turn it is."""
        return self._names[self.blocks % len(self._names)]

    def pause(self) -> None:
        """The stream has nothing for the moment: passes on what waits, once, and does what is due."""
        if self.follower is not None:
            self.follower.between_blocks()
        if self._flushed_at != self.blocks:
            self._flushed_at = self.blocks
            self.flush()
        self._tell()
        self._step()

    def blocks_of(
        self, source: BlockSource, attributes: Collection[str], *, whole_groups: bool, saved: bytes | None = None
    ) -> Iterator[FeedBlock | None]:
        """The blocks from the present place in the stream on. Where all shufflers see the files of a stored trace, they
        read it themselves: the driver hands out work then, and no event passes through it."""
        timed = self.follower is not None  # who follows wants to know the times of every block
        stored = source.stored_blocks(attributes, self.events, whole_groups=whole_groups, timed=timed)
        # Who follows wants small blocks: one shuffler reads a row group once for all of them, several would each do so.
        if stored is not None and not (timed and len(self._names) > 1):
            shufflers = self._deployment.shufflers
            if all(self._ask(shuffler.sees, name, stored.files) for name, shuffler in shufflers.items()):
                return stored.blocks
        return source.feed_blocks(attributes, self.events, saved)

    def idle(self, seconds: float) -> None:
        """Feeds nothing for a while, and does what is due."""
        self._deployment.first_of([], seconds)
        self._tell()
        self._step()

    def check_actors(self) -> None:
        """Raises if an actor has failed, or what it was fed was refused."""
        self._deployment.first_of([], 0)
        for name, calls in self._calls.items():
            while calls and self._deployment.wait_for(calls[0], 0):
                self._deployment.result(calls.popleft(), name)

    def await_shufflers(self) -> None:
        """Returns when the shufflers have worked on everything that they were fed."""
        for name in self._names:
            self._wait_for_room(name, 1)

    def flush(self, watermark_us: int = NOTHING_YET) -> None:
        """Passes on what waits in any process: the stream has nothing more for the moment.

        Every shuffler learns how far the stream has come, also one whose turn was not last, and no event before the
        watermark follows.
        """
        self._last_ts = watermark_us = max(watermark_us, self._last_ts)
        for name in self._names:
            self._wait_for_room(name, 1)
            self._calls[name].append(self._deployment.shufflers[name].flush.remote(watermark_us))

    def settle(self, watermark_us: int = NOTHING_YET) -> None:
        """Returns when every event so far is worked on, up to the sinks; no event before the watermark follows."""
        self.flush(watermark_us)
        for name in self._names:
            self._wait_for_room(name, 1)
        for name in self._deployment.senders_first():
            self._ask(self._deployment.actors[name].settle, name)

    def finish(self) -> None:
        """Ends the stream; returns when the sinks have everything."""
        if self.follower is not None:
            self.follower.ended()
        for name in self._names:
            self._wait_for_room(name, 1)
        for name in self._names:
            self._calls[name].append(self._deployment.shufflers[name].finish.remote())
        for name in self._names:
            self._wait_for_room(name, 1)
        for name, sink in self._deployment.sinks.items():
            self._ask(sink.watch, name)
        # A unit of emulated capacity sends on what it finds and then sleeps; the sinks do not wait for that.
        for process in self._deployment.emulated:
            self._ask(self._deployment.units[process].settle, process)

    def take(self) -> tuple[pa.Table, ...]:
        """The matches that came since the last call, a table for each part of the plan."""
        return tuple(self.take_by_key().values())

    def take_by_key(self) -> dict[str, pa.Table]:
        """The same by the keys of the parts."""
        found = {name: self._ask(sink.take, name) for name, sink in self._deployment.sinks.items()}
        return self._deployment.topology.by_key(found)

    def arrived(self) -> tuple[dict[int, pa.Table], dict[int, int]]:
        """The matches that have come since the last call, by part, where there are some; and of every part that reports
        when its later matches end at the earliest."""
        found: dict[int, pa.Table] = {}
        finals_us: dict[int, int] = {}
        for name, sink in self._deployment.sinks.items():
            tables, finals = self._ask(sink.arriving, name, 0.0)
            found |= tables
            finals_us |= dict(zip(self._deployment.topology.sink_parts[name], finals, strict=True))
        return found, finals_us

    def outcomes(self) -> tuple[Outcome, ...]:
        """What became of the matches of each part of the plan, in its sink and in its root units."""
        topology = self._deployment.topology
        found: dict[int, list[Outcome]] = {
            part: [outcome] for part, outcome in zip(sorted(topology.sink_of), self.take(), strict=True)
        }
        if any(not isinstance(outcome, pa.Table) for (outcome,) in found.values()):
            for name, unit in self._deployment.units.items():
                for part, outcome in self._ask(unit.outcomes, name).items():
                    found[part].append(outcome)
        return tuple(joined(outcomes) for outcomes in found.values())

    def _ask(self, method: Any, name: str, *arguments: Any) -> Any:
        call = method.remote(*arguments)
        self._wait(call)
        return self._deployment.result(call, name)

    def _wait_for_room(self, name: str, room: int) -> None:
        calls = self._calls[name]
        while len(calls) >= room:
            self._wait(calls[0])
            self._deployment.result(calls.popleft(), name)
            self.progressed_s = time.monotonic()

    def _wait(self, call: Any) -> None:
        every_s = _PROGRESS_EVERY_S if self.coordinator is None and self.follower is None else _STEP_EVERY_S
        while not self._deployment.wait_for(call, every_s):
            self._tell()
            self._step()
        self._tell()

    def _step(self) -> None:
        if self.coordinator is not None:
            self.coordinator.step(self.place)
        if self.follower is not None:
            self.follower.step()

    def _tell(self) -> None:
        if self.recorder is not None:
            self.recorder.look(self._deployment, self.events)
        if self.watch is not None:
            self.watch()
        now = time.monotonic()
        if self._progress is not None and now - self._told >= _PROGRESS_EVERY_S:
            self._told = now
            self._progress(self.events, sum(status.matches for status in self._deployment.sink_statuses()))
