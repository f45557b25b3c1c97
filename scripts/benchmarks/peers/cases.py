"""The traces and queries that all contenders run.

Times are microseconds, ids row numbers in time order. The windows of the generated traces are chosen for a number of
matches per event; a stream twice as fast with half the window is the same work for everyone, so the growth over the
window with three inequalities is a growth over the rate, too, and the growth over the rate takes equal keys.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from scripts.benchmarks.peers.query import Comparison, SequenceQuery
from scripts.benchmarks.single_core.workload import make_events

HEADLINE = "window-1"
WINDOW_US = 126_000  # about 16 matches an event at 1,000 events a second
KEY_WINDOW_US = 9_600_000  # about 2 matches an event at 1,000 events a second
THREE_INEQUALITIES: tuple[Comparison, ...] = (
    ("a", "x", "<", "b", "x"),
    ("b", "x", "<", "c", "x"),
    ("a", "y", "<", "c", "y"),
)
#: (name, how events follow, whether they have equal keys)
NEXT_CASES = (("next", "next", False), ("next-keyed", "next", True), ("contiguous", "contiguous", False))
NEXT_WINDOW_US = 240_000  # 80 candidates of each type at 1,000 events a second
EQUAL_KEYS: tuple[Comparison, ...] = (
    ("a", "k", "=", "b", "k"),
    ("b", "k", "=", "c", "k"),
    ("c", "k", "=", "d", "k"),
)


class Absent(Exception):
    """The case's trace is not here; the text says what is missing."""


@dataclass(frozen=True)
class Case:
    """`load` makes the trace of about as many events as it is told (real ones have the length they have).

    `axis` is the value of what grows within the group, with its unit in the group's name.
    """

    name: str
    group: str
    title: str
    query: SequenceQuery
    load: Callable[[int], pa.Table]
    axis: float | None = None


def catalogue(data: Path) -> dict[str, Case]:
    """All cases by name; real traces are files in the folder `data`."""
    cases = [
        Case(
            f"window-{part}",
            "window",
            f"three inequalities, {WINDOW_US / part / 1000:g} ms window, 1,000 events/s",
            SequenceQuery((("a", "A"), ("b", "B"), ("c", "C")), THREE_INEQUALITIES, WINDOW_US // part),
            lambda events: make_events("seq3", events=events, seed=1),
            WINDOW_US / part / 1000,
        )
        for part in (1, 2, 4)
    ]
    cases += [_keyed(rate) for rate in (500, 1000, 2000)]
    cases += [_following(name, way, keyed=keyed) for name, way, keyed in NEXT_CASES]
    cases.append(
        Case(
            "google",
            "google",
            "Google cluster trace: an eviction, a smaller task finishes, a smaller one fails, within 30 s",
            SequenceQuery(
                (("c", "C"), ("e", "E"), ("d", "D")),
                (
                    ("c", "memory_request", ">=", "e", "memory_request"),
                    ("c", "cpu_request", ">=", "e", "cpu_request"),
                    ("e", "memory_request", ">=", "d", "memory_request"),
                ),
                30_000_000,
            ),
            lambda _: google(data),
        )
    )
    cases.append(
        Case(
            "citibike",
            "citibike",
            "Citi Bike: three rides, each from the station where the one before ended, within 24 h",
            SequenceQuery(
                (("y", "E"), ("o", "B"), ("c", "H")),
                (
                    ("y", "end_station_id", "=", "o", "start_station_id"),
                    ("o", "end_station_id", "=", "c", "start_station_id"),
                ),
                24 * 3_600_000_000,
            ),
            lambda _: citibike(data),
        )
    )
    return {case.name: case for case in cases}


def _keyed(rate: int) -> Case:
    positions = (("a", "A"), ("b", "B"), ("c", "C"), ("d", "D"))
    return Case(
        f"rate-{rate}",
        "rate",
        f"equal keys, {KEY_WINDOW_US / 1e6:g} s window, {rate:,} events/s",
        SequenceQuery(positions, EQUAL_KEYS, KEY_WINDOW_US, key="k", buckets_per_window=2),
        lambda events: make_events("key4", events=events, seed=1, mean_gap_us=1e6 / rate),
        rate,
    )


def _following(name: str, way: str, *, keyed: bool) -> Case:
    """NEXT(A, B, C) over distinct times, where each first event has one match at most."""
    comparisons = EQUAL_KEYS[:2] if keyed else ()
    title = {"next": "the next B, then the next C", "contiguous": "A, B and C with nothing in between"}[way]
    return Case(
        name,
        "next",
        f"{title}{', equal keys' if keyed else ''}, {NEXT_WINDOW_US / 1000:g} ms window, 1,000 events/s",
        SequenceQuery(
            (("a", "A"), ("b", "B"), ("c", "C")),
            comparisons,
            NEXT_WINDOW_US,
            key="k" if keyed else None,
            following=way,
        ),
        next_events,
    )


def next_events(events: int) -> pa.Table:
    """Three types equally often, 100 keys, one event a millisecond: no two share a time."""
    rng = np.random.default_rng(1)
    codes = rng.integers(0, 3, events).astype(np.int32)
    return pa.table(
        {
            "id": np.arange(events),
            "ts": np.arange(events) * 1000,
            "type": pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(["A", "B", "C"])),
            "k": rng.integers(0, 100, events),
        }
    )


def google(data: Path) -> pa.Table:
    """The longer of the two excerpts."""
    trace = _read(data / "google_cluster.parquet")
    trace = trace.filter(pc.equal(trace.column("segment"), 1))
    return _renamed(trace, {"memory_request": "memory_request", "cpu_request": "cpu_request"})


def citibike(data: Path) -> pa.Table:
    stations = ("start_station_id", "end_station_id")
    return _renamed(_read(data / "citibike.parquet"), {name: name for name in stations})


def _read(path: Path) -> pa.Table:
    if not path.is_file():
        raise Absent(f"{path.name} is not in {path.parent.name}/; name its folder with --data")
    return pq.read_table(path)


def _renamed(trace: pa.Table, attributes: Mapping[str, str]) -> pa.Table:
    """Time order is that of the file."""
    columns = {
        "id": pa.array(np.arange(trace.num_rows, dtype=np.int64)),
        "ts": trace.column("ts").cast(pa.int64()),
        "type": trace.column("type").combine_chunks().dictionary_encode(),
    }
    return pa.table(columns | {name: trace.column(source) for name, source in attributes.items()})
