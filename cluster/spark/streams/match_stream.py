"""MatchStream: a stream of matches that runs, named and behaving like Spark's `StreamingQuery`."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from cluster.change.switches import PlanSwitch
from cluster.spark.streams.stream_log import Progress
from decopa.errors import DecoPaError

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


@dataclass(frozen=True, slots=True)
class StreamStatus:
    """What a stream does right now, as Spark tells it."""

    message: str
    is_data_available: bool
    is_trigger_active: bool


@dataclass(frozen=True, slots=True)
class BatchProgress:
    """What one micro-batch did.

    `num_input_rows` have arrived with it, `late_events` of them too late. Events up to `watermark_us` have been worked
    on, and the `matches` that are certain by then are published. `timestamp` is when the batch began, ISO 8601.
    """

    batch_id: int
    timestamp: str
    num_input_rows: int
    late_events: int
    matches: int
    watermark_us: int | None
    duration_s: float


class Batches(Protocol):
    """What works on the micro-batches."""

    failure: DecoPaError | None
    progress: Progress

    @property
    def recent(self) -> Sequence[BatchProgress]: ...

    @property
    def switches(self) -> Sequence[PlanSwitch]: ...

    def close(self) -> None: ...


class MatchStream:
    """A stream that runs until it is stopped, fails, or its trigger ends it; `matches` is the folder of its results.

    When it has ended, for whatever reason, its actors are gone and their CPUs are free.
    """

    def __init__(self, query: StreamingQuery, batches: Batches, matches: Path) -> None:
        self._query, self._batches, self.matches = query, batches, matches
        self._end = threading.Thread(target=self._close_at_the_end, name="decopa-stream-end", daemon=True)
        self._end.start()

    @property
    def id(self) -> str:
        """The same over all restarts from one checkpoint."""
        return str(self._query.id)

    @property
    def run_id(self) -> str:
        """Another one after every start."""
        return str(self._query.runId)

    @property
    def name(self) -> str | None:
        """What `decopa.stream(name=...)` called it."""
        return self._query.name

    @property
    def is_active(self) -> bool:
        """Whether it runs: it was not stopped and has neither failed nor come to its end."""
        return bool(self._query.isActive)

    @property
    def status(self) -> StreamStatus:
        told = self._query.status
        return StreamStatus(told["message"], told["isDataAvailable"], told["isTriggerActive"])

    @property
    def progress(self) -> Progress:
        """What is done so far, over all restarts."""
        return self._batches.progress

    @property
    def last_progress(self) -> BatchProgress | None:
        """What the last micro-batch of this run did; None before the first."""
        recent = self.recent_progress
        return recent[-1] if recent else None

    @property
    def recent_progress(self) -> tuple[BatchProgress, ...]:
        """What the last micro-batches of this run did, up to 100 of them, oldest first."""
        return tuple(self._batches.recent)

    @property
    def switches(self) -> tuple[PlanSwitch, ...]:
        """The changes of the plan in this run, and those that were given up; none without `adapt`."""
        return tuple(self._batches.switches)

    def exception(self) -> DecoPaError | None:
        """What made the stream fail; None while it runs, and if it ended as it should."""
        if self._batches.failure is not None:
            return self._batches.failure
        told = self._query.exception()
        return None if told is None else DecoPaError(f"the stream has failed: {_first_line(told)}")

    def process_all_available(self) -> None:
        """Returns when everything that has arrived is done: its matches, as far as they are certain, are published."""
        self._through(self._query.processAllAvailable)

    def await_termination(self, timeout_s: float | None = None) -> bool:
        """Waits for the end. True when the stream has ended, False if that has not come within `timeout_s`; raises
        what made it fail."""
        if timeout_s is None:
            self._through(self._query.awaitTermination)
            ended = True
        else:
            wait: Any = self._query.awaitTermination  # takes fractions of a second, though its stubs do not say so
            ended = bool(self._through(lambda: wait(timeout_s)))
        if ended:
            self._end.join()
        return ended

    def stop(self) -> None:
        """Ends the stream; what is done stays, and the same call to `stream` goes on from there."""
        self._query.stop()
        self._batches.close()

    def __enter__(self) -> MatchStream:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def _close_at_the_end(self) -> None:
        # Whatever ended the stream, a failure or the end of its Spark, is told by who asks for it.
        with contextlib.suppress(Exception):
            self._query.awaitTermination()
        self._batches.close()

    def _through(self, wait: Callable[[], Any]) -> Any:
        try:
            return wait()
        except Exception as err:
            # Spark wraps what went wrong in a batch into its own words; tell ours.
            if self._batches.failure is not None:
                self._end.join()
                raise self._batches.failure from None
            raise DecoPaError(f"the stream has failed: {_first_line(err)}") from err


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
