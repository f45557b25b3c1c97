"""`decopa.open_run`: a run whose rules come and go while it goes on.

The stream is worked on by whoever iterates; a change happens between two batches, in the thread that asks for it. What
a rule reports follows from the stream and the changes alone (see `cluster.change.rules.versions`).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import TracebackType
from typing import Any

import pyarrow as pa

from cluster.change.cut import ending_in
from cluster.change.history import DEFAULT_MAX_BYTES
from cluster.change.rules.versions import RuleBook, RuleError, Version, opening_plan, version_parts
from cluster.change.staying import parts_without
from decopa.choices import RuleSight
from decopa.planning.history import history_us
from decopa.planning.plan import Plan, QueryPlan
from decopa.planning.workload.deployed import with_deployed
from decopa.query.binding import bind
from decopa.query.query import Query
from decopa.runs.preparation.planning import left_deep_plan
from decopa.runs.preparation.prepare import Prepared, prepare
from decopa.runs.result import combined
from decopa.runs.spec import RunSpec
from decopa.runs.streams.publication import Publication
from decopa.runs.streams.rule_engine import Engine, RuleEngine
from decopa.runs.streams.rules import RuleState, check_rows, moment_us, one_query
from decopa.runs.support import asks_for_ray
from shuffler.routing.table import NOTHING_YET
from shuffler.source.stopping import StreamStopped

_LOG = logging.getLogger("decopa")


class OpenRun:
    """Iterates over tables of new matches, none of them empty, with the columns of `decopa.run` and `version`.

    `add`, `remove` and `replace` take effect at a time of the stream: at `at`, or from the first timestamp after the
    last event that was worked on. A change that cannot be made raises an error, and the run continues as it was. They
    may be called from any thread, one at a time; a call waits while a batch is worked on or another change is made.
    """

    def __init__(
        self, prepared: Prepared, *, keep_history_us: int = 0, max_history_bytes: int = DEFAULT_MAX_BYTES
    ) -> None:
        self._source, self._keep_us = prepared.source, keep_history_us
        check_rows(prepared.queries)
        self._book = RuleBook.of(prepared.queries)
        plan = opening_plan(prepared.plan, self._book)
        self._parts = plan.parts
        self._publications: dict[tuple[str, int], Publication] = {}
        self._counts: dict[tuple[str, int], int] = {}
        self._engine = _engine(prepared, plan, max_history_bytes)
        self._pipe = self._engine.pipe
        #: Whether a new rule takes what it can from those that run; on Ray their processes stay as they are.
        self._looks_up = prepared.spec.runtime != "ray"
        #: Held while a batch is worked on, and while the rules change.
        self._lock = threading.RLock()
        #: The change that is being made.
        self._under_way: str | None = None
        self._stopping = False
        self._keep_enough()
        self._steps = self._tables()

    # ------------------------------------------------------------- the stream

    def __enter__(self) -> OpenRun:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __iter__(self) -> Iterator[pa.Table]:
        return self._steps

    def stop(self) -> None:
        """Asks the run to end before its next events; what is still open stays so."""
        self._stopping = True

    def close(self) -> None:
        """Ends the run at once; what has not been handed out is dropped."""
        self._steps.close()
        self._engine.close()

    def to_end(self) -> pa.Table:
        """Works on the rest of the stream; all matches that have not been handed out, as one table."""
        return combined([self.nothing, *self])

    @property
    def events(self) -> int:
        """Events that were worked on so far."""
        return self._pipe.events

    @property
    def reached_us(self) -> int | None:
        """The time of the last event that was worked on; None before the first one."""
        return self._pipe.watermark_us if self._pipe.events else None

    @property
    def nothing(self) -> pa.Table:
        """A table of no matches, with the columns of the rules that are there now."""
        with self._lock:
            return self._reported(self._pipe.nothing())

    def _tables(self) -> Generator[pa.Table, None, None]:
        try:
            for events in self._engine.batches():
                with self._lock:
                    self._engine.feed(events)
                    found = self._taken()
                if found.num_rows:
                    yield found
                if self._stopping:
                    return
        except StreamStopped:
            return
        with self._lock:
            self._pipe.finish()
            found = self._reported(self._pipe.take())
        if found.num_rows:
            yield found

    def _taken(self) -> pa.Table:
        found = self._reported(self._pipe.take())
        left = self._parts_without({key for one in self._over() for key in one.keys})
        if left != self._parts:
            self._parts = left
            self._engine.switch(self._parts, {})
        return found

    def _over(self) -> list[Version]:
        """The versions that were removed and can report nothing more, and whose parts are still there."""
        finals = self._pipe.finals_us
        return [
            one
            for one in self._running()
            if one.until_us is not None and all(finals.get(key, NOTHING_YET) >= one.until_us for key in one.keys)
        ]

    def _running(self) -> list[Version]:
        """The versions that have parts in the plan."""
        here = {part.key for part in self._parts}
        return [one for one in self._book.versions if one.keys[0] in here]

    def _reported(self, found: dict[str, pa.Table]) -> pa.Table:
        """The matches that versions report: those that end within their lives, each once."""
        tables, finals = [], self._pipe.finals_us
        for version in self._book.versions:
            if version.keys[0] not in found:
                continue
            name = (version.name, version.number)
            publication = self._publications.setdefault(name, Publication([version.query]))
            mine = [ending_in(found[key], version.from_us, version.until_us) for key in version.keys]
            table = publication.take(mine, [finals.get(key, NOTHING_YET) for key in version.keys])
            self._counts[name] = self._counts.get(name, 0) + table.num_rows
            numbers = pa.array([version.number] * table.num_rows, type=pa.int32())
            tables.append(table.add_column(1, "version", numbers))
        return combined(tables) if tables else pa.table({})

    # ------------------------------------------------------------- the rules

    def add(self, query: str | Query, *, at: Any = None, sees: RuleSight = "window") -> Version:
        """A rule more. With `sees` "window" its first matches may begin before it does; with "new" it looks at events
        from its beginning on only."""
        new = one_query(query)
        with self._changing(f"adding rule '{new.name}'"):
            self._change(self._book.added(new, self._moment(at), sees))
            return self._book.current[new.name]

    def remove(self, name: str, *, at: Any = None) -> Version:
        """Ends a rule; every match that ends before is still reported."""
        with self._changing(f"removing rule '{name}'"):
            number = self._book.find(name).number
            self._change(self._book.removed(name, self._moment(at)))
            return next(one for one in self._book.versions if (one.name, one.number) == (name, number))

    def replace(self, name: str, query: str | Query, *, at: Any = None, sees: RuleSight = "window") -> Version:
        """Ends a rule and begins its next version at the same moment."""
        new = one_query(query)
        with self._changing(f"replacing rule '{name}'"):
            self._change(self._book.replaced(name, new, self._moment(at), sees))
            return self._book.current[name]

    def queries(self) -> tuple[RuleState, ...]:
        """The rules that are there now, and those that were removed and are not over yet."""
        with self._lock:
            over = self._over()  # their parts may still be there for those who take their matches
            return tuple(
                RuleState(
                    one.name,
                    one.number,
                    one.from_us,
                    one.until_us,
                    one.sees,
                    self._counts.get((one.name, one.number), 0),
                    one.until_us is not None,
                )
                for one in self._running()
                if one not in over
            )

    @contextmanager
    def _changing(self, what: str) -> Iterator[None]:
        """Inside, a change is made; whoever has to wait for another one is told so."""
        other = self._under_way
        if other is not None:
            _LOG.warning("%s waits until %s is done", what, other)
        with self._lock:
            self._under_way = what
            try:
                yield
            finally:
                self._under_way = None

    def _moment(self, at: Any) -> int | None:
        """The event time of a change; None is the beginning of the stream."""
        reached_us = self.reached_us
        if at is None:
            return None if reached_us is None else reached_us + 1
        at_us = moment_us(at)
        if reached_us is not None and at_us <= reached_us:
            raise RuleError(
                f"a change at {at_us} us comes too late, events up to {reached_us} us have been worked on; name a "
                "later time, or leave it out"
            )
        return at_us

    def _change(self, book: RuleBook) -> None:
        """Makes another book that of the run, or raises and changes nothing."""
        parts, begin_us = self._wanted(book)
        if parts != self._parts:
            self._engine.switch(parts, begin_us)
        self._parts, self._book = parts, book
        self._keep_enough()

    def _wanted(self, book: RuleBook) -> tuple[tuple[QueryPlan, ...], dict[str, int]]:
        """The parts that the versions of a book need, and from when on the new ones need events."""
        here, schema = {part.key for part in self._parts}, self._source.schema
        staying = self._parts_without({key for one in self._over() for key in one.keys})
        begin_us: dict[str, int] = {}
        added: list[QueryPlan] = []
        for version in book.versions:
            if version.keys[0] in here or (version.until_us is not None and version in self._book.versions):
                continue
            version = replace(version, query=version.query.with_every_attribute(schema.attributes))
            check_rows([version.query])
            for branch in version.query.branches:
                bind(branch, schema)
            parts = version_parts(version, left_deep_plan([version.query]))
            added += [with_deployed(part, staying) if self._looks_up else part for part in parts]
            if version.needs_from_us is not None:
                begin_us |= dict.fromkeys(version.keys, version.needs_from_us)
        if not added:
            return self._parts, begin_us
        return (*staying, *added), begin_us

    def _parts_without(self, keys: set[str]) -> tuple[QueryPlan, ...]:
        """The parts that remain without some versions'."""
        return parts_without(Plan(self._parts), keys)

    def _keep_enough(self) -> None:
        self._engine.keep(max(self._keep_us, history_us(Plan(self._parts))))


def _engine(prepared: Prepared, plan: Plan, max_history_bytes: int) -> Engine:
    """What works on the stream."""
    if prepared.spec.runtime != "ray":
        return RuleEngine(prepared, plan, max_history_bytes)
    from decopa.runs.streams.ray_rules import RayRuleEngine

    return RayRuleEngine(prepared, plan, max_history_bytes)


def open_rules(
    spec: RunSpec, queries: Sequence[Query], events: Any, *, keep_history_us: int, max_history_bytes: int
) -> OpenRun:
    """An open run in this process or, if units or Ray are asked for, on Ray."""
    spec = replace(spec, runtime=spec.runtime or ("ray" if asks_for_ray(spec) else "local"))
    return OpenRun(prepare(spec, queries, events), keep_history_us=keep_history_us, max_history_bytes=max_history_bytes)
