"""RuleEngine: the pipeline that an open run works with, and how events get there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Protocol

import pyarrow as pa

from cluster.change.history import BlockRing, History, StoredHistory
from cluster.change.local import ChangingPipeline
from decopa.choices import DEFAULT_BATCH_SIZE
from decopa.planning.plan import Plan, QueryPlan
from decopa.runs.preparation.prepare import Prepared
from shuffler.rows.events import EventBatch


class Pipe(Protocol):
    """What works on events, in one process (`ChangingPipeline`) or on Ray; matches are tables by the keys of parts."""

    @property
    def events(self) -> int: ...

    @property
    def watermark_us(self) -> int: ...

    @property
    def finals_us(self) -> dict[str, int]: ...

    def take(self) -> dict[str, pa.Table]: ...

    def nothing(self) -> dict[str, pa.Table]: ...

    def finish(self) -> None: ...


class Engine(Protocol):
    """A pipe and how events get there: it is fed the batches that it gives, whatever they are."""

    @property
    def pipe(self) -> Pipe: ...

    def keep(self, reach_us: int) -> None: ...

    def batches(self) -> Iterator[Any]: ...

    def feed(self, batch: Any, /) -> None: ...

    def switch(self, parts: tuple[QueryPlan, ...], begin_us: Mapping[str, int]) -> None: ...

    def close(self) -> None: ...


class RuleEngine:
    """Works on a source in this process. All columns are read, since rules that come later may need them.

    A stored trace is read again where rules look back; of a live stream the end is kept.
    """

    def __init__(self, prepared: Prepared, plan: Plan, max_history_bytes: int) -> None:
        self._source = source = prepared.source
        self._batch_size = prepared.spec.trace.batch_size or DEFAULT_BATCH_SIZE
        self._attributes = tuple(source.schema.attributes)
        self._history: History[EventBatch] = BlockRing(0, max_history_bytes)
        if source.row_count is not None and not source.dead_letters.diverting:
            self._history = StoredHistory(source, self._attributes)
        self.pipe = ChangingPipeline(
            Plan(_without_hosts(plan.parts)),
            source.format,
            source.strings,
            self._history,
            limits=prepared.spec.limits,
        )

    def keep(self, reach_us: int) -> None:
        """Keeps events that far back, at least."""
        self._history.reach_us = max(self._history.reach_us, reach_us)

    def batches(self) -> Iterator[EventBatch]:
        return self._source.batches(self._attributes, self._batch_size)

    def feed(self, events: EventBatch) -> None:
        self.pipe.feed(events)
        self.pipe.forget_strings()

    def close(self) -> None:
        """Nothing runs but in this process."""

    def switch(self, parts: tuple[QueryPlan, ...], begin_us: Mapping[str, int]) -> None:
        """From the next batch on these parts find the matches; new ones see events from `begin_us` on, by key."""
        self.pipe.switch(Plan(_without_hosts(parts)), begin_us)


def _without_hosts(parts: tuple[QueryPlan, ...]) -> tuple[QueryPlan, ...]:
    """The same parts with units of their own for every operator: in one process nothing is gained by sharing them."""
    return tuple(replace(part, operators=tuple(replace(one, hosts=()) for one in part.operators)) for part in parts)
