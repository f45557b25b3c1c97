"""Synthetic bike rides, in the likeness of New York's Citi Bike: who rode when from where to where, and for how long.

An event is a ride, at the time it began: `id`, `ts`, `type`, `duration` (s), `user` (Subscriber or Customer), `bike`,
`start_station`, `lat`, `lon` (of the start), `end_station`, `end_lat`, `end_lon`. Types are those of the DecoPa
authors: Short (60 to 69 s), Long (70 to 299 s) and VLong rides of Young and Old subscribers and of Customers, as often
as they count them. Rides follow the hours of the day; subscribers commute on weekdays, customers ride on
afternoons and weekends. Stations, people and bikes are made up.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from decopa.errors import TraceError

#: Rides per day, by the rates of the authors' planner for August 2013.
RIDES_PER_DAY = {
    "ShortO": 4.5, "LongO": 348.0, "VLongO": 2854.0,
    "ShortY": 35.0, "LongY": 3120.0, "VLongY": 20833.0,
    "ShortC": 6.0, "LongC": 244.0, "VLongC": 5950.0,
}  # fmt: skip
TYPES = tuple(RIDES_PER_DAY)
USERS = ("Subscriber", "Customer")
STATIONS = 330
BIKES = 6_000
MAX_DAYS = 10_000
#: 2013-08-01, a Thursday, local time.
FIRST_DAY_US = 1_375_315_200_000_000
_DAY_US = 86_400_000_000
_WEEKEND = (5, 6)
_FIRST_WEEKDAY = 3
_DURATIONS_S = {"Short": (60, 70), "Long": (70, 300), "VLong": (300, 5_400)}
_SPEED_M_S = 2.6
#: The centre of the city, how long and wide it is, and how far it is turned from the north.
_CENTRE, _LENGTH_KM, _WIDTH_KM, _TURN_RAD = (40.727, -73.985), 10.0, 3.2, 0.5
_KM_PER_DEGREE = 111.2

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        "ts": pa.timestamp("us"),
        "type": pa.dictionary(pa.int32(), pa.string()),
        "duration": pa.int64(),
        "user": pa.dictionary(pa.int32(), pa.string()),
        "bike": pa.int64(),
        "start_station": pa.int64(),
        "lat": pa.float64(),
        "lon": pa.float64(),
        "end_station": pa.int64(),
        "end_lat": pa.float64(),
        "end_lon": pa.float64(),
    }
)


@dataclass(frozen=True)
class RideSpec:
    """What a trace of rides looks like; the same spec is always the same trace, and fewer days are its beginning.

    `busyness` multiplies how many rides there are.
    """

    days: int
    busyness: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.days <= MAX_DAYS:
            raise TraceError(f"days must be 1 to {MAX_DAYS:,}, got {self.days}")
        if not 0 < self.busyness <= 1_000:
            raise TraceError(f"the busyness must be above 0 and at most 1,000, got {self.busyness:g}")
        if self.seed < 0:
            raise TraceError(f"seed must be at least 0, got {self.seed}")

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The trace in time order, a day at a time."""
        rides = 0
        for day in range(self.days):
            batch = self._day(day, rides)
            rides += batch.num_rows
            yield batch

    def table(self) -> pa.Table:
        return pa.Table.from_batches(self.batches(), SCHEMA)

    @cached_property
    def _city(self) -> _City:
        return _City(np.random.default_rng([self.seed, MAX_DAYS]))

    def _day(self, day: int, first_id: int) -> pa.RecordBatch:
        rng = np.random.default_rng([self.seed, day])
        weekend = (day + _FIRST_WEEKDAY) % 7 in _WEEKEND
        counts = rng.poisson([self.busyness * rate for rate in RIDES_PER_DAY.values()])
        types = np.repeat(np.arange(len(TYPES), dtype=np.int32), counts)
        customer = np.array([name.endswith("C") for name in TYPES])[types]
        hours = np.where(customer, *(_hours(rng, len(types), _RHYTHMS[who, weekend]) for who in (True, False)))
        ts = FIRST_DAY_US + day * _DAY_US + (hours * 3.6e9).astype(np.int64)
        order = np.argsort(ts, kind="stable")
        ts, types, customer = ts[order], types[order], customer[order]
        durations = self._durations(rng, types)
        start, end = self._city.trips(rng, customer, durations)
        city = self._city
        columns = [
            pa.array(np.arange(first_id, first_id + len(ts))),
            pa.array(ts).cast(SCHEMA.field("ts").type),
            pa.DictionaryArray.from_arrays(types, list(TYPES)),
            pa.array(durations),
            pa.DictionaryArray.from_arrays(customer.astype(np.int32), list(USERS)),
            pa.array(rng.integers(0, BIKES, len(ts))),
            *(pa.array(column) for column in (start, city.lat[start], city.lon[start])),
            *(pa.array(column) for column in (end, city.lat[end], city.lon[end])),
        ]
        return pa.record_batch(columns, schema=SCHEMA)

    def _durations(self, rng: np.random.Generator, types: npt.NDArray[np.int32]) -> Ints:
        """Uniform for Short and Long, mostly around a quarter of an hour for VLong."""
        limits = np.array([_DURATIONS_S[name[:-1]] for name in TYPES])[types]
        evenly = rng.integers(limits[:, 0], limits[:, 1])
        longer = np.clip(rng.lognormal(np.log(840.0), 0.5, len(types)), limits[:, 0], limits[:, 1] - 1)
        return np.where(limits[:, 0] >= _DURATIONS_S["VLong"][0], longer, evenly).astype(np.int64)


class _City:
    """Stations along a turned rectangle, some busier than others."""

    def __init__(self, rng: np.random.Generator) -> None:
        along = (rng.random(STATIONS) - 0.5) * _LENGTH_KM
        across = (rng.random(STATIONS) - 0.5) * _WIDTH_KM
        north = along * np.cos(_TURN_RAD) - across * np.sin(_TURN_RAD)
        east = along * np.sin(_TURN_RAD) + across * np.cos(_TURN_RAD)
        self.lat: Floats = np.round(_CENTRE[0] + north / _KM_PER_DEGREE, 6)
        self.lon: Floats = np.round(_CENTRE[1] + east / (_KM_PER_DEGREE * np.cos(np.radians(_CENTRE[0]))), 6)
        self._distances_m = 1_000 * np.hypot(north[:, None] - north, east[:, None] - east)
        shares = rng.lognormal(0.0, 0.8, (2, STATIONS))
        self._shares = shares / shares.sum(axis=1, keepdims=True)

    def trips(self, rng: np.random.Generator, customer: npt.NDArray[np.bool_], durations: Ints) -> tuple[Ints, Ints]:
        """Start and end: of a few stations, the one at the distance that the duration suggests."""
        size = len(durations)
        drawn = [rng.choice(STATIONS, size, p=shares) for shares in self._shares]
        start = np.where(customer, drawn[1], drawn[0])
        some = rng.integers(0, STATIONS, (size, 12))
        some[:, 0] = start  # a round trip is always possible
        away = durations * _SPEED_M_S * rng.uniform(0.2, 1.0, size)
        fits = np.argmin(np.abs(self._distances_m[start[:, None], some] - away[:, None]), axis=1)
        return start, some[np.arange(size), fits]


def _hours(rng: np.random.Generator, size: int, weights: tuple[float, ...]) -> Floats:
    """Times of day in hours, by weights for each hour."""
    shares = np.array(weights) / sum(weights)
    return rng.choice(24, size, p=shares) + rng.random(size)


#: Weight of each hour of the day, by (customer, weekend).
_RHYTHMS = {
    (False, False): (2, 1, 1, 1, 1, 3, 9, 20, 32, 20, 12, 12, 14, 14, 14, 16, 22, 36, 34, 22, 15, 11, 8, 4),
    (False, True): (6, 4, 3, 2, 1, 2, 3, 6, 10, 14, 18, 20, 22, 22, 22, 22, 22, 20, 18, 15, 12, 9, 8, 6),
    (True, False): (2, 1, 1, 1, 1, 1, 2, 4, 7, 11, 15, 19, 22, 23, 23, 22, 21, 20, 18, 14, 10, 7, 5, 3),
    (True, True): (3, 2, 2, 1, 1, 1, 1, 3, 7, 14, 20, 25, 28, 30, 30, 29, 27, 23, 18, 13, 9, 6, 5, 4),
}


#: Four rides that began at least 3 km from each other: a short one, a customer's, then two in any order.
EXAMPLE_QUERY = (
    "PATTERN SEQ(ShortY sy, LongC lc, AND(ShortO so, LongO lo)) WHERE FORALL (i, j) IN (sy, lc, so, lo): "
    "dist_km(i.lat, i.lon, j.lat, j.lon) >= 3 WITHIN 24 h"
)
