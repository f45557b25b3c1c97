"""Probing: the best candidate plans run over the beginning of a trace, and the one that measures best is taken.

Predictions choose the candidates; a few seconds on real events correct the order among them. Every candidate runs in
this process over the same events, in small batches, until they end or its share of the time is up. What counts is
processor time per event.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from actors.group import Limits
from actors.sinks.outlet import OutletSpec
from cluster.local import LocalRuntime
from decopa.choices import Order
from decopa.errors import LimitError
from decopa.planning.plan import Plan
from decopa.runs.guard import Guard
from shuffler.source.trace import TraceSource

#: Events of the beginning that candidates are run over, and events per batch.
_EVENTS = 50_000
_BATCH = 2_048
#: Events that load compiled loops, the time that this may take, and the groups that may come of it.
_FIRST = 256
_LOADING_S = 60.0
_FEW_GROUPS = 100_000


@dataclass(frozen=True, slots=True)
class Probed:
    """What a candidate took: processor seconds for each event that it came to."""

    seconds_per_event: float
    events: int


def choose_by_probing(
    plans: Sequence[Plan], source: TraceSource, limits: Limits, seconds: float
) -> tuple[Plan, str | None]:
    """The plan that takes least, and a line about it if it is not the first; `seconds` bound the
    whole probing, apart from loading compiled loops."""
    if len(plans) < 2:
        return plans[0], None
    each = seconds / len(plans)
    found = [probe(plan, source, limits, each) for plan in plans]
    best = min(range(len(plans)), key=lambda at: (found[at].seconds_per_event, at))
    if best == 0:
        return plans[0], None
    times = found[0].seconds_per_event / found[best].seconds_per_event
    return plans[best], (
        f"of {len(plans)} candidate plans the one predicted to be number {best + 1} was taken: on the first "
        f"{found[best].events:,} events it took 1/{times:.3g} of the time of the one predicted to be best"
    )


def probe(plan: Plan, source: TraceSource, limits: Limits, seconds: float) -> Probed:
    """One candidate: first over few events, which loads compiled loops, then over as many as the time allows."""
    _run(plan, _Beginning(source, _FIRST), replace(limits, max_seconds=_LOADING_S, max_groups=_FEW_GROUPS), _FIRST)
    begun = time.process_time()
    events = _run(plan, _Beginning(source, _EVENTS), replace(limits, max_seconds=seconds), _BATCH)
    return Probed(max(time.process_time() - begun, 1e-9) / max(1, events), events)


def _run(plan: Plan, source: Any, limits: Limits, batch_size: int) -> int:
    """Events that the plan came to."""
    guard = Guard(plan, limits, [None] * len(plan.parts))
    runtime = LocalRuntime(
        plan, source, batch_size=batch_size, limits=limits, outlet=OutletSpec(Order.ANY), watch=guard
    )
    with suppress(LimitError):  # cut off: what it did so far is what it shows
        runtime.run()
    return runtime.events


class _Beginning:
    """The first events of a trace, as a trace."""

    def __init__(self, source: TraceSource, events: int) -> None:
        self._source, self._events = source, events

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)

    def batches(self, attributes: Any, batch_size: int, *, gather: bool = False) -> Iterator[Any]:
        seen = 0
        for batch in self._source.batches(attributes, batch_size, gather=gather):
            yield batch
            seen += len(batch)
            if seen >= self._events:
                return
