"""Synthetic bike rides: seeded, in order, and in the likeness of what they stand for."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from decopa.errors import TraceError
from decopa.language.text.parser import parse
from decopa.query.binding import bind
from decopa.traces.rides import EXAMPLE_QUERY, RIDES_PER_DAY, SCHEMA, TYPES, RideSpec
from shuffler.source.trace import open_trace

WEEK = RideSpec(days=7, seed=1).table()


def test_the_same_seed_is_the_same_trace_and_fewer_days_are_its_beginning() -> None:
    assert RideSpec(days=7, seed=1).table().equals(WEEK)
    day = RideSpec(days=1, seed=1).table()
    assert WEEK.slice(0, day.num_rows).equals(day)
    assert not RideSpec(days=1, seed=2).table().equals(day)


def test_a_trace_of_rides_can_be_opened_and_queried() -> None:
    source = open_trace(WEEK, assume_sorted=True)
    assert WEEK.schema == SCHEMA
    assert source.row_count == WEEK.num_rows
    assert source.schema.event_types == set(TYPES)
    bind(parse(EXAMPLE_QUERY), source.schema)


@pytest.mark.parametrize("name", TYPES)
def test_types_are_as_frequent_as_they_should_be_and_durations_fit_them(name: str) -> None:
    rides = WEEK.filter(pc.equal(WEEK.column("type").cast(pa.string()), name))
    expected = 7 * RIDES_PER_DAY[name]
    assert abs(rides.num_rows - expected) < 6 * expected**0.5
    durations = rides.column("duration").to_numpy()
    low, high = {"Short": (60, 69), "Long": (70, 299), "VLong": (300, 5_400)}[name[:-1]]
    assert low <= durations.min() <= durations.max() <= high
    users = set(rides.column("user").cast(pa.string()).to_pylist())
    assert users == {"Customer" if name.endswith("C") else "Subscriber"}


def test_days_have_a_rhythm_and_longer_rides_lead_farther() -> None:
    hours = WEEK.column("ts").cast(pa.int64()).to_numpy() // 3_600_000_000 % 24
    counts = np.bincount(hours, minlength=24)
    assert counts[17] > 5 * counts[4]
    lat, lon, end_lat, end_lon = (WEEK.column(name).to_numpy() for name in ("lat", "lon", "end_lat", "end_lon"))
    away = np.hypot(end_lat - lat, end_lon - lon)
    durations = WEEK.column("duration").to_numpy()
    assert away[durations > 900].mean() > 2 * away[durations < 120].mean()


@pytest.mark.parametrize(
    ("options", "message"),
    [({"days": 0}, "days must be"), ({"days": 1, "busyness": 0.0}, "busyness"), ({"days": 1, "seed": -1}, "seed")],
)
def test_impossible_rides_are_refused(options: dict[str, float], message: str) -> None:
    with pytest.raises(TraceError, match=message):
        RideSpec(**options)  # type: ignore[arg-type]  # what the command line hands over


def test_busier_streets_have_more_rides() -> None:
    quiet = RideSpec(days=1, busyness=0.1).table()
    assert 0.05 < quiet.num_rows / RideSpec(days=1).table().num_rows < 0.2
