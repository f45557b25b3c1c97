"""The scaling test: plans and deploys a query on some numbers of units and searches the rate that each sustains."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from actors.group import Limits
from actors.reports import OperatorReport, UnitReport, operator_report
from costmodel.capacity import Capacity
from costmodel.formulas import ENGINE
from costmodel.statistics import Statistics
from costmodel.sustainable import SearchResult, Trial, largest_sustainable
from decopa.choices import EDGES, PLACEMENTS, Reading
from decopa.errors import DeployError
from decopa.planning.plan import Plan
from decopa.planning.price import plan_units
from decopa.query.query import Query
from decopa.runs.model_check import check_loads, predicted_busy_s, predicted_rate
from decopa.runs.preparation.planning import choose_plan, per_part
from decopa.runs.runtimes.flows import plan_flows
from decopa.runs.scaling.scale_points import Point, PointKey
from decopa.runs.spec import Planning
from shuffler.exchange.outbox import FlushPolicy
from shuffler.routing.topology import Topology
from shuffler.source.trace import TraceSource

if TYPE_CHECKING:
    from cluster.measure.scaling import OfferedRate, RateTest
    from cluster.options import RayOptions

#: The first rate that is offered, as a share of the predicted one.
_FIRST = 0.95
#: Windows of event time that pass before anything is measured, and then a share of the window of observation.
_WARM_UP_WINDOWS, _WARM_UP = 1.1, 0.3
#: Emulated units: a rate that was offered while this machine was the limit is offered again, so often at most.
_REPEATS = 3
#: The clock of emulated units never makes them faster than this, so that the real work stays a small share of the time.
_MOST_INGESTED_PER_S, _MOST_COMPARED_PER_S = 1e5, 3e7


@dataclass(frozen=True)
class ScaleSettings:
    """How points are measured. `seconds` is the window of observation, in a second of which delays may grow by
    `tolerance` seconds if a rate is to count as sustained; `target_rate`, for emulated units only, is the
    rate (events/s) that should really pass: their clock is set so that the predicted rate becomes this one."""

    capacity: Capacity
    emulate: bool = False
    reading: Reading = Reading.LINEAR
    seconds: float = 10.0
    precision: float = 0.05
    tolerance: float = 0.02
    most_trials: int = 8
    shufflers: int = 1
    target_rate: float | None = None
    flush_s: float = 0.05
    address: str | None = None
    placement: str = PLACEMENTS[0]
    pins: tuple[tuple[str, str], ...] = ()
    wait_for_nodes_s: float | None = None
    #: How fast nodes are, by address, for placement EDGES.
    speeds: Mapping[str, float] | None = None

    def document(self) -> dict[str, Any]:
        """What makes two measurements comparable."""
        found = asdict(self)
        del found["address"], found["wait_for_nodes_s"]
        found["capacity"].pop("objective")
        return found | {"objective": self.capacity.objective.value, "reading": self.reading.value}


class ScaleTest:
    """One trace, one workload; `measure` makes one point."""

    def __init__(
        self,
        queries: Sequence[Query],
        statistics: Sequence[Statistics],
        source: TraceSource,
        settings: ScaleSettings,
        tell: Callable[[str], None] = lambda doing: None,
    ) -> None:
        self._queries, self._statistics, self._source = queries, statistics, source
        self._settings, self._tell = settings, tell
        self._events, self._span_us = _extent(source)

    def plan(self, key: PointKey) -> Plan:
        settings = self._settings
        planning = Planning(key.units, key.strategy, None, self._statistics, settings.capacity, settings.reading)
        return choose_plan(planning, self._queries, self._statistics, model=ENGINE).plan  # what runs is the engine

    def measure(self, key: PointKey) -> Point:
        """Deploys the plan once and offers it rates until the largest one that it sustains is known."""
        from cluster.measure.scaling import RateTest

        settings, started = self._settings, time.perf_counter()
        plan = self.plan(key)
        predicted, bottleneck = self._predicted(plan)
        clock = self._clock(predicted)
        first = predicted * clock * _FIRST if math.isfinite(predicted) else self._events / settings.seconds
        title = f"{key.strategy} on {key.units}{' (emulated)' if settings.emulate else ''}"
        test = RateTest(
            plan,
            self._source,
            limits=Limits(),
            options=self._options(plan, clock),
            warm_up_events=self._warm_up_events(),
            tolerance=settings.tolerance,
            tell=lambda doing: self._tell(f"{title}: {doing}"),
        )
        offered: list[OfferedRate] = []

        def offer(rate: float) -> Trial:
            for _ in range(_REPEATS):
                found = test.offer(rate, settings.seconds)
                offered.append(found)
                if not (settings.emulate and found.disturbed):
                    break
            return Trial(rate, found.sustained, found.achieved)

        with test:
            # Not measured: kernels that no event has needed yet are compiled.
            test.offer(first, _WARM_UP * settings.seconds)
            result = largest_sustainable(offer, first, precision=settings.precision, most_trials=settings.most_trials)
        point = self._point(key, plan, predicted, bottleneck, clock, result, offered, time.perf_counter() - started)
        return replace(point, machines=self._machines(plan, _largest_sustained(offered), test))

    def _point(
        self,
        key: PointKey,
        plan: Plan,
        predicted: float,
        bottleneck: str | None,
        clock: float,
        result: SearchResult,
        offered: Sequence[OfferedRate],
        seconds: float,
    ) -> Point:
        last = _largest_sustained(offered)
        return Point(
            key.strategy,
            key.units,
            plan_units(plan),
            predicted,
            bottleneck,
            result.rate / clock,
            None if result.failed is None else result.failed / clock,
            self._settings.emulate,
            clock,
            last.latency.p50_s,
            last.latency.p99_s,
            last.busiest,
            [_trial_document(one, clock) for one in offered],
            self._loads(plan, last, clock),
            seconds,
            self._events,
            last.rate * self._settings.seconds / 2,
        )

    def _loads(self, plan: Plan, offered: OfferedRate, clock: float) -> list[dict[str, Any]]:
        """Predicted and measured loads of every operator while this rate was offered."""
        topology = Topology(plan, self._settings.shufflers)
        reports: list[dict[str, OperatorReport]] = []
        busy: dict[tuple[int, str], float] = {}
        for part, query_plan in enumerate(plan.parts):
            units: list[UnitReport] = [
                unit for status in offered.processes for unit in status.units if unit.part == part
            ]
            found = {one.name: operator_report(query_plan, one, units) for one in query_plan.operators}
            reports.append({name: report for name, report in found.items() if report is not None})
        for status in offered.processes:
            hosted = {(unit.part, unit.operator) for unit in topology.process_of[status.name].units}
            if len(hosted) == 1:  # operators that share a process share its time
                only = hosted.pop()
                busy[only] = busy.get(only, 0.0) + status.busy_s
        span_us = self._span_us * offered.events / self._events
        checks = check_loads(plan, self._per_part(plan), span_us, reports, self._settings.capacity.times(clock), busy)
        return [asdict(check) | {"error": check.error} for check in checks]

    def _machines(self, plan: Plan, offered: OfferedRate, test: RateTest) -> list[dict[str, Any]]:
        """What left each machine while this rate was offered, what was predicted to, and how often its CPU was at its
        limit."""
        from cluster.deploy.edges import bytes_by_node

        share = offered.events / self._events
        flows = {ends: size * share for ends, size in self._flows(plan).items()}
        flows |= {ends: size * offered.events for ends, size in test.fed_bytes.items()}
        predicted = bytes_by_node(flows, test.homes)
        return [
            {
                "address": address,
                "processes": sorted(name for name, home in test.homes.items() if home == address),
                "sent_bytes": load.sent_bytes,
                "predicted_bytes": predicted.get(address, 0.0),
                "throttled": load.throttled,
            }
            for address, load in sorted(offered.machines.items())
        ]

    def _flows(self, plan: Plan) -> dict[tuple[str, str], float]:
        """Bytes between processes over the whole trace."""
        return plan_flows(plan, self._per_part(plan), self._span_us, self._source.schema, self._settings.shufflers)

    def _predicted(self, plan: Plan) -> tuple[float, str | None]:
        capacity = self._settings.capacity.for_window(1_000_000)
        return predicted_rate(plan, self._per_part(plan), self._span_us, self._events, capacity)

    def _per_part(self, plan: Plan) -> list[Statistics]:
        return [one for one in per_part(plan, self._queries, self._statistics) if one is not None]

    def _clock(self, predicted: float) -> float:
        target = self._settings.target_rate
        if target is None or not self._settings.emulate or not math.isfinite(predicted):
            return 1.0
        capacity = self._settings.capacity.for_window(1_000_000)
        fastest = min(_MOST_INGESTED_PER_S / capacity.max_ingestion, _MOST_COMPARED_PER_S / capacity.max_comparisons)
        return min(target / predicted, fastest)

    def _warm_up_events(self) -> int:
        window_us = max(query.window_us for query in self._queries)
        return max(1, round(_WARM_UP_WINDOWS * window_us / self._span_us * self._events))

    def _options(self, plan: Plan, clock: float) -> RayOptions:
        from cluster.options import Placement, RayOptions

        settings = self._settings
        placement = Placement(settings.placement, dict(settings.pins), speeds=settings.speeds)
        if settings.placement == EDGES:
            loads = predicted_busy_s(plan, self._per_part(plan), self._span_us, settings.capacity)
            placement = replace(placement, flows=self._flows(plan), loads=loads)
        emulated = settings.capacity.for_window(1_000_000).times(clock)
        return RayOptions(
            address=settings.address,
            shufflers=settings.shufflers,
            policy=replace(FlushPolicy(), interval_s=settings.flush_s),
            emulate={"": emulated} if settings.emulate else {},
            metrics=False,
            placement=placement,
            wait_for_nodes_s=settings.wait_for_nodes_s,
        )


def _largest_sustained(offered: Sequence[OfferedRate]) -> OfferedRate:
    return max([one for one in offered if one.sustained] or offered, key=lambda one: one.rate)


def _extent(source: TraceSource) -> tuple[int, int]:
    """Events of a trace, and the event time that they stand for, with the gap from the last to a next one."""
    events = source.row_count or 0
    if events < 2 or source.span_us <= 0:
        raise DeployError(
            f"{source.name}: all {events:,} events share one timestamp; a scaling test needs a longer trace"
        )
    return events, round(source.span_us * events / (events - 1))


def _trial_document(one: OfferedRate, clock: float) -> dict[str, Any]:
    return {
        "rate": one.rate / clock,
        "events": one.events,
        "seconds": one.seconds,
        "growth": one.growth if math.isfinite(one.growth) else None,
        "backlog_s": one.backlog_s,
        "sustained": one.sustained,
        "disturbed": one.disturbed,
        "achieved": one.achieved / clock,
        "busiest": one.busiest,
        "p50_s": one.latency.p50_s,
        "p99_s": one.latency.p99_s,
    }
