"""Live runs on Ray: a pause pushes matches on, a stop ends in order, what is handed out is what a stored run finds."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterator

import pyarrow as pa
import pytest

import decopa
from actors.columnar.jit import interpreted
from cluster.options import RayOptions
from decopa.errors import TraceError
from tests.cluster.test_ray_runtime import WORKLOAD, events

pytestmark = pytest.mark.ray
__all__ = ["events"]

SCHEMA = pa.schema([("id", pa.int64()), ("ts", pa.int64()), ("type", pa.string())])
#: A NOT between two events is decided when every shuffler has passed the later one, also one that had nothing to do.
QUERY = "PATTERN SEQ(A a, NOT(C c), B b) WITHIN 1 s"


@pytest.fixture(autouse=True)
def _interpreted(ray_cluster: None) -> Iterator[None]:
    with interpreted():
        yield


class Arriving:
    """A stream that a test feeds; it goes on until it is closed."""

    def __init__(self) -> None:
        self._batches: queue.Queue[pa.RecordBatch | None] = queue.Queue()
        self._batches.put(pa.RecordBatch.from_pylist([], schema=SCHEMA))

    def send(self, *events: tuple[int, str]) -> None:
        rows = [{"id": ts, "ts": ts, "type": kind} for ts, kind in events]
        self._batches.put(pa.RecordBatch.from_pylist(rows, schema=SCHEMA))

    def close(self) -> None:
        self._batches.put(None)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        while (batch := self._batches.get()) is not None:
            yield batch


@pytest.mark.parametrize("shufflers", [1, 2])
def test_a_pause_pushes_every_match_on(shufflers: int) -> None:
    stream = Arriving()
    run = decopa.watch(QUERY, stream, runtime="ray", units=2, ray=RayOptions(shufflers=shufflers))
    matches = iter(run)
    waited = []
    for ts in range(0, 400, 10):
        stream.send((ts, "A"))
        stream.send((ts + 1, "B"))
        sent = time.monotonic()
        found = next(matches)
        while found["b"][-1].as_py() != ts + 1:  # earlier A events pair with this B, too
            found = next(matches)
        while found["a"].to_pylist()[-1] != ts:
            found = next(matches)
        waited.append(time.monotonic() - sent)
    assert sorted(waited)[len(waited) // 2] < 0.5  # without the push, as long as the pause lasts: for ever
    run.stop()
    assert list(matches) == []
    assert not run.summary().ended and run.summary().events == 80


def test_batches_together_are_what_a_stored_run_finds(events: pa.Table) -> None:
    parts = [events.slice(start, 100).combine_chunks().to_batches()[0] for start in range(0, events.num_rows, 100)]
    run = decopa.watch(WORKLOAD, iter(parts), runtime="ray", units=2, ray=RayOptions(shufflers=2))
    found = [row for table in run for row in table.to_pylist()]
    expected = decopa.run(WORKLOAD, events).to_pylist()
    assert sorted(map(repr, found)) == sorted(map(repr, expected))
    summary = run.summary()
    assert summary.ended and summary.events == events.num_rows and summary.latency.count
    assert sum(summary.matches.values()) == len(expected)


def test_a_failure_of_the_stream_or_of_a_unit_ends_the_run_with_its_cause() -> None:
    stream = Arriving()
    stream.send((5, "A"))
    stream.send((1, "B"))
    with pytest.raises(TraceError, match="earlier than the row before"):
        list(decopa.watch(QUERY, stream, runtime="ray"))


def test_a_loop_that_is_left_ends_actors_and_threads() -> None:
    stream = Arriving()
    stream.send((1, "A"), (2, "B"))
    with decopa.watch(QUERY, stream, runtime="ray") as run:
        for _ in run:
            break
    stream.close()
    deadline = time.monotonic() + 10
    while any("decopa-" in thread.name for thread in threading.enumerate()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not [thread.name for thread in threading.enumerate() if "decopa-" in thread.name]
