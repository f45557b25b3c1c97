"""`decopa run --spark` and `decopa stats --spark`: the trace is read, cleaned, sorted and measured by Spark on Ray."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from decopa.commands import run_options
from decopa.commands.inputs import STANDARD_INPUT, capacity_of
from decopa.errors import DecoPaError

if TYPE_CHECKING:
    from costmodel.statistics import Statistics
    from decopa.commands.terminal import Progress
    from decopa.planning.plan import Plan
    from decopa.query.query import Query
    from decopa.runs.execute import RunResult

#: CPUs that Spark's executors take on a Ray that is started for the run.
SPARK_CPUS = 2


def add_spark_argument(parser: argparse.ArgumentParser, about: str) -> None:
    parser.add_argument("--spark", action="store_true", help=about)


def run_through_spark(
    args: argparse.Namespace,
    queries: Sequence[Query],
    given: Plan | None,
    known: Statistics | None,
    progress: Progress,
) -> RunResult:
    """The result of a run whose trace comes through Spark; its partitions go to the shufflers without passing here."""
    _check(args)
    from cluster.ray_session import ray_session
    from cluster.spark.session import spark_on_ray
    from cluster.spark.traces import read_trace
    from decopa.runs.execute import run_detailed
    from shuffler.source.trace import TraceColumns

    columns = TraceColumns(args.id, args.ts, args.type, args.end)
    progress.phase("starting Ray and Spark")
    cpus = args.units + (args.shufflers or 1) + SPARK_CPUS
    with ray_session(address=args.address, cpus=cpus), spark_on_ray(app_name="decopa run") as spark:
        progress.phase("reading and measuring the trace on Spark")
        return run_detailed(
            queries,
            read_trace(spark, args.trace, columns),
            units=args.units,
            strategy=args.strategy or "decopa",
            runtime="ray",
            plan=given,
            statistics=known,
            capacity=capacity_of(args),
            batch_size=args.batch_size,
            limits=run_options.limits_of(args),
            columns=columns,
            nan_as_null=args.nan_as_null,
            ray=run_options.ray_options(args, capacity_of(args)),
            require_types=True,
            progress=progress,
        )


def statistics_on_spark(args: argparse.Namespace, queries: Sequence[Query]) -> tuple[list[Statistics], tuple[str, ...]]:
    """Statistics of each query over the whole trace, with notices."""
    _check(args)
    from cluster.ray_session import ray_session
    from cluster.spark.session import spark_on_ray
    from cluster.spark.stats import measure_on_spark
    from cluster.spark.traces import clean, read_trace
    from shuffler.source.trace import TraceColumns

    columns = TraceColumns(args.id, args.ts, args.type, args.end)
    with ray_session(cpus=SPARK_CPUS + 1, dashboard=False), spark_on_ray(app_name="decopa stats") as spark:
        trace = clean(read_trace(spark, args.trace, columns), columns, name=str(args.trace))
        found = measure_on_spark(queries, trace, columns, seed=args.seed)
    return [one.statistics for one in found], tuple(line for one in found for line in one.notices)


def _check(args: argparse.Namespace) -> None:
    if args.trace == STANDARD_INPUT:
        raise DecoPaError("--spark reads stored traces; for a stream use decopa.stream, or leave out --spark")
    if getattr(args, "runtime", "ray") != "ray":
        raise DecoPaError("--spark runs on Ray; leave it out, or use --runtime ray")
