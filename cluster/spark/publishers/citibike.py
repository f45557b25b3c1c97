"""The rides of New York's Citi Bike, as a trace.

The publisher's files have one of two layouts, told apart by their headers: that of 2013 to January 2021 (with the
birth year and without the ride's id; names in lower or title case, with spaces), and the one since then (without birth
year, gender and bike). They come as .csv in .zip, a year's archive may hold the archives of its months.

Rides have nine types, as in the DecoPa paper: by duration (Short, Long, VLong) and by rider (Old and Young
subscribers, Customers). The limits are those that the authors' own rows show, which are not those of their appendix.
"""

from __future__ import annotations

import csv
import re
import shutil
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from cluster.spark.publishers.raw_traces import (
    PLACE,
    REASON,
    Check,
    CheckedRows,
    Field,
    RawFile,
    field_count,
    filled,
    named,
    raw_name,
    read_rows,
    typed,
    with_reasons,
)
from decopa.choices import UnknownAge
from decopa.errors import TraceError, did_you_mean

LETTERS = tuple("ABCDEFGHI")
#: In the order of the letters.
TYPE_NAMES = tuple(length + rider for rider in "OYC" for length in ("Short", "Long", "VLong"))
SUFFIXES = (".csv", ".csv.gz", ".zip")

#: What headers are called, without case, spaces and underscores, and what they are called here.
CLASSIC = {
    "tripduration": "trip_duration_s",
    "starttime": "ts",
    "stoptime": "stop_ts",
    "startstationid": "start_station_id",
    "startstationlatitude": "start_lat",
    "startstationlongitude": "start_lon",
    "endstationid": "end_station_id",
    "endstationlatitude": "end_lat",
    "endstationlongitude": "end_lon",
    "bikeid": "bike_id",
    "usertype": "user_type",
    "birthyear": "birth_year",
    "gender": "gender",
}
SINCE_2021 = {
    "rideid": "ride_id",
    "rideabletype": "rideable_type",
    "startedat": "ts",
    "endedat": "stop_ts",
    "startstationid": "start_station_id",
    "startlat": "start_lat",
    "startlng": "start_lon",
    "endstationid": "end_station_id",
    "endlat": "end_lat",
    "endlng": "end_lon",
    "membercasual": "user_type",
}
_COLUMNS = tuple(dict.fromkeys((*CLASSIC.values(), *SINCE_2021.values())))
#: What stood for a missing value in one year or another.
_MISSING = ("NULL", "\\N", "NaN")
_POSITIONS = (("start_lat", "start_lon"), ("end_lat", "end_lon"))
#: 2013-08-01 00:00:00, since 2018 with fractions; 8/1/2014 00:00:05, in some months of 2015 without seconds.
_ISO_TIME = r"^(\d{4})-(\d{1,2})-(\d{1,2})[ T](\d{1,2}):(\d{2})(:\d{2})?(\.\d+)?$"
_US_TIME = r"^(\d{1,2})/(\d{1,2})/(\d{4}) (\d{1,2}):(\d{2})(:\d{2})?(\.\d+)?$"


@dataclass(frozen=True, slots=True)
class RideClasses:
    """The limits between types: shortest durations in seconds, first birth year of Young, what members without one are.

    Files since 2021 tell nobody's birth year, so all their members are of unknown age.
    """

    short_from_s: int = 60
    long_from_s: int = 70
    very_long_from_s: int = 300
    young_from: int = 1962
    unknown_age: UnknownAge = "young"

    def __post_init__(self) -> None:
        if not 0 <= self.short_from_s < self.long_from_s < self.very_long_from_s:
            raise TraceError(
                f"durations must increase from Short to Long to VLong, got {self.short_from_s}, {self.long_from_s} and "
                f"{self.very_long_from_s} s"
            )


DEFAULT_CLASSES = RideClasses()


def citibike_rows(spark: SparkSession, files: Sequence[RawFile], classes: RideClasses = DEFAULT_CLASSES) -> CheckedRows:
    """The rows of ride files of either layout, for `prepared`.

    A ride that comes again (same bike and start, or same ride id) is an event only once. Station ids are whole numbers
    unless there are files of the layout since 2021, which has other ids. A position of 0, 0 is taken for missing.
    """
    groups = by_columns(files)
    known = {name for columns in groups for name in columns}
    fields = {field.name: field for field in _fields(station_kind="string" if "ride_id" in known else "int")}
    rows = typed(_cleaned(_read(spark, groups)), fields.values())
    value = {name: field.value for name, field in fields.items()}
    duration = F.coalesce(value["trip_duration_s"], _whole_seconds(value["ts"], value["stop_ts"]))
    subscriber = value["user_type"] == "Subscriber"
    unknown_age = subscriber & value["birth_year"].isNull()
    young = F.coalesce(value["birth_year"] >= classes.young_from, F.lit(classes.unknown_age == "young"))
    rider = F.when(~subscriber, 2).when(young, 1).otherwise(0)
    length = F.when(duration < classes.long_from_s, 0).when(duration < classes.very_long_from_s, 1).otherwise(2)
    kind = rider * 3 + length
    columns = {
        "ts": value["ts"],
        "type": named(kind, LETTERS),
        "type_name": named(kind, TYPE_NAMES),
        "trip_duration_s": duration.cast("int"),
        **{name: value[name] for name in _COLUMNS if name in known and name not in ("ts", "trip_duration_s")},
    }
    nowhere = F.lit(False)
    for names in _POSITIONS:
        at_zero = F.coalesce((value[names[0]] == 0) & (value[names[1]] == 0), F.lit(False))
        columns |= {name: F.when(~at_zero, value[name]) for name in names}
        nowhere = nowhere | at_zero
    checks = [
        field_count(),
        *(check for field in fields.values() for check in field.checks),
        *(Check(f"{lat} or {lon} is no place on earth", _off_earth(value[lat], value[lon])) for lat, lon in _POSITIONS),
        Check("stop_ts is missing, and trip_duration_s as well", duration.isNull()),
        Check("the ride ends before it starts", duration < 0),
        Check(f"shorter than {classes.short_from_s} s", duration < classes.short_from_s, malformed=False),
    ]
    remarks = {"have a start or end at 0, 0, which was taken for missing": nowhere}
    if classes.unknown_age == "drop":
        checks.append(Check("a subscriber of unknown age", unknown_age, malformed=False))
    else:
        remarks[f"are rides of subscribers of unknown age, taken for {classes.unknown_age} (--unknown-age)"] = (
            unknown_age
        )
    checks.append(Check("a ride that was read before", F.lit(False), malformed=False))
    checked = with_reasons(rows, columns, checks, list(remarks.values()))
    identity = [name for name in ("bike_id", "ride_id") if name in known]
    return CheckedRows(
        rows=_without_repeats(checked, identity, reason=len(checks) - 1),
        files=[file for group in groups.values() for file in group],
        checks=checks,
        remarks=list(remarks),
        types=LETTERS,
        order=("ts", *identity),
    )


# ------------------------------------------------------------------ files


def unzip(archive: Path, into: Path) -> list[RawFile]:
    """The .csv files of an archive, also those in archives within it, unpacked into a directory.

    Nothing is written outside that directory, whatever the names in the archive; TraceError if the disk has no room.
    """
    found: list[RawFile] = []
    try:
        with zipfile.ZipFile(archive) as opened:
            _unzip(opened, str(archive), into, found, nested=True)
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, OSError, EOFError) as err:
        raise TraceError(f"cannot unzip '{archive}': {err}; get it again, or unpack it yourself") from err
    if not found:
        raise TraceError(f"'{archive}' holds no .csv files; is it the right archive?")
    return found


def _unzip(opened: zipfile.ZipFile, name: str, into: Path, found: list[RawFile], *, nested: bool) -> None:
    members = [member for member in opened.infolist() if not member.is_dir() and not _is_fork(member.filename)]
    tables = [member for member in members if member.filename.lower().endswith(".csv")]
    needed, free = sum(member.file_size for member in tables), shutil.disk_usage(into).free
    if needed > free:
        raise TraceError(f"'{name}' unpacks to {needed:,} bytes, but '{into}' has room for {free:,}; free some space")
    for member in tables:
        # A name of our own: that of the member may lead anywhere.
        target = into / f"{len(found):05}.csv"
        with opened.open(member) as source, target.open("xb") as file:
            shutil.copyfileobj(source, file, 2**20)
        found.append(RawFile.at(target, f"{name}/{member.filename}"))
    for member in members if nested else ():
        if member.filename.lower().endswith(".zip"):
            with opened.open(member) as inner, zipfile.ZipFile(inner) as archive:
                _unzip(archive, f"{name}/{member.filename}", into, found, nested=False)


def _is_fork(member: str) -> bool:
    """Whether it is one of those that macOS adds to archives, under the names of the real files."""
    return "__MACOSX" in Path(member).parts or Path(member).name.startswith("._")


def by_columns(files: Sequence[RawFile]) -> dict[tuple[str, ...], list[RawFile]]:
    """The files that are not empty, by the columns that they have; TraceError if one is of neither layout."""
    groups: dict[tuple[str, ...], list[RawFile]] = {}
    for file, header in filled(files).items():
        groups.setdefault(_columns_of(header, file.name), []).append(file)
    return groups


def _columns_of(header: str, file: str) -> tuple[str, ...]:
    """Our name of each column; those that are not used have one too."""
    given = [re.sub(r"[\s_]", "", name).lower() for name in next(csv.reader([header]))]
    layout = SINCE_2021 if "startedat" in given else CLASSIC
    for name, column in layout.items():
        if name not in given and column not in ("birth_year", "gender", "rideable_type"):
            raise TraceError(
                f"'{file}' has no column '{name}', so it is no file of Citi Bike rides{did_you_mean(name, given)}"
            )
    ours = [layout.get(name, "") for name in given]
    return tuple(
        column if column and column not in ours[:place] else f"unused_{place}" for place, column in enumerate(ours)
    )


# ------------------------------------------------------------------ columns


def _read(spark: SparkSession, groups: Mapping[tuple[str, ...], Sequence[RawFile]]) -> DataFrame:
    """The rows of all files with all columns of both layouts."""
    frames = []
    for columns, files in groups.items():
        rows = read_rows(spark, files, columns, header=True)
        frames.append(rows.drop(*(raw_name(name) for name in columns if name not in _COLUMNS)))
    rows = frames[0]
    for frame in frames[1:]:
        rows = rows.unionByName(frame, allowMissingColumns=True)
    absent = [raw_name(name) for name in _COLUMNS if raw_name(name) not in rows.columns]
    return rows.select("*", *(F.lit(None).cast("string").alias(name) for name in absent))


def _cleaned(rows: DataFrame) -> DataFrame:
    """One way to write times, user types and missing values; texts that are none of these are left for checks."""
    texts = {name: F.when(~F.col(raw_name(name)).isin(*_MISSING), F.col(raw_name(name))) for name in _COLUMNS}
    for name in ("ts", "stop_ts"):
        us_time = F.regexp_replace(texts[name], _US_TIME, "$3-$1-$2 $4:$5$6$7")
        # Spark would take less for a time, such as a year.
        texts[name] = F.when(us_time.rlike(_ISO_TIME), us_time).when(texts[name].isNotNull(), F.lit("unreadable"))
    for name in ("birth_year", "gender"):
        texts[name] = F.regexp_replace(texts[name], r"\.0$", "")  # left by tools that know missing values only as NaN
    user_type = F.lower(texts["user_type"])
    texts["user_type"] = (
        F.when(user_type.isin("subscriber", "member"), F.lit("Subscriber"))
        .when(user_type.isin("customer", "casual"), F.lit("Customer"))
        .otherwise(F.lit(None))
    )
    return rows.withColumns({raw_name(name): text for name, text in texts.items()})


def _fields(*, station_kind: str) -> list[Field]:
    return [
        Field("ts", "timestamp_ntz", required=True),
        Field("stop_ts", "timestamp_ntz"),
        Field("trip_duration_s", "int"),
        Field("user_type", "string", required=True),
        Field("start_station_id", station_kind),
        Field("start_lat", "double"),
        Field("start_lon", "double"),
        Field("end_station_id", station_kind),
        Field("end_lat", "double"),
        Field("end_lon", "double"),
        Field("bike_id", "int"),
        Field("birth_year", "smallint"),
        Field("gender", "tinyint"),
        Field("ride_id", "string"),
        Field("rideable_type", "string"),
    ]


def _whole_seconds(start: Column, stop: Column) -> Column:
    """By the clocks of start and end, whatever the time zone of the session."""
    gap = stop - start
    day, hour, minute, second = (F.date_part(F.lit(part), gap) for part in ("DAY", "HOUR", "MINUTE", "SECOND"))
    return F.floor(day * 86_400 + hour * 3_600 + minute * 60 + second)


def _off_earth(lat: Column, lon: Column) -> Column:
    return (F.abs(lat) > 90) | (F.abs(lon) > 180)


def _without_repeats(rows: DataFrame, identity: Sequence[str], *, reason: int) -> DataFrame:
    """Events that are the same ride as an earlier one get the reason: a month may come in several archives.

    Rides without bike and id cannot be told apart, so all of them stay.
    """
    same = Window.partitionBy("ts", *identity, F.col(REASON).isNull()).orderBy(*PLACE)
    repeats = (F.row_number().over(same) > 1) & F.coalesce(
        *(F.col(name).cast("string") for name in identity)
    ).isNotNull()
    return rows.withColumn(REASON, F.coalesce(REASON, F.when(repeats, F.lit(reason))))
