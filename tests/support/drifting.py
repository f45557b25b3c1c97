"""A stream whose rates change, seen through the counters of whichever plan runs: no events, no clock, no Ray."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from costmodel.drift.readings import Counts, OperatorKey, Reading
from costmodel.drift.watch import Suspicion
from costmodel.formulas import ENGINE
from costmodel.rates import QueryRates
from costmodel.statistics import Statistics
from decopa.planning.change.candidates import candidate_plans
from decopa.planning.change.decision import Decision
from decopa.planning.change.monitor import Adaptation, Monitor
from decopa.planning.plan import Plan
from decopa.planning.predict import predict

#: Events per window by type, at a time in seconds.
Rates = Callable[[float], Mapping[str, float]]


@dataclass
class Drifting:
    """Plays a stream, a look each second; every switch takes `took_s`. Counts are drawn at random around
    what the plan does at the present rates."""

    plan: Plan
    statistics: Statistics
    rates: Rates
    monitor: Monitor
    units: int
    seed: int = 1
    took_s: float = 2.0
    #: Whether every attempt fails.
    gives_up: bool = False
    #: When switches were given up because rates had changed again, and why.
    withdrawn: list[tuple[float, str]] = field(default_factory=list)
    _expected: dict[object, dict[OperatorKey, tuple[float, float, float]]] = field(default_factory=dict)

    def play(self, seconds: int) -> list[Decision]:
        rng = np.random.default_rng(self.seed)
        adaptation = Adaptation(self.monitor, self._measured, self._replanned)
        types: dict[str, int] = {}
        leaves: dict[OperatorKey, int] = {}
        operators: dict[OperatorKey, Counts] = {}
        pending: tuple[Decision, float] | None = None
        decisions: list[Decision] = []
        for second in range(seconds + 1):
            self._now = float(second)
            if pending is not None and (over := self.monitor.outdated()) is not None:
                self.withdrawn.append((self._now, over))
                self.monitor.withdrawn()
                pending = None
            if pending is not None and self._now >= pending[1]:
                if self.gives_up:
                    self.monitor.given_up(self._now)
                else:
                    self.plan = pending[0].plan
                    self.monitor.switched(pending[0], self._now)
                    leaves, operators = {}, {}
                pending = None
            if second:
                known = self._known()
                windows = 1e6 / known.window_us
                drawn = {name: int(rng.poisson(rate * windows)) for name, rate in known.rates.items()}
                types = {name: types.get(name, 0) + count for name, count in drawn.items()}
                for key, counts in self._done(known, windows, rng).items():
                    operators[key] = operators.get(key, Counts()) + counts
                for leaf in self.plan.parts[0].leaves:
                    event_type = self.plan.parts[0].query.position(min(leaf.sub_query.aliases)).type
                    leaves[0, leaf.name] = leaves.get((0, leaf.name), 0) + drawn[event_type]
            reading = Reading(self._now, second * 1_000_000, dict(types), dict(leaves), dict(operators))
            decision = adaptation.look(reading)
            if decision is not None:
                decisions.append(decision)
                pending = decision, self._now + self.took_s
        return decisions

    def _done(self, known: Statistics, windows: float, rng: np.random.Generator) -> dict[OperatorKey, Counts]:
        case = (id(self.plan), tuple(known.rates.items()))
        if case not in self._expected:
            self._expected[case] = self._per_window(known)
        return {
            key: Counts(*(int(rng.poisson(value * windows)) for value in values))
            for key, values in self._expected[case].items()
        }

    def _per_window(self, known: Statistics) -> dict[OperatorKey, tuple[float, float, float]]:
        (part,) = self.plan.parts
        expected = predict(part, known, round(1_000 * known.window_us))
        rates = QueryRates(part.query, known, ENGINE)
        found = {}
        for operator in part.operators:
            if operator.inputs:
                one = expected[operator.name]
                emitted = rates.rate(operator.sub_query.aliases, operator.sub_query.closed)
                found[0, operator.name] = (one.ingested.value / 1_000, one.comparisons.value / 1_000, emitted)
        return found

    def _known(self) -> Statistics:
        return replace(self.statistics, rates=dict(self.rates(self._now)))

    def _measured(self, suspicion: Suspicion) -> list[Statistics]:
        rates = {name: max(1e-3, suspicion.rates.get(name, 0.0)) for name in self.statistics.rates}
        return [replace(self.statistics, rates=rates)]

    def _replanned(self, known: object, speed: float) -> list[Plan]:
        return candidate_plans(self.plan, known, self.monitor.pricing, units=self.units, speed=speed)  # type: ignore[arg-type]
