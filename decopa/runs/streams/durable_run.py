"""`decopa.open_run` with checkpoints: a run in a thread of its own, whose rules come and go from any other."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import replace
from types import TracebackType
from typing import Any

from cluster.change.rules.versions import Version
from cluster.checkpoint.recovery import CheckpointedRun
from decopa.choices import RuleSight
from decopa.query.query import Query
from decopa.runs.runtimes.checkpointed import run_checkpointed
from decopa.runs.spec import RunSpec
from decopa.runs.streams.durable_rules import DurableRules
from decopa.runs.streams.rules import RuleState
from decopa.runs.watch import Watch


class DurableRun:
    """Matches appear in the run's folder, with the columns of `decopa.run` and `version`. `add`, `remove` and `replace`
    return once the change is in a checkpoint; one that cannot be made raises RuleError, and the run continues as it
    was.

    Leaving the block stops the run with a checkpoint, and `decopa.resume` continues it; `wait` returns at the end of
    the stream.
    """

    def __init__(self, spec: RunSpec, queries: Sequence[Query], watch: Watch | None = None) -> None:
        self._stop = threading.Event()
        self._ready: Future[DurableRules] = Future()
        self._done: Future[CheckpointedRun] = Future()
        watching = replace(watch or Watch(), stop=self._stop, ruled=self._ready.set_result)
        self._thread = threading.Thread(
            target=self._run, args=(spec, queries, watching), name="decopa-durable-run", daemon=True
        )
        self._thread.start()
        self._rules = self._ready.result()

    def _run(self, spec: RunSpec, queries: Sequence[Query], watch: Watch) -> None:
        try:
            self._done.set_result(run_checkpointed(spec, queries, watch=watch).outcome)
        except BaseException as err:
            self._done.set_exception(err)
            if not self._ready.done():
                self._ready.set_exception(err)

    def __enter__(self) -> DurableRun:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        if error is None:
            self._done.result()

    def wait(self) -> CheckpointedRun:
        """Returns when the run has ended, with its stream or because it was stopped."""
        return self._done.result()

    def stop(self) -> None:
        """Asks the run to end with a checkpoint."""
        self._stop.set()

    def add(self, query: str | Query, *, at: Any = None, sees: RuleSight = "window") -> Version:
        """A rule more. With `sees` "window" its first matches may begin before it does; with "new" it looks at events
        from its beginning on only."""
        return self._rules.add(query, at=at, sees=sees)

    def remove(self, name: str, *, at: Any = None) -> Version:
        """Ends a rule; every match that ends before is still reported."""
        return self._rules.remove(name, at=at)

    def replace(self, name: str, query: str | Query, *, at: Any = None, sees: RuleSight = "window") -> Version:
        """Ends a rule and begins its next version at the same moment."""
        return self._rules.replace(name, query, at=at, sees=sees)

    def queries(self) -> tuple[RuleState, ...]:
        """The rules that are there now, and those that were removed and are not over yet; matches are those that
        complete checkpoints have published."""
        return self._rules.queries()

    @property
    def events(self) -> int:
        """Events that were fed so far."""
        return self._rules.events

    @property
    def reached_us(self) -> int | None:
        """The time of the last event that was fed; None before the first one."""
        return self._rules.reached_us
