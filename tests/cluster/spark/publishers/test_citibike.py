"""Citi Bike's rides: both layouts, every way in which times and missing values were written, and the command line."""

from __future__ import annotations

import zipfile
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from decopa.commands.cli import main
from decopa.errors import TraceError
from tests.support.publishers import (
    CLASSIC_HEADER,
    RECENT_HEADER,
    START,
    TITLE_HEADER,
    classic_ride,
    classic_text,
    csv_text,
    recent_ride,
    recent_text,
    write,
)

pytest.importorskip("pyspark")
from cluster.spark.publishers.citibike import LETTERS, TYPE_NAMES, RideClasses, by_columns, citibike_rows, unzip
from cluster.spark.publishers.raw_traces import RawFile, TraceReport, prepared, write_parts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Spark's results come through sockets that are left to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")

DAY = timedelta(days=1)
CUSTOMER = {"usertype": "Customer", "birth_year": "\\N", "gender": 0}
#: A ride of each type at each end of its range: duration, who rides, type.
RIDES: list[tuple[int, dict[str, object], str]] = [
    (60, {"birth_year": 1961}, "ShortO"),
    (69, {"birth_year": 1899}, "ShortO"),
    (70, {"birth_year": "1961.0"}, "LongO"),
    (299, {"birth_year": 1961}, "LongO"),
    (300, {"birth_year": 1961}, "VLongO"),
    (60, {"birth_year": 1962}, "ShortY"),
    (70, {"birth_year": 2005}, "LongY"),
    (86_400, {}, "VLongY"),
    (69, CUSTOMER, "ShortC"),
    (299, {**CUSTOMER, "birth_year": 1950}, "LongC"),
    (300, {**CUSTOMER, "birth_year": ""}, "VLongC"),
    (100, {"birth_year": "NULL", "start_station_id": "NULL", "gender": ""}, "LongY"),
]
BAD_RIDES: list[tuple[dict[str, object], str, bool]] = [
    (classic_ride(100, starttime=""), "ts is missing", True),
    (classic_ride(100, starttime="2013"), "ts is not a time", True),
    (classic_ride(100, starttime="31/12/2013 00:00:00"), "ts is not a time", True),
    (classic_ride(100, stoptime="later"), "stop_ts is not a time", True),
    (classic_ride("1.5e3"), "trip_duration_s is not a whole number in range", True),
    (classic_ride(100, usertype=""), "user_type is missing", True),
    (classic_ride(100, usertype="Dependent"), "user_type is missing", True),
    (classic_ride(100, start_station_latitude="north"), "start_lat is not a number", True),
    (classic_ride(100, end_station_latitude=140.75), "end_lat or end_lon is no place on earth", True),
    (classic_ride(100, bikeid="a"), "bike_id is not a whole number in range", True),
    (classic_ride(100, birth_year="old"), "birth_year is not a whole number in range", True),
    (classic_ride("", stoptime=""), "stop_ts is missing, and trip_duration_s as well", True),
    (classic_ride(-1), "the ride ends before it starts", True),
    (classic_ride(59), "shorter than 60 s", False),
]


class Made(NamedTuple):
    events: list[dict[str, Any]]
    report: TraceReport


@pytest.fixture(scope="module")
def made(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Files of all years together."""
    root = tmp_path_factory.mktemp("months")
    rides = [classic_ride(seconds, bikeid=100 + n, **who) for n, (seconds, who, _) in enumerate(RIDES)]
    first = classic_text([*rides, *(ride for ride, *_ in BAD_RIDES), rides[0]]) + '"100","2013-08-01 00:00:00"\n'
    us_times = [
        classic_ride(80, start="10/1/2016 00:00:05", bikeid=7),
        classic_ride(80, start="1/1/2017 0:01", bikeid=8, start_station_latitude="0.0", start_station_longitude=0),
    ]
    fractions = [classic_ride(80, start="2018-01-01 02:06:17.5410", bikeid=9)]
    recent = [
        recent_ride("A1", "2021-08-01 10:00:00", "2021-08-01 10:01:09"),
        recent_ride(
            "A2", "2024-05-18 10:00:00.900", "2024-05-18 10:01:10.200", member_casual="casual", end_lat="", end_lng=""
        ),
        recent_ride("A2", "2024-05-18 10:00:00.900", "2024-05-18 10:01:10.200", member_casual="casual"),
        recent_ride("A3", "2024-11-03 01:50:00", "2024-11-03 01:10:00"),
        recent_ride("A4", "2024-11-03 01:50:00", ""),
    ]
    months = {
        "201308.csv": first,
        "201610.csv": classic_text(us_times, header=TITLE_HEADER),
        "201801.csv.gz": csv_text([CLASSIC_HEADER, *(ride.values() for ride in fractions)]),
        "202108.csv": "\ufeff" + recent_text(recent).replace("\n", "\r\n"),
        "202109.csv": "",
    }
    files = [RawFile.at(write(root / name, text)) for name, text in months.items()]
    with prepared(citibike_rows(spark, files)) as (events, report):
        return Made([row.asDict() for row in events.collect()], report)


def rides_of(made: Made, year: int) -> list[dict[str, Any]]:
    return [one for one in made.events if one["ts"].year == year]


@pytest.mark.spark
def test_every_row_is_an_event_or_counted_with_its_reason(made: Made) -> None:
    expected: dict[tuple[str, bool], int] = {("the line does not have the right number of fields", True): 1}
    for _, reason, malformed in BAD_RIDES:
        expected[reason, malformed] = expected.get((reason, malformed), 0) + 1
    expected["the ride ends before it starts", True] += 1
    expected["stop_ts is missing, and trip_duration_s as well", True] += 1
    expected["a ride that was read before", False] = 2
    assert {(one.reason, one.malformed): one.rows for one in made.report.rejections} == expected
    assert sum(made.report.events.values()) == len(made.events) == len(RIDES) + 5
    assert made.report.rows == len(made.events) + sum(expected.values())


@pytest.mark.spark
def test_types_follow_from_duration_user_and_birth_year(made: Made) -> None:
    assert [one["type_name"] for one in rides_of(made, 2013)] == [kind for *_, kind in RIDES]
    assert {(one["type"], one["type_name"]) for one in made.events} == set(zip(LETTERS, TYPE_NAMES, strict=True))


@pytest.mark.spark
def test_times_of_all_years_are_local_times_to_the_microsecond(made: Made) -> None:
    assert [one["ts"] for one in made.events if one["ts"].year > 2013] == [
        datetime(2016, 10, 1, 0, 0, 5),
        datetime(2017, 1, 1, 0, 1),
        datetime(2018, 1, 1, 2, 6, 17, 541_000),
        datetime(2021, 8, 1, 10),
        datetime(2024, 5, 18, 10, 0, 0, 900_000),
    ]
    assert [one["id"] for one in made.events] == list(range(1, len(made.events) + 1))
    assert (made.report.first_ts, made.report.last_ts) == (START, datetime(2024, 5, 18, 10, 0, 0, 900_000))


@pytest.mark.spark
def test_rides_since_2021_last_whole_seconds_and_have_members_of_unknown_age(made: Made) -> None:
    (member,), (casual,) = rides_of(made, 2021), rides_of(made, 2024)
    assert (member["type_name"], member["trip_duration_s"], member["user_type"]) == ("ShortY", 69, "Subscriber")
    assert (casual["type_name"], casual["trip_duration_s"], casual["user_type"]) == ("ShortC", 69, "Customer")
    assert (member["start_station_id"], member["end_station_id"]) == ("6432.11", "SYS035")
    assert (casual["ride_id"], casual["bike_id"], casual["end_lat"]) == ("A2", None, None)
    assert rides_of(made, 2016)[0]["start_station_id"] == "521"


@pytest.mark.spark
def test_what_was_assumed_is_counted(made: Made) -> None:
    assert {text.partition(",")[0]: count for text, count in made.report.remarks.items()} == {
        "have a start or end at 0": 1,
        "are rides of subscribers of unknown age": 2,
    }
    (nowhere,) = rides_of(made, 2017)
    assert (nowhere["start_lat"], nowhere["start_lon"]) == (None, None)


@pytest.mark.spark
def test_limits_can_be_set_and_members_of_unknown_age_left_out(spark: SparkSession, tmp_path: Path) -> None:
    rides = [classic_ride(seconds, bikeid=seconds) for seconds in (9, 10, 99, 100, 4_999, 5_000)]
    rides += [classic_ride(10, birth_year=1979), classic_ride(10, bikeid=1, birth_year="")]
    file = RawFile.at(write(tmp_path / "month.csv", classic_text(rides)))
    classes = RideClasses(10, 100, 5_000, young_from=1980, unknown_age="drop")
    with prepared(citibike_rows(spark, [file], classes), strict=True) as (_, report):
        assert {name: count for name, count in report.events.items() if count} == {"A": 3, "B": 2, "C": 1}
        assert {one.reason: one.rows for one in report.rejections} == {
            "shorter than 10 s": 1,
            "a subscriber of unknown age": 1,
        }


@pytest.mark.spark
def test_the_published_rides_come_back_as_they_were(spark: SparkSession, shared: Path, tmp_path: Path) -> None:
    known = pq.read_table(shared / "data" / "citibike.parquet")
    known = known.take(pa.array(range(0, len(known), 5))).combine_chunks()
    rides = [
        classic_ride(
            one["trip_duration_s"],
            start=one["ts"],
            stoptime=one["stop_ts"],
            start_station_id=one["start_station_id"],
            start_station_latitude=one["start_lat"],
            start_station_longitude=one["start_lon"],
            end_station_id=one["end_station_id"],
            end_station_latitude=one["end_lat"],
            end_station_longitude=one["end_lon"],
            bikeid=one["bike_id"],
            usertype=one["user_type"],
            birth_year="\\N" if one["birth_year"] is None else one["birth_year"],
            gender=one["gender"],
        )
        for one in known.to_pylist()
    ]
    assert {one["type"] for one in known.to_pylist()} == set("ABDEGH")
    half = len(rides) // 2
    texts = [classic_text(rides[half:]), classic_text(rides[:half][::-1])]
    files = [RawFile.at(write(tmp_path / f"{number}.csv.gz", text)) for number, text in enumerate(texts)]
    with prepared(citibike_rows(spark, files), strict=True, partitions=2) as (events, report):
        parts = write_parts(events, tmp_path / "events")
    trace = pa.concat_tables(pq.read_table(part) for part in parts)
    assert report.rejections == ()
    assert trace["id"].to_pylist() == list(range(1, len(known) + 1))
    expected = known.drop_columns(["event_id", "bike_trip_no"])
    assert trace.drop_columns(["id"]).schema.remove_metadata() == expected.schema.remove_metadata()
    assert trace.drop_columns(["id"]).equals(expected)


@pytest.mark.spark
def test_the_command_makes_a_trace_from_an_archive_that_a_query_runs_on(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rides = [classic_ride(80, start=START + number * DAY, start_station_id=512) for number in range(3)]
    archive, out = tmp_path / "in" / "201308.zip", tmp_path / "out" / "rides.parquet"
    out.parent.mkdir()
    write(archive, "")
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("201308.csv", classic_text([*rides, classic_ride(80, usertype="")]))
        file.writestr("__MACOSX/._201308.csv", "junk")
    command = ["trace", "citibike", str(archive), "--out", str(out)]

    assert main([*command, "--strict"]) == 2
    assert "201308.zip/201308.csv', row 4: user_type is missing" in capsys.readouterr().err
    assert list(out.parent.iterdir()) == []

    assert main(command) == 0
    shown = capsys.readouterr().err
    assert "malformed    1: user_type is missing (first in" in shown
    assert "E LongY 3" in shown
    assert list(out.parent.iterdir()) == [out]
    assert pq.ParquetFile(out).metadata.row_group(0).column(0).compression == "ZSTD"

    matches = tmp_path / "matches.parquet"
    query = shown.partition("query to try ")[2].replace("10 min", "30 h").strip()
    assert (
        main(["run", query, "--trace", str(out), "--assume-sorted", "--runtime", "local", "--out", str(matches)]) == 0
    )
    assert pq.read_table(matches).select(["a", "b"]).to_pylist() == [{"a": 1, "b": 2}, {"a": 2, "b": 3}]
    capsys.readouterr()
    assert main(command) == 2
    assert "exists; pass --overwrite" in capsys.readouterr().err


def test_bad_input_is_told_before_spark_starts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    month = write(tmp_path / "month.csv", "a,b\n1,2\n")
    out = str(tmp_path / "out.parquet")
    for arguments, message in (
        (["nothing.csv", "--out", out], "no file 'nothing.csv'"),
        ([str(month), "--out", out], "month.csv' has no column 'tripduration'"),
        ([str(write(tmp_path / "void.csv.gz", "")), "--out", out], "void.csv.gz' is empty"),
        ([str(month), "--out", str(tmp_path / "out.csv")], "must end in one of .parquet"),
        ([str(month), "--out", out, "--long-from", "50"], "durations must increase"),
    ):
        assert main(["trace", "citibike", *arguments]) == 2
        error = capsys.readouterr().err
        assert error.startswith("decopa: error: ")
        assert message in error
        assert error.count("\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["month.csv", "void.csv.gz"]


@pytest.mark.parametrize("missing", ["starttime", "usertype", "bikeid", "start station latitude"])
def test_a_month_without_a_column_is_refused(missing: str, tmp_path: Path) -> None:
    header = ",".join(name for name in CLASSIC_HEADER if name != missing)
    with pytest.raises(TraceError, match=rf"month\.csv' has no column '{missing.replace(' ', '')}'"):
        by_columns([RawFile.at(write(tmp_path / "month.csv", header))])


def test_files_are_grouped_by_their_columns_whatever_their_order(tmp_path: Path) -> None:
    texts = [",".join(header) for header in (CLASSIC_HEADER, TITLE_HEADER, CLASSIC_HEADER[::-1], RECENT_HEADER)]
    files = [RawFile.at(write(tmp_path / f"{number}.csv", text)) for number, text in enumerate(texts)]
    assert [len(group) for group in by_columns(files).values()] == [2, 1, 1]


def test_archives_unpack_into_their_directory_alone(tmp_path: Path) -> None:
    inner = tmp_path / "inner.zip"
    with zipfile.ZipFile(inner, "w") as file:
        file.writestr("202401.csv", "january")
        file.writestr("deeper.zip", b"not looked into")
    outer, into = tmp_path / "year.zip", tmp_path / "work" / "files"
    into.mkdir(parents=True)
    with zipfile.ZipFile(outer, "w") as file:
        for name in ("../../escape.csv", "/absolute.csv", "a/b.csv", "a/B.CSV", "__MACOSX/._b.csv", "note.txt"):
            file.writestr(name, name)
        file.write(inner, "year/202401.zip")
    found = unzip(outer, into)
    assert [file.name.removeprefix(f"{outer}/") for file in found] == [
        *("../../escape.csv", "/absolute.csv", "a/b.csv", "a/B.CSV", "year/202401.zip/202401.csv")
    ]
    assert sorted(str(path) for path in into.iterdir()) == sorted(file.path for file in found)
    assert Path(found[-1].path).read_text() == "january"
    assert sorted(path.name for path in tmp_path.rglob("*.csv")) == [f"{number:05}.csv" for number in range(5)]


def test_archives_that_hold_nothing_or_do_not_fit_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, content in (("empty.zip", {}), ("text.zip", {"a.txt": "x"}), ("big.zip", {"a.csv": "x" * 100})):
        with zipfile.ZipFile(tmp_path / name, "w") as file:
            for member, text in content.items():
                file.writestr(member, text)
    for name in ("empty.zip", "text.zip"):
        with pytest.raises(TraceError, match=r"holds no \.csv files"):
            unzip(tmp_path / name, tmp_path)
    with pytest.raises(TraceError, match="cannot unzip"):
        unzip(write(tmp_path / "broken.zip", "no archive"), tmp_path)
    monkeypatch.setattr("shutil.disk_usage", lambda path: type("Usage", (), {"free": 99}))
    with pytest.raises(TraceError, match=r"unpacks to 100 bytes, but .* has room for 99"):
        unzip(tmp_path / "big.zip", tmp_path)
