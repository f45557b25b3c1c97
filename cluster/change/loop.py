"""AdaptLoop: looks at a run now and then, decides whether another plan is better, and changes to it.

A runtime takes part by being `Adaptable`, whatever it is: a pipeline in one process or a deployment on Ray. It calls
`step` between two batches of events, from the thread that feeds. `step` never waits: what takes long (measuring,
planning) is handed to `in_background`, and the change itself is the runtime's.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Protocol

from cluster.change.outcome import Changeable, Switched
from cluster.change.staying import renamed
from cluster.change.switches import PlanSwitch, SwitchLog
from costmodel.drift.readings import Reading
from costmodel.drift.sample import statistics_now
from costmodel.drift.watch import Suspicion
from costmodel.sampling.events import EventColumns
from costmodel.statistics import Statistics
from decopa.errors import DecoPaError, OutputError, StatisticsError
from decopa.planning.change.decision import Decision
from decopa.planning.change.monitor import Monitor
from decopa.planning.change.options import Adapt
from decopa.planning.plan import Plan

#: Events that a sample of the stream is drawn from, at most: those of the last window, or the last of them.
_SAMPLED = 200_000
#: Looks at a window of event time, at most, where event time is the clock.
_LOOKS_PER_WINDOW = 32
#: While the load is high, the next look comes after this share of the usual time.
_ALERT = 0.5

#: Plans for statistics (one for each OR-free query), beside the running one, at a speed of the stream.
Replan = Callable[[Plan, Sequence[Statistics], float], Sequence[Plan]]
#: Runs a function, now or elsewhere.
InBackground = Callable[[Callable[[], "Decision | None"]], "Future[Decision | None]"]


class Adaptable(Changeable, Protocol):
    """A run whose plan can be changed and that tells how it goes: all that the loop needs of a runtime."""

    @property
    def events(self) -> int:
        """Events that were fed so far."""
        ...

    def counters(self, at_s: float) -> Reading | None:
        """All counters now, by the clock `at_s`; None while processes are being asked for them: the next call may have
        them. They may begin anew with each plan."""
        ...

    def last_events(self, span_us: int, most: int) -> EventColumns:
        """The events of the last `span_us`, or the last `most` of them; may be asked for from another thread."""
        ...


def at_once(work: Callable[[], Decision | None]) -> Future[Decision | None]:
    """Does the work here and now."""
    done: Future[Decision | None] = Future()
    try:
        done.set_result(work())
    except Exception as err:
        done.set_exception(err)
    return done


@dataclass(frozen=True, slots=True)
class Clock:
    """What time it is for the monitor. Of a stream that is replayed as fast as it can be, event time is the clock: what
    is decided then follows from the events alone. A live stream has the time of the machine."""

    by_events: bool

    def now_s(self, ts_us: int) -> float:
        return ts_us / 1e6 if self.by_events else time.monotonic()

    def every_s(self, adapt: Adapt, window_us: int) -> float:
        """How often to look."""
        return max(adapt.every_s, window_us / 1e6 / _LOOKS_PER_WINDOW) if self.by_events else adapt.every_s


class AdaptLoop:
    """Adapts one run. `known` are statistics that it was planned with, one for each OR-free query, if there are any;
    `tell` gets a line for each change."""

    def __init__(
        self,
        run: Adaptable,
        monitor: Monitor,
        replan: Replan,
        adapt: Adapt,
        clock: Clock,
        *,
        known: Sequence[Statistics] = (),
        in_background: InBackground = at_once,
        tell: Callable[[str], None] = lambda line: None,
    ) -> None:
        self._run, self.monitor, self._replan, self._clock = run, monitor, replan, clock
        self._overhead, self._in_background, self._tell = adapt.overhead, in_background, tell
        self._known = list(known)
        self._window_us = max(part.query.window_us for part in run.plan.parts)
        self._every_s = clock.every_s(adapt, self._window_us)
        self._log = SwitchLog(adapt.log)
        self._next_s: float | None = None
        self._began_s = self._looked_s = time.perf_counter()
        self._spent_s = 0.0
        #: Whether counters that were asked for are on their way.
        self.is_looking = False
        self._weighing: Future[Decision | None] | None = None
        self._changing: tuple[Decision, Future[Switched]] | None = None
        self._ts_us = 0
        self._audited = 0
        #: What has been changed so far, and what was given up.
        self.switches: list[PlanSwitch] = []
        #: Looks so far, and how many of them led to a closer one.
        self.looks = self.suspicions = 0

    @property
    def plan(self) -> Plan:
        """The plan that works on the stream now."""
        return self._run.plan

    def waited(self, seconds: float) -> None:
        """The stream has stood still for this long for the loop, which then looks less often."""
        self._spent_s += seconds

    @property
    def is_weighing(self) -> bool:
        """Whether it is being measured and planned what another plan would bring."""
        return self._weighing is not None

    def step(self, ts_us: int) -> None:
        """Does what is due, after events up to this time were fed."""
        self._ts_us = ts_us
        if self._changing is not None:
            self._follow(*self._changing, ts_us)
            if self._changing is not None and not self._changing[1].running():
                self._doubt(*self._changing, ts_us)
        elif self._weighing is not None:
            self._decide(self._weighing, ts_us)
        elif self.is_looking or self._is_due(ts_us):
            suspicion = self._look(ts_us)
            if suspicion is not None:
                self.suspicions += 1
                self._weighing = self._in_background(lambda: self._weigh(suspicion))
                self._decide(self._weighing, ts_us)

    def _is_due(self, ts_us: int) -> bool:
        now_s = self._clock.now_s(ts_us)
        if self._next_s is not None and now_s < self._next_s:
            return False
        real_s = time.perf_counter()
        is_costly = self._spent_s > self._overhead * (real_s - self._began_s)
        return not is_costly or real_s - self._looked_s >= self._every_s

    def _look(self, ts_us: int) -> Suspicion | None:
        began_s = time.perf_counter()
        suspicion = self._looked(ts_us)
        self._looked_s = time.perf_counter()
        self._spent_s += self._looked_s - began_s
        return suspicion

    def _looked(self, ts_us: int) -> Suspicion | None:
        now_s = self._clock.now_s(ts_us)
        reading = self._run.counters(now_s)
        self.is_looking = reading is None
        if reading is None:
            return None
        self.looks += 1
        if self.looks == 1:
            self.monitor.past = replace(self.monitor.past, began_s=now_s)
        suspicion = self.monitor.look(reading)
        self._next_s = now_s + self._every_s * (_ALERT if self.monitor.is_alert else 1)
        for audit in self.monitor.audits[self._audited :]:
            self.switches[-1] = replace(self.switches[-1], promised=audit.predicted, measured=audit.measured)
            self._note({"kind": "audit", "promised": audit.predicted, "measured": audit.measured})
            self._tell(f"change of plan {self.switches[-1]}")
        self._audited = len(self.monitor.audits)
        return suspicion

    def taken_up(self, plan: Plan) -> None:
        """The run continues after a loss, with this plan. Its counters begin anew, and so does what they are compared
        with; a decision that was being made is forgotten."""
        if self._weighing is not None:
            weighing, self._weighing = self._weighing, None
            if weighing.result() is not None:
                self.monitor.given_up(self._clock.now_s(self._ts_us))
        if self._changing is not None:
            self._follow(*self._changing, self._ts_us)
        self.monitor.taken_up(plan)
        self._next_s, self.is_looking = None, False

    # --------------------------------------------------------------- deciding

    def _weigh(self, suspicion: Suspicion) -> Decision | None:
        """Measures, plans, and prices both; the decision to change, if that is what comes of it."""
        monitor, running = self.monitor, self._run.plan
        try:
            known = monitor.informed(suspicion, self._measured(suspicion))
            plans = [keyed_like(running, plan) for plan in self._replan(running, known, suspicion.speed)]
        except DecoPaError:  # what cannot be measured or planned stays as it is
            monitor.dismiss(suspicion)
            return None
        return monitor.weigh(suspicion, known, plans)

    def _measured(self, suspicion: Suspicion) -> list[Statistics]:
        """Statistics of the stream as it is now, one for each OR-free query; where the last events do not show them,
        those known before, with the rates of now."""
        plan = self._run.plan
        events, found = self._run.last_events(self._window_us, _SAMPLED), []
        for place, query in enumerate(plan.queries):
            share = query.window_us / self._window_us
            rates = {name: rate * share for name, rate in suspicion.rates.items()}
            try:
                found.append(statistics_now(query, events, rates))
            except StatisticsError:
                if place >= len(self._known):
                    raise
                old = self._known[place]
                found.append(
                    replace(old, rates={name: max(1e-3, rates.get(name, was)) for name, was in old.rates.items()})
                )
        self._known = found
        return found

    def _decide(self, weighing: Future[Decision | None], ts_us: int) -> None:
        if not weighing.done():
            return
        self._weighing = None
        decision = weighing.result()
        if decision is None:
            return
        try:
            self._log.write({"kind": "decided", "at_us": ts_us, "why": str(decision)})
        except OutputError as err:  # a change that nobody can look up is not made
            self._give_up(decision, str(err), ts_us)
            return
        asked = self._run.change(decision.plan)
        self._changing = decision, asked
        self._follow(decision, asked, ts_us)

    # --------------------------------------------------------------- changing

    def _follow(self, decision: Decision, asked: Future[Switched], ts_us: int) -> None:
        if not asked.done():
            return
        self._changing = None
        try:
            made = asked.result()
        except DecoPaError as err:
            self._give_up(decision, str(err), ts_us)
            return
        self.monitor.switched(decision, self._clock.now_s(ts_us))
        self._next_s = None
        self._record(PlanSwitch.of(decision, made))

    def _doubt(self, decision: Decision, asked: Future[Switched], ts_us: int) -> None:
        """Looks on until the cut, and gives up a plan that is being built for rates that are over."""
        if not self.is_looking and not self._is_due(ts_us):
            return
        self._look(ts_us)
        over = self.monitor.outdated()
        if over is None or not asked.cancel():
            return
        self._changing = None
        self.monitor.withdrawn()
        why = f"the rates have changed again while the plan was built ({over})"
        self._record(PlanSwitch.of(decision, Switched(self._run.events, ts_us, 0), why))

    def _give_up(self, decision: Decision, why: str, ts_us: int) -> None:
        self.monitor.given_up(self._clock.now_s(ts_us))
        self._record(PlanSwitch.of(decision, Switched(self._run.events, ts_us, 0), why))

    def _record(self, switch: PlanSwitch) -> None:
        self.switches.append(switch)
        self._note(switch.to_record())
        self._tell(f"change of plan {switch}")

    def _note(self, record: dict[str, object]) -> None:
        """What has happened has happened, even if it cannot be written down."""
        try:
            self._log.write(record)
        except OutputError as err:
            self._tell(str(err))


def keyed_like(running: Plan, plan: Plan) -> Plan:
    """The plan with the keys of the running one for the parts that report, so that their matches go on under them."""
    wanted = [running.keys[place] for place in running.reported]
    names = {plan.keys[place]: key for place, key in zip(plan.reported, wanted, strict=True)}
    taken = set(wanted)
    for key in plan.keys:
        if key not in names:
            name = key
            while name in taken:
                name += "+"
            names[key] = name
            taken.add(name)
    return renamed(plan, names)
