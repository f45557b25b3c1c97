"""Monitor: looks at a running plan's counters and decides when, and to what, it should change.

It holds no clock, starts nothing and blocks nowhere. The caller reads counters, hands them to `look`, and on suspicion
measures and plans, in its own time; `weigh` then decides. `Adaptation` does all of it in one call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import networkx as nx

from costmodel.capacity import Capacity
from costmodel.drift.deviation import Deviation
from costmodel.drift.readings import OperatorKey, Reading, Stretch
from costmodel.drift.watch import Finding, Suspicion, Watch, WatchRules
from costmodel.statistics import Statistics
from decopa.planning.change.decision import Decision, Pending, misjudged
from decopa.planning.change.elastic import Load, LoadWatch, UnitRange
from decopa.planning.change.memory import Remembered, seen_by
from decopa.planning.change.past import Audit, Past, Switched
from decopa.planning.change.pricing import Pricing
from decopa.planning.change.proposal import Ground, Proposal, SwitchRules, propose
from decopa.planning.plan import Plan

#: Rates within this ratio are about the same, where they rest on few events.
_ABOUT = 2.0
#: A change is expected to last for so many windows at least, since it takes one to see it.
_HORIZON_WINDOWS = 10
#: Looks that tell how much a plan that cannot keep up is offered.
_LATELY = 2
#: What was seen of sub-queries is remembered for so many windows.
_REMEMBERED_WINDOWS = 100


class Monitor:
    """Decides for one run. `history_us` says how much event time a plan must have seen before it can take over. A plan
    that was made without statistics (`measured` False) is questioned as soon as the stream has shown some."""

    def __init__(
        self,
        plan: Plan,
        pricing: Pricing,
        *,
        history_us: Callable[[Plan], int] | None = None,
        watch: WatchRules | None = None,
        rules: SwitchRules | None = None,
        units: UnitRange | None = None,
        began_s: float = 0.0,
        measured: bool = True,
    ) -> None:
        self.plan, self.pricing, self.rules = plan, pricing, rules or SwitchRules()
        self.units, self._measured = units, measured
        self.past = Past(began_s)
        self.audits: list[Audit] = []
        self._history_us = history_us or _longest_window_us
        self._watch_rules = watch or WatchRules()
        self._watch = self._new_watch(settled=False)
        self._load = LoadWatch()
        self._memory = Remembered()
        self._pending: Pending | None = None
        self._unaudited: Decision | None = None
        #: Event time per time when the plan last kept up with the stream.
        self._usual_speed: float | None = None
        #: Rates that the last switch was decided with but that have turned out to be others.
        self._misjudged: tuple[Finding, ...] = ()

    # ------------------------------------------------------------------ looks
    def look(self, reading: Reading) -> Suspicion | None:
        """Takes a reading. Returns why another plan may be better, if it may and if it is time for a change."""
        found = self._watch.look(reading)
        recent, last = self._watch.recent, self._watch.within(1)
        if recent is not None and last is not None and reading.busy_s:
            self._load = self._load.after(reading.at_s, last.busiest, recent.busiest)
            if max(recent.busiest, last.busiest) <= self._watch_rules.busiest:
                self._usual_speed = recent.speed
            elif found is not None and found.urgent and self._catches_up(recent):
                found = replace(found, urgent=False) if found.findings else None
            if found is not None:
                found = replace(found, speed=self._offered_speed(recent))
        self._audit()
        if self._pending is not None:
            self._pending = self._pending.after(recent, reading.at_s, self._longest_us)
            return None
        if self.past.is_cooling(reading.at_s) and not (found is not None and found.urgent):
            return None
        return (
            found
            or self._first_thoughts(reading)
            or self._second_thoughts(reading)
            or self._load_suspicion(reading, recent)
        )

    @property
    def is_alert(self) -> bool:
        """Whether the load is high, which calls for more units if the next looks show the same: they had better come
        soon."""
        return self.units is not None and self._load.alarm.violations > 0

    def _catches_up(self, recent: Stretch) -> bool:
        """Whether a plan is busy because it works off what a plan before it could not: event time passes faster than
        it did while a plan kept up. Its delays grow at first, as messages fill its queues."""
        return self._usual_speed is not None and recent.speed > self._usual_speed

    def _offered_speed(self, recent: Stretch) -> float:
        """How fast event time passes where the stream comes from: a plan that cannot keep up holds it back, and one
        that is chosen for what comes through would not keep up either.

        Where the number of units is to be chosen, it matters how much more comes: delays that grow tell it. Plans on
        as many units compare alike at any speed, and delays of few matches tell little.
        """
        usual = self._usual_speed or 0.0
        if self.units is None:
            return recent.speed if recent.busiest <= self._watch_rules.busiest else max(recent.speed, usual)
        last, lately = self._watch.within(1), self._watch.within(_LATELY)
        if last is None or lately is None or max(recent.busiest, last.busiest) <= self._watch_rules.busiest:
            return recent.speed
        overload = self._watch.overload(_LATELY)
        behind = 1.0 if overload is None else overload.offered
        return max(behind * lately.speed, usual)

    @property
    def _longest_us(self) -> int:
        return _longest_window_us(self.plan)

    def _first_thoughts(self, reading: Reading) -> Suspicion | None:
        """The stream has shown what nobody knew when the plan was made."""
        shown = self._watch.since_begin
        if self._measured or shown is None or not self._watch.has_reference:
            return None
        self._measured = True
        rates = shown.rates(_longest_window_us(self.plan))
        note = "the stream was measured"
        return Suspicion(reading.at_s, reading.ts_us, (), rates, speed=shown.speed, since=shown, note=note)

    def _second_thoughts(self, reading: Reading) -> Suspicion | None:
        """A switch is decided soon after a change, from few events. If they misled, it is asked again, once."""
        settled = self._watch.since_begin
        if not self._misjudged or settled is None:
            return None
        findings, self._misjudged = self._misjudged, ()
        rates = settled.rates(_longest_window_us(self.plan))
        return Suspicion(reading.at_s, reading.ts_us, findings, rates, speed=settled.speed, since=settled)

    def _load_suspicion(self, reading: Reading, recent: Stretch | None) -> Suspicion | None:
        """More or fewer units may be right although no statistic has changed."""
        if self.units is None or recent is None or self._load.load is None:
            return None
        if self._load.load is Load.LOW and not self._watch.has_reference:
            return None
        window_us = _longest_window_us(self.plan)
        return Suspicion(
            reading.at_s,
            reading.ts_us,
            (Finding("load of the busiest unit", Deviation(self.rules.headroom, recent.busiest, 0.0)),),
            recent.rates(window_us),
            speed=self._offered_speed(recent),
            since=recent,
            of_load=True,
        )

    # --------------------------------------------------------------- decisions
    def informed(self, suspicion: Suspicion, known: Sequence[Statistics]) -> list[Statistics]:
        """Statistics to plan with: those just measured, and what is known of sub-queries that ran. `known` are one for
        each OR-free query."""
        shown = _shown_by(suspicion)
        if shown is not None:
            then = [replace(one, rates={**one.rates, **shown.rates(one.window_us)}) for one in known]
            seen = seen_by(self.plan, shown, then, self.pricing.model)
            self._memory = self._memory.noting(seen, suspicion.ts_us)
        longest_us = _REMEMBERED_WINDOWS * _longest_window_us(self.plan)
        return self._memory.informed(known, suspicion.ts_us, longest_us=longest_us)

    def weigh(
        self,
        suspicion: Suspicion,
        known: Sequence[Statistics],
        plans: Sequence[Plan],
        *,
        barrier_age_s: float = 0.0,
    ) -> Decision | None:
        """Decides between the running plan and others, all priced with `known`. Without a decision what has changed
        becomes the new reference, so that it is not asked about again."""
        speed = suspicion.speed if suspicion.speed > 0 else 1.0
        decision = self._best(suspicion, known, plans, speed, barrier_age_s)
        if decision is None:
            self.dismiss(suspicion)
        else:
            self._pending = Pending(decision, tuple(known), is_first=bool(suspicion.note))
        return decision

    def outdated(self) -> str | None:
        """Why the plan that is being built is not wanted any more: rates are no longer those that it was chosen for,
        and with those of now it would not be."""
        pending = self._pending
        if pending is None or pending.doubts < self._watch_rules.patience:
            return None
        proposal = pending.decision.proposal
        speed = proposal.speed
        known = pending.known_now(self._longest_us)
        now, new = (self.pricing.value(plan, known, speed=speed) for plan in (self.plan, proposal.plan))
        if replace(proposal, now=now, new=new).ground(self.rules, self._horizon_s(speed)) is not None:
            return None
        return ", ".join(map(str, pending.changed))

    def dismiss(self, suspicion: Suspicion) -> None:
        """Nothing comes of a suspicion: what has changed is the new reference. A load changes nothing that is compared
        with one."""
        if not suspicion.of_load:
            self._watch.rebase()
        self._load = LoadWatch()

    def _best(
        self,
        suspicion: Suspicion,
        known: Sequence[Statistics],
        plans: Sequence[Plan],
        speed: float,
        barrier_age_s: float,
    ) -> Decision | None:
        if self.past.bars(suspicion.rates, _ABOUT) and not suspicion.urgent:
            return None
        now = self.pricing.value(self.plan, known, speed=speed)
        horizon_s = self._horizon_s(speed)
        found: list[tuple[Proposal, Ground]] = []
        for plan in plans:
            if plan == self.plan:
                continue
            new = self.pricing.value(plan, known, speed=speed)
            history_s = self._history_us(plan) / 1e6
            proposal = propose(self.plan, plan, now, new, history_s=history_s, barrier_age_s=barrier_age_s, speed=speed)
            ground = proposal.ground(self.rules, horizon_s)
            if ground is Ground.FEWER_UNITS and self.units is None:
                continue  # a fixed number of units is there anyway
            if ground is not Ground.GAIN and (suspicion.urgent or self._load.load is Load.HIGH):
                continue  # whoever has too much to do is not helped by a plan that sustains less
            if ground is not None:
                found.append((proposal, ground))
        if not found:
            return None
        proposal, ground = min(found, key=lambda one: _rank(*one))
        return Decision(
            proposal, ground, str(suspicion), suspicion.at_s, suspicion.ts_us, suspicion.rates, suspicion.since
        )

    def _horizon_s(self, speed: float) -> float:
        lasting_s = _HORIZON_WINDOWS * self._longest_us / 1e6 / speed
        return max(lasting_s, self.past.horizon_s(self.rules))

    # ----------------------------------------------------------------- results
    def switched(self, decision: Decision, at_s: float) -> None:
        """The new plan has taken over."""
        before, took_s = self.plan, max(0.0, at_s - decision.at_s)
        history_s = decision.proposal.history_s / decision.proposal.speed
        self.past = self.past.after(Switched(at_s, took_s, before, decision.plan, history_s), self.rules)
        self.plan, self._pending = decision.plan, None
        self._unaudited, self._misjudged = decision, ()
        self._watch, self._load = self._new_watch(settled=True), LoadWatch()

    def given_up(self, at_s: float) -> None:
        """The switch came to nothing; the old plan stays. What has changed is found again, and a stream that has just
        been measured is measured once more."""
        if self._pending is not None and self._pending.is_first:
            self._measured = False
        self._pending = None
        self.past = self.past.after_giving_up(at_s, self.rules)

    def withdrawn(self) -> None:
        """The switch is not wanted any more, see `outdated`: the old plan stays, with the rates of now."""
        self._pending = None
        self._watch.rebase()

    def taken_up(self, plan: Plan) -> None:
        """The run continues with this plan after a loss: what it did is counted anew, and nothing can be audited."""
        self.plan, self._unaudited, self._misjudged = plan, None, ()
        self._watch, self._load = self._new_watch(settled=True), LoadWatch()

    def _audit(self) -> None:
        """Compares what a switch promised with what it brought, as soon as the new plan has a reference."""
        after = self._watch.since_begin
        if self._unaudited is None or not self._watch.has_reference or after is None:
            return
        decision, self._unaudited = self._unaudited, None
        self._misjudged = misjudged(decision.rates, after, self._longest_us)
        if decision.before is None or decision.ground is Ground.FEWER_UNITS:
            return
        if decision.before.busiest > self._watch_rules.busiest:
            return  # nobody knows how much it would have had to do
        proposal = decision.proposal
        if decision.ground is Ground.GAIN:
            capacity = self.pricing.capacity
            old = self.past.switches[-1].before
            before, now = _work(decision.before, old, capacity), _work(after, self.plan, capacity)
            predicted = proposal.gain
        else:
            before, now = _rows(decision.before), _rows(after)
            predicted = proposal.now.rows_per_s / proposal.new.rows_per_s
        if now > 0:
            audit = Audit(decision.ground, predicted, before / now)
            self.audits.append(audit)
            self.past = self.past.after_audit(audit, decision.rates)

    def _new_watch(self, *, settled: bool) -> Watch:
        return Watch(_longest_window_us(self.plan), leaves_under(self.plan), self._watch_rules, settled=settled)


class Adaptation:
    """A monitor together with those who measure and plan: one call for each look.

    `measure` returns statistics of the stream as it is now, one for each OR-free query. `replan` returns plans for
    them.
    """

    def __init__(
        self,
        monitor: Monitor,
        measure: Callable[[Suspicion], Sequence[Statistics]],
        replan: Callable[[Sequence[Statistics], float], Sequence[Plan]],
    ) -> None:
        self.monitor, self._measure, self._replan = monitor, measure, replan

    def look(self, reading: Reading) -> Decision | None:
        """Takes a reading; returns the decision to switch, if that is what comes of it."""
        suspicion = self.monitor.look(reading)
        if suspicion is None:
            return None
        known = self.monitor.informed(suspicion, self._measure(suspicion))
        return self.monitor.weigh(suspicion, known, self._replan(known, suspicion.speed))


def leaves_under(plan: Plan) -> dict[OperatorKey, tuple[OperatorKey, ...]]:
    """The leaves whose events each operator's matches are made of."""
    found = {}
    for place, part in enumerate(plan.parts):
        leaves = {leaf.name for leaf in part.leaves}
        for operator in part.operators:
            if operator.inputs:
                under = sorted(leaves & nx.ancestors(part.graph, operator.name))
                found[place, operator.name] = tuple((place, leaf) for leaf in under)
    return found


def _rank(proposal: Proposal, ground: Ground) -> tuple[int, float]:
    """What sustains more comes first, then what sends less, then what needs fewer units."""
    match ground:
        case Ground.GAIN:
            return 0, -proposal.new.scaling_factor
        case Ground.TRAFFIC:
            return 1, proposal.new.rows_per_s
        case Ground.FEWER_UNITS:
            return 2, float(proposal.new.units)


def _shown_by(suspicion: Suspicion) -> Stretch | None:
    """What tells the selectivities of running operators. Just after rates have changed, what is found depends on what
    is stored from before, and counters of a plan that cannot keep up are behind those of its events."""
    rates = [one for one in suspicion.findings if one.what.startswith("rate of ")]
    if suspicion.before is not None and len(rates) == len(suspicion.findings):
        return suspicion.before
    return None if suspicion.urgent or rates else suspicion.since


def _longest_window_us(plan: Plan) -> int:
    return max(part.query.window_us for part in plan.parts)


def _rows(stretch: Stretch) -> float:
    return stretch.rows_sent / stretch.span_us if stretch.span_us > 0 else 0.0


def _work(stretch: Stretch, plan: Plan, capacity: Capacity) -> float:
    """Work of the busiest unit per event time: as measured, or from counters where no process tells its busy time."""
    if stretch.span_us <= 0:
        return 0.0
    if stretch.busy_s:
        return max(stretch.busy_s.values()) / stretch.span_us
    loads = []
    for (place, name), counts in stretch.operators.items():
        part = plan.parts[place]
        units = part.roles(part.operator(name)).active_units * part.slices
        per_window = replace(capacity, window_us=capacity.window_us or part.query.window_us)
        busy = per_window.busy(counts.ingested, counts.comparisons, counts.emitted)
        loads.append(busy * (per_window.window_us or 1) / units)
    return max(loads, default=0.0) / stretch.span_us
