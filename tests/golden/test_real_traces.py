"""Real traces: every strategy finds the same matches, and a slice of them is what the referee finds."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import decopa
from decopa.choices import STRATEGIES
from shuffler.source.trace import TraceColumns
from tests.support.brute_force import brute_force_by_window, canonical
from tests.support.engine import matches_of

COLUMNS = TraceColumns(id="event_id")
RIDES = """PATTERN SEQ(D sy, AND(H lc, B lo))
WHERE FORALL (i, j) IN (sy, lc, lo): dist_km(i.start_lat, i.start_lon, j.start_lat, j.start_lon) >= 5
  AND sy.gender = lo.gender
WITHIN 2 h RETURN lc.user_type"""
TASKS = """PATTERN SEQ(C c, NOT(I i), KL(D d), B b)
WHERE d.job_id = b.job_id AND c.cpu_request >= b.cpu_request
WITHIN 3 s"""


def events_of(shared: Path, name: str, rows: int | None = None) -> pa.Table:
    table = pq.read_table(shared / "data" / f"{name}.parquet")
    return table if rows is None else table.slice(0, rows)


@pytest.mark.slow
@pytest.mark.parametrize(("trace", "text"), [("citibike_small", RIDES), ("google_cluster_small", TASKS)])
def test_every_strategy_finds_the_same_matches_in_a_real_trace(shared: Path, trace: str, text: str) -> None:
    events = events_of(shared, trace)
    tables = {
        strategy: decopa.run(
            text, events, strategy=strategy, units=5, runtime="local", trace=decopa.TraceOptions(columns=COLUMNS)
        )
        for strategy in STRATEGIES
    }
    first = tables["left-deep"]
    assert first.num_rows > 0
    for strategy, table in tables.items():
        assert table.equals(first), strategy


@pytest.mark.slow
@pytest.mark.parametrize(("trace", "text"), [("citibike_small", RIDES), ("google_cluster_small", TASKS)])
def test_a_part_of_a_real_trace_gives_what_brute_force_gives(shared: Path, trace: str, text: str) -> None:
    query = decopa.parse(text)
    events = events_of(shared, trace, 2_000)
    rows = [
        {**row, "id": row["event_id"], "ts": moment}
        for row, moment in zip(events.to_pylist(), microseconds(events), strict=True)
    ]
    expected = brute_force_by_window(query, rows)
    found = decopa.run(query, events, trace=decopa.TraceOptions(columns=COLUMNS))
    assert sorted(map(canonical, matches_of(query, found))) == sorted(map(canonical, expected))


def microseconds(events: pa.Table) -> list[int]:
    times = events.column("ts")
    return (
        times.cast(pa.timestamp("us")).cast(pa.int64()).to_pylist() if times.type != pa.int64() else times.to_pylist()
    )
