"""Small raw files in the layouts in which Google and Citi Bike publish theirs."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

#: Header of Citi Bike's months until January 2021; from October 2016 to March 2017 it was in title case.
CLASSIC_HEADER = (
    "tripduration",
    "starttime",
    "stoptime",
    "start station id",
    "start station name",
    "start station latitude",
    "start station longitude",
    "end station id",
    "end station name",
    "end station latitude",
    "end station longitude",
    "bikeid",
    "usertype",
    "birth year",
    "gender",
)
TITLE_HEADER = ("Trip Duration", "Start Time", "Stop Time", *(name.title() for name in CLASSIC_HEADER[3:11]))
TITLE_HEADER += ("Bike ID", "User Type", "Birth Year", "Gender")
#: Header since February 2021.
RECENT_HEADER = (
    "ride_id",
    "rideable_type",
    "started_at",
    "ended_at",
    "start_station_name",
    "start_station_id",
    "end_station_name",
    "end_station_id",
    "start_lat",
    "start_lng",
    "end_lat",
    "end_lng",
    "member_casual",
)
START = datetime(2013, 8, 1, 0, 0, 37)


def task_event(ts: int | str, code: int | str = 1, **other: object) -> list[object]:
    """A line of `task_events`; other fields by their name in the trace."""
    values: dict[str, object] = {
        "ts": ts,
        "missing_info": "",
        "job_id": 6_259_584_422,
        "task_index": 0,
        "machine_id": 7_781_209,
        "event_type": code,
        "user": "dHdSdN5N9w0NKfrX=",
        "scheduling_class": 2,
        "priority": 0,
        "cpu_request": 0.006248,
        "memory_request": 0.0636,
        "disk_request": 7.725e-05,
        "different_machines": 0,
    }
    assert other.keys() <= values.keys()
    return list((values | other).values())


def classic_ride(duration: int | str, *, start: str | datetime = START, **other: object) -> dict[str, object]:
    """A ride until January 2021 by the names of `CLASSIC_HEADER`, spaces as underscores."""
    stop = start + timedelta(seconds=duration) if isinstance(start, datetime) and isinstance(duration, int) else start
    values: dict[str, object] = {
        "tripduration": duration,
        "starttime": start,
        "stoptime": stop,
        "start_station_id": 521,
        "start_station_name": "8 Ave & W 31 St",
        "start_station_latitude": 40.75044999,
        "start_station_longitude": -73.99481051,
        "end_station_id": 512,
        "end_station_name": "W 29 St, 9 Ave",
        "end_station_latitude": 40.7500727,
        "end_station_longitude": -73.99839279,
        "bikeid": 16299,
        "usertype": "Subscriber",
        "birth_year": 1974,
        "gender": 1,
    }
    assert other.keys() <= values.keys()
    return values | other


def recent_ride(ride_id: str, start: str, stop: str, **other: object) -> dict[str, object]:
    """A ride since February 2021."""
    values: dict[str, object] = dict.fromkeys(RECENT_HEADER, "") | {
        "ride_id": ride_id,
        "rideable_type": "classic_bike",
        "started_at": start,
        "ended_at": stop,
        "start_station_id": "6432.11",
        "end_station_id": "SYS035",
        "start_lat": 40.75,
        "start_lng": -73.99,
        "end_lat": 40.76,
        "end_lng": -73.98,
        "member_casual": "member",
    }
    assert other.keys() <= values.keys()
    return values | other


def classic_text(rides: Iterable[Mapping[str, Any]], *, header: Sequence[str] = CLASSIC_HEADER) -> str:
    """A month with everything in quotes, as in 2013."""
    return csv_text([header, *(ride.values() for ride in rides)], quoting=csv.QUOTE_ALL)


def recent_text(rides: Iterable[Mapping[str, Any]]) -> str:
    return csv_text([RECENT_HEADER, *(ride.values() for ride in rides)])


def csv_text(rows: Iterable[Iterable[object]], *, quoting: int = csv.QUOTE_MINIMAL) -> str:
    text = io.StringIO()
    csv.writer(text, quoting=quoting, lineterminator="\n").writerows(rows)  # type: ignore[arg-type]
    return text.getvalue()


def write(path: Path, text: str) -> Path:
    """Gzipped if its name says so; directories are made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data = text.encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path
