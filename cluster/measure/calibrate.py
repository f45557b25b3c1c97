"""Calibration: the real processing unit under growing load, on every node of a Ray cluster (7.1).

Every operator of the query runs as a process of its own would: it receives encoded messages, sends encoded messages on,
and ships each of them to an actor through Ray, as a unit does. The loads grow in three directions: the
query in a window that no two events share (ingestion), the query in growing windows (comparisons), and the pattern
without its conditions between events (emission), each until a step takes long enough to be measured well. Then the
busiest unit gets its messages in real time, at growing rates, until it cannot keep up.
"""

from __future__ import annotations

import itertools
import os
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa
import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from actors.group import Limits
from actors.node import UnitNode
from actors.reports import UnitReport
from cluster.options import RayOptions
from costmodel.calibration import BusyModel, Calibration, Measurement, NodeCalibration, Ramp, fit_busy_model
from costmodel.sustainable import Trial, delay_growth, largest_sustainable
from decopa.errors import StatisticsError
from decopa.planning.plan import Plan
from decopa.planning.strategies.baselines import state_parallel
from decopa.query.analysis import strip_kleene
from decopa.query.binding import bind
from decopa.query.conditions.predicate import aliases_of
from decopa.query.query import Query
from shuffler.exchange.channel import Message
from shuffler.exchange.codecs import needed_attributes
from shuffler.exchange.node import ReplayStart, ShufflerNode
from shuffler.exchange.outbox import FlushPolicy, Send
from shuffler.exchange.ray_links import RayLinks
from shuffler.routing.topology import Topology
from shuffler.rows.columns import Place
from shuffler.rows.events import EventFormat
from shuffler.source.pacing import Replay
from shuffler.source.trace import TraceSource

#: Rows of a message, as in a run that is busy; fewer if there are not enough events for many messages.
BATCH_ROWS = 4_096
_LEAST_MESSAGES = 24
#: A load that takes this long is measured well enough; the next one would take longer.
ENOUGH_S = 0.5
#: Steps by which windows grow; the shorter one where matches grow with a power of the window.
_STEP, _SMALL_STEP, _SMALLEST = 4, 2, 4**8
#: A unit's measurement counts if it was busy for at least this long: shorter ones are mostly the clock's.
_LEAST_BUSY_S = 0.002
#: A unit keeps up with a rate if its messages' delays grow by less than this in a second.
_MOST_GROWTH = 0.05

#: Takes a message to another process.
Ship = Callable[[Message], None]


@dataclass(frozen=True)
class CalibrationSpec:
    """What to measure with: travels to the process that measures. `events` is an Arrow stream."""

    query: Query
    form: EventFormat
    events: pa.Buffer
    repeats: int = 3


@dataclass(frozen=True)
class _Unit:
    """What one unit did: its counters, the messages that it got (if they were to be kept), rows and seconds of each."""

    name: str
    report: UnitReport
    messages: tuple[Message, ...]
    rows: tuple[int, ...]
    service_s: tuple[float, ...]


def calibration_spec(query: Query, source: TraceSource, *, events: int, repeats: int) -> CalibrationSpec:
    """The first `events` events of a trace, for one OR-free query."""
    if not state_parallel(query).root.inputs:
        raise StatisticsError(f"{query.pattern} is one event, which no unit compares with anything; join two or more")
    attributes = needed_attributes([bind(query, source.schema)], source.schema)
    blocks = [block.rows for block in itertools.takewhile(_up_to(events), source.blocks(attributes, BATCH_ROWS))]
    if not blocks:
        raise StatisticsError(f"{source.name} has no events to calibrate with")
    stream = pa.BufferOutputStream()
    table = pa.Table.from_batches(blocks).unify_dictionaries().slice(0, events)
    with pa.ipc.new_stream(stream, table.schema) as writer:
        writer.write_table(table)
    return CalibrationSpec(query, source.format, stream.getvalue(), repeats)


def _up_to(events: int) -> Any:
    seen = 0

    def more(block: Any) -> bool:
        nonlocal seen
        before, seen = seen, seen + block.rows.num_rows
        return before < events

    return more


# ------------------------------------------------------------------ where it is measured


class Receiver:
    """An actor that messages are shipped to; it does nothing with them."""

    def deliver(self, message: Message) -> None: ...

    def pid(self) -> int:
        return os.getpid()


def calibrate_cluster(spec: CalibrationSpec) -> Calibration:
    """On every node of the cluster that this program is connected to, one unit at a time on each."""
    # Two nodes may have the same address (a test cluster), so the name has the beginning of the id, too.
    task, calls = ray.remote(_calibrate_in_task), []
    for node in sorted(_alive(ray.nodes()), key=lambda one: str(one["NodeID"])):  # type: ignore[no-untyped-call]
        if node.get("Resources", {}).get("CPU", 0) >= 1:
            name = f"{node['NodeManagerAddress']} ({node['NodeID'][:6]})"
            calls.append(task.options(num_cpus=1, scheduling_strategy=_on(node["NodeID"])).remote(spec, name))
    return Calibration(str(spec.query), tuple(ray.get(calls)))


def _alive(nodes: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [node for node in nodes if node["Alive"]]


def _on(node_id: str) -> NodeAffinitySchedulingStrategy:
    return NodeAffinitySchedulingStrategy(node_id, soft=False)


def _calibrate_in_task(spec: CalibrationSpec, name: str) -> NodeCalibration:
    here = _on(ray.get_runtime_context().get_node_id())
    receiver: Any = ray.remote(Receiver).options(num_cpus=0, scheduling_strategy=here).remote()
    links = RayLinks("calibration", {"receiver": receiver}, window=RayOptions().window, attempt=0)
    links.greet()
    try:
        return calibrate_node(spec, name, partial(links.send, "receiver"))
    finally:
        ray.kill(receiver)


# ------------------------------------------------------------------ in the process that measures


def calibrate_node(spec: CalibrationSpec, name: str, ship: Ship) -> NodeCalibration:
    """Measures all loads, `repeats` times; the first pass compiles and finds out how far loads grow."""
    rows = pa.ipc.open_stream(spec.events).read_all()
    loads = list(_loads(spec, rows, ship))
    models: list[BusyModel] = []
    everything: list[Measurement] = []
    ramps: list[Ramp] = []
    for _ in range(spec.repeats):
        found: list[Measurement] = []
        whole = spec.query
        for title, query in loads:
            units = _run(query, spec.form, rows, ship)
            found += [_measurement(title, unit) for unit in units if sum(unit.service_s) >= _LEAST_BUSY_S]
            whole = query if query.where == spec.query.where else whole
        models.append(fit_busy_model(found))
        everything += found
        ramps.append(_ramp(whole, spec.form, rows, models[-1], ship))
    return NodeCalibration(name, tuple(models), tuple(everything), tuple(ramps))


def _loads(spec: CalibrationSpec, rows: pa.Table, ship: Ship) -> Iterator[tuple[str, Query]]:
    """Names and queries, each with more to do than the one before, until one takes long enough."""
    query = spec.query
    nothing = replace(query, window_us=1)
    _run(nothing, spec.form, rows.slice(0, BATCH_ROWS), ship)  # compiles
    yield "ingestion", nothing
    for factor in _growing(_STEP):
        window_us = max(1, query.window_us // factor)
        larger = replace(query, window_us=window_us)
        units = _run(larger, spec.form, rows, ship)
        took_s = sum(sum(unit.service_s) for unit in units)
        if factor == 1 or sum(unit.report.comparisons for unit in units) >= rows.num_rows:
            yield f"comparisons, window {window_us} us", larger
        if took_s >= ENOUGH_S:
            break
    for factor in _growing(_SMALL_STEP):
        window_us = max(1, query.window_us // factor)
        larger = without_conditions(query, window_us)
        units = _run(larger, spec.form, rows, ship)
        if sum(unit.report.emitted for unit in units) >= rows.num_rows:
            yield f"emission, window {window_us} us", larger
        if sum(unit.report.emitted for unit in units) >= 16 * rows.num_rows:
            break


def _growing(step: int) -> Iterator[int]:
    """What windows are divided by: from very much down to 1."""
    factor = _SMALLEST
    while factor >= 1:
        yield factor
        factor //= step


def without_conditions(query: Query, window_us: int) -> Query:
    """The pattern with single events for KL and without conditions between events: everything in order matches."""
    alone = tuple(predicate for predicate in query.where if len(aliases_of(predicate)) < 2)
    return replace(
        query,
        pattern=strip_kleene(query.pattern, query.kleene_aliases),
        where=alone,
        skips=(),
        having=(),
        output=(),
        ranking=None,
        window_us=window_us,
    )


def _measurement(title: str, unit: _Unit) -> Measurement:
    report = unit.report
    # Without conditions a comparison is a match: what it costs to find one is part of what it costs to emit it.
    comparisons = 0 if title.startswith("emission") else report.comparisons
    return Measurement(f"{report.operator}: {title}", report.ingested, comparisons, report.emitted, sum(unit.service_s))


def _ramp(query: Query, form: EventFormat, rows: pa.Table, model: BusyModel, ship: Ship) -> Ramp:
    """The busiest unit of the query under growing load, in real time, against what the model says of it."""
    busiest = max(_run(query, form, rows, ship, keep=True), key=lambda unit: sum(unit.service_s))
    report, topology = busiest.report, _topology(query)
    predicted_s = model.busy_s(report.ingested, report.comparisons, report.emitted)
    predicted_rate = report.ingested / max(predicted_s, 1e-12)

    def offer(rate: float) -> Trial:
        node = _unit(busiest.name, topology, form, lambda target, message: ship(message))
        due_s, waits = 0.0, []
        started = time.perf_counter()
        for message, count in zip(busiest.messages, busiest.rows, strict=True):
            due_s += count / rate
            late_s = time.perf_counter() - started - due_s
            if late_s < 0:
                time.sleep(-late_s)
            waits.append((due_s, max(0.0, late_s)))
            node.receive(message)
        took_s = time.perf_counter() - started
        return Trial(rate, delay_growth(waits, 0.0, due_s) <= _MOST_GROWTH, report.ingested / took_s)

    found = largest_sustainable(offer, 0.95 * predicted_rate)
    return Ramp(found.rate or found.trials[-1].achieved, predicted_rate)


def _topology(query: Query) -> Topology:
    return Topology(Plan((state_parallel(query),)))


def _unit(name: str, topology: Topology, form: EventFormat, send: Send) -> UnitNode:
    policy = FlushPolicy(max_rows=BATCH_ROWS, interval_s=0.0)
    return UnitNode(name, topology, form, send=send, limits=Limits(), policy=policy, clock=time.monotonic)


def _run(query: Query, form: EventFormat, rows: pa.Table, ship: Ship, *, keep: bool = False) -> list[_Unit]:
    """Every operator of the query on a unit of its own; messages go from one to the next in this process, and what a
    unit sends is shipped as well."""
    topology = _topology(query)
    waiting: deque[tuple[str, Message]] = deque()
    sent: Counter[tuple[str, str]] = Counter()
    batch_rows = max(1, min(BATCH_ROWS, rows.num_rows // _LEAST_MESSAGES))

    def pass_on(target: str, message: Message) -> None:
        waiting.append((target, replace(message, sequence=sent[message.sender, target])))
        sent[message.sender, target] += 1

    def send(target: str, message: Message) -> None:
        pass_on(target, message)
        ship(message)

    nodes = {process.name: _unit(process.name, topology, form, send) for process in topology.units}
    shuffler = ShufflerNode(
        0,
        topology,
        form,
        send=pass_on,
        mark=lambda marks: None,
        replay=Replay(),
        batch_size=batch_rows,
        policy=FlushPolicy(max_rows=BATCH_ROWS, interval_s=0.0),
        clock=time.monotonic,
        sleep=time.sleep,
    )
    times: dict[str, list[tuple[int, float]]] = {name: [] for name in nodes}
    kept: dict[str, list[Message]] = {name: [] for name in nodes}

    def deliver() -> None:
        while waiting:
            target, message = waiting.popleft()
            node = nodes.get(target)
            if node is not None:  # else the sink
                before = sum(report.ingested for report in node.reports())
                started = time.thread_time()  # a unit has a core of its own, which this process may not have
                node.receive(message)
                took_s = time.thread_time() - started
                times[target].append((sum(report.ingested for report in node.reports()) - before, took_s))
                kept[target] += [message] if keep else []

    first = 0
    for batch in rows.to_batches(max_chunksize=batch_rows):
        shuffler.feed(batch, Place("calibration", first), first, ReplayStart(0.0, 0))
        first += batch.num_rows
        deliver()
    shuffler.finish()
    deliver()
    found = []
    for name, node in nodes.items():
        (report,) = node.reports()
        rows_and_seconds = (tuple(column) for column in zip(*times[name], strict=True))
        found.append(_Unit(name, report, tuple(kept[name]), *rows_and_seconds))
    return found
