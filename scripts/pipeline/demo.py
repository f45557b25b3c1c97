"""The demo's main job: raw ride files -> Spark -> RayDP -> plan on Ray actors -> matches, and back as a Spark frame."""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.csv

import decopa
from cluster.deploy.recorder import Recorder
from cluster.ray_session import ray_session
from decopa.files import write_matches, write_text
from decopa.language.text.parser import parse_workload
from decopa.report.run_page import RunReport, report_page
from decopa.report.run_parts import part_summaries
from decopa.report.run_summary import load_tree, matches_text
from decopa.runs.preparation.opening import SPARK_CPUS
from decopa.traces.rides import RideSpec

#: One row in this many lacks its time, as rows of raw files do.
_BROKEN = 5_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("queries", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--days", type=int, default=7)
    parser.add_argument("--units", type=int, default=6)
    args = parser.parse_args()
    queries = parse_workload(args.queries.read_text())
    raw = args.out / "raw"
    with step("raw files", f"a CSV for each of {args.days} days in {raw}, rows in no order, some without a time"):
        rows = write_raw(raw, args.days)
        print(f"   {rows:,} rides")
    with (
        ray_session(cpus=args.units + 1 + SPARK_CPUS) as dashboard,
        step("Spark on Ray", f"dashboard {dashboard} while this runs"),
    ):
        find(args, queries, raw)


def find(args: argparse.Namespace, queries: tuple[decopa.Query, ...], raw: Path) -> None:
    from cluster.spark.results import to_spark
    from cluster.spark.session import spark_on_ray
    from cluster.spark.traces import clean

    with spark_on_ray(app_name="decopa demo") as spark:
        with step("clean", "Spark reads the files, types times, and leaves out rows without id, time or type"):
            frame = spark.read.csv(str(raw.resolve()), header=True, inferSchema=True)
            cleaned = clean(frame, missing="drop", name="the raw files")
            events = cleaned.frame.cache()
            print(f"   {events.count():,} of {frame.count():,} rows are events; {'; '.join(cleaned.notices)}")
        recorder = Recorder(interval_s=0.1)
        with step("find", f"Spark sorts and measures, RayDP hands blocks over, {args.units} units are Ray actors"):
            result = decopa.run_detailed(
                queries, events, units=args.units, runtime="ray", watch=decopa.Watch(recorder=recorder)
            )
            parts = part_summaries(queries, result, decopa.Planning())
            for part in parts:
                print(f"\n{load_tree(part)}")
            print(f"\n   {result.events:,} events in {result.seconds:.2f} s, {matches_text(result)} matches")
        with step("report", "a page with plan, loads and curves"):
            page = RunReport(result, tuple(parts), tuple(recorder.samples), result.strategy, False, None, None)
            write_text(report_page(page), args.out / "run.html", overwrite=True)
            write_matches(result.matches, args.out / "rides_matches.parquet", overwrite=True)
            print(f"   {args.out / 'run.html'}, {args.out / 'rides_matches.parquet'}")
        with step("back to Spark", "the matches as a data frame, for whatever comes next"):
            to_spark(spark, result.matches).groupBy("query").count().show()


def write_raw(folder: Path, days: int) -> int:
    """What a publisher's files look like: one for each day, rows in no order, times as text, some of them missing."""
    folder.mkdir(parents=True, exist_ok=True)
    table = pa.Table.from_batches(RideSpec(days, 1.0, 7).batches())
    day = pa.compute.floor_temporal(table.column("ts"), unit="day")
    rng = random.Random(7)
    for number, when in enumerate(sorted(set(day.to_pylist()))):
        some = table.filter(pa.compute.equal(day, pa.scalar(when, day.type)))
        order = list(range(some.num_rows))
        rng.shuffle(order)
        some = some.take(pa.array(order))
        times = some.column("ts").cast(pa.string()).to_pylist()
        for broken in range(0, len(times), _BROKEN):
            times[broken] = None
        at = some.schema.get_field_index("ts")
        some = some.set_column(at, "ts", pa.array(times, pa.string()))
        plain = pa.table([column.cast(pa.string()) if pa.types.is_dictionary(column.type) else column
                          for column in some.columns], names=some.schema.names)  # fmt: skip
        pyarrow.csv.write_csv(plain, folder / f"rides-{number:02d}.csv")
    return table.num_rows


@contextmanager
def step(name: str, what: str) -> Iterator[None]:
    started = time.perf_counter()
    print(f"\n\033[1m{name}\033[0m  {what}", flush=True)
    yield
    print(f"   ({name}: {time.perf_counter() - started:.1f} s)", flush=True)


if __name__ == "__main__":
    main()
