"""What a plan would take at a rate, counted without building its processes: ten thousand units are no trouble."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from decopa.planning.plan import Plan, PlanOperator, QueryPlan
from decopa.planning.predict import Prediction
from decopa.query.binding import BoundQuery
from shuffler.rows.layout import layout_of

_VALUE_BYTES = 8


@dataclass(frozen=True)
class Assumptions:
    """Measured on two cores unless said otherwise: seconds of CPU of a call to an actor at its caller, rows of a row
    group that the driver hands out, seconds until a silent node is given up (the shipped settings) and until the
    processes of a node have started, bytes per second that a process reads or writes of its state (assumed), and how
    many processes a machine has (assumed)."""

    call_s: float = 0.6e-3
    group_rows: int = 524_288
    notice_s: float = 20.0
    start_s: float = 4.0
    state_bytes_per_s: float = 200e6
    per_machine: int = 8


@dataclass(frozen=True)
class Outlook:
    """Counts of a plan at a rate, as if every unit had a process of its own: channels between processes, bytes per
    second that shufflers send and that units send each other, bytes of a checkpoint, seconds that the coordinator needs
    for its calls of one checkpoint, share of its time that the driver hands out row groups, and seconds until a run is
    back after a machine fell silent."""

    channels: int
    shuffled_bytes_per_s: float
    exchanged_bytes_per_s: float
    checkpoint_bytes: float
    coordinator_s: float
    driver_share: float
    recovery_s: float


def outlook(
    plan: Plan,
    bounds: Sequence[BoundQuery],
    expected: Sequence[Mapping[str, Prediction]],
    *,
    span_s: float,
    events: int,
    rate: float,
    shufflers: int,
    every_s: float = 1.0,
    assumed: Assumptions | None = None,
) -> Outlook:
    """Of a plan whose operators do what is `expected` over a trace of `events` events and `span_s` seconds, when it
    takes `rate` events per second; checkpoints begin `every_s` seconds apart."""
    assumed = assumed or Assumptions()
    channels, shuffled, exchanged, held = 0, 0.0, 0.0, 0.0
    units = 0
    for part, bound, mine in zip(plan.parts, bounds, expected, strict=True):
        parents = _parents(part)
        window_s = part.query.window_us / 1e6
        for operator in part.operators:
            senders = _senders(part, operator, shufflers)
            units += 0 if not operator.inputs else _units(part, operator)
            emitted, width = mine[operator.name].emitted.value, _width(bound, operator)
            parent = parents.get(operator.name)
            if parent is None:
                channels += senders  # to the sink
                exchanged += emitted * width
                continue
            receivers = _units(part, parent)
            copies = 1 if operator.partitioned else receivers
            channels += senders * receivers
            if operator.inputs:
                exchanged += emitted * width * copies
            else:
                shuffled += emitted * width * copies
            held += emitted / span_s * window_s * width * copies
    processes = units + shufflers + 1
    per_process = held / max(1, units)
    return Outlook(
        channels,
        shuffled / events * rate,
        exchanged / events * rate,
        held,
        processes * assumed.call_s,
        rate / assumed.group_rows * assumed.call_s,
        assumed.notice_s
        + assumed.start_s
        + per_process * min(assumed.per_machine, units) / assumed.state_bytes_per_s
        + processes * assumed.call_s
        + every_s,  # what came since the last checkpoint comes again
    )


def _parents(part: QueryPlan) -> dict[str, PlanOperator]:
    return {name: operator for operator in part.operators for name in operator.inputs}


def _units(part: QueryPlan, operator: PlanOperator) -> int:
    return part.roles(operator).active_units * part.slices


def _senders(part: QueryPlan, operator: PlanOperator, shufflers: int) -> int:
    return _units(part, operator) if operator.inputs else shufflers


def _width(bound: BoundQuery, operator: PlanOperator) -> int:
    return _VALUE_BYTES * len(layout_of(bound, operator.sub_query).columns)
