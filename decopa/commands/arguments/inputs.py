"""What the user gave on the command line -> queries, plans, statistics, capacities, and the values of a RunSpec."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from decopa.choices import DEFAULT_COMPARED_PER_S, DEFAULT_INGESTED_PER_S, Objective, Reading
from decopa.commands.arguments.source import STANDARD_INPUT, source_of
from decopa.errors import DecoPaError, PlanError, QueryError, StatisticsError

if TYPE_CHECKING:
    from costmodel.capacity import Capacity
    from costmodel.statistics import Statistics
    from decopa.planning.plan import Plan
    from decopa.planning.price import PricedPlan
    from decopa.query.query import Query
    from decopa.runs.spec import Planning, TraceOptions
    from shuffler.source.trace import TraceSource


def read_queries(given: str, language: str | None = None) -> tuple[Query, ...]:
    """The queries in a file, or in the argument itself if it is no file and looks like a query."""
    from decopa.language.front import read_queries as parsed

    try:
        is_file = Path(given).is_file()
    except (OSError, ValueError):  # too long or too strange for a path
        is_file = False
    if not is_file:
        if "pattern" in given.lower() or len(given.split()) > 1:
            return parsed(given, language)
        raise QueryError(f"no query file '{given}'; name one, or write the query itself: 'PATTERN SEQ(A a, B b) ...'")
    return parsed(read_text(Path(given), QueryError), language)


def located(err: QueryError, given: str) -> QueryError:
    """The error with the file that its query is from and, of several queries, the one that it is about."""
    try:
        if str(err).startswith(given) or not Path(given).is_file():
            return err
    except (OSError, ValueError):  # the text of a query
        return err
    named = "" if str(err).startswith("query ") else _query_at(read_text(Path(given), QueryError), err.line)
    return QueryError(f"{given}: {named}{err}")


def _query_at(text: str, line: int | None) -> str:
    """`query q2: `, for the last query of several that is named up to a line."""
    named = re.findall(r"^\s*QUERY\s+(\w+)", "\n".join(text.split("\n")[:line]), re.IGNORECASE | re.MULTILINE)
    several = len(re.findall(r"^\s*QUERY\b", text, re.IGNORECASE | re.MULTILINE)) > 1
    return f"query {named[-1]}: " if line is not None and several and named else ""


def read_plan(path: Path) -> Plan:
    from decopa.planning.plan import Plan

    return Plan.from_json(read_text(path, PlanError))


def read_statistics(path: Path) -> Statistics:
    from costmodel.stats_file import from_json

    return from_json(read_text(path, StatisticsError), str(path))


def trace_options(args: argparse.Namespace) -> TraceOptions:
    """How --trace is read."""
    from decopa.runs.spec import TraceOptions
    from shuffler.rows.events import TraceColumns

    address = source_of(args) if hasattr(args, "follow") else None
    path = None if args.trace is None or args.trace == STANDARD_INPUT else str(args.trace)
    return TraceOptions(
        TraceColumns(args.id, args.ts, args.type, args.ts_unit, args.end),
        kinds=getattr(args, "schema", None) or {},
        assume_sorted=args.assume_sorted,
        nan_as_null=args.nan_as_null,
        path=path if address is None else str(address),
        spark=getattr(args, "spark", False),
    )


def planning(args: argparse.Namespace) -> Planning:
    """How the plan is chosen; a command need not have --units, --strategy and --plan, or may have several --units."""
    from decopa.runs.spec import Planning

    plan, units = getattr(args, "plan", None), getattr(args, "units", None)
    return Planning(
        units[0] if isinstance(units, tuple) else units if isinstance(units, int) else None,
        getattr(args, "strategy", None),
        None if plan is None else read_plan(plan),
        None if args.stats is None else read_statistics(args.stats),
        capacity_of(args),
        Reading(args.reading),
        planning_time_s=getattr(args, "planning_time", None),
    )


def open_stored(args: argparse.Namespace) -> TraceSource:
    """The trace file that --trace names."""
    from decopa.runs.preparation.opening import open_events

    if args.trace == STANDARD_INPUT:
        raise StatisticsError("a live stream (--trace -) cannot be measured before it runs; name a file")
    return open_events(trace_options(args)).source


def statistics_of(args: argparse.Namespace, queries: Sequence[Query]) -> tuple[list[Statistics], tuple[str, ...]]:
    """Statistics of each query, from --stats or measured from --trace, with notices."""
    if args.stats is not None:
        return [read_statistics(args.stats)] * len(queries), ()
    if args.trace is None:
        raise StatisticsError(
            f"strategy '{args.strategy}' needs to know rates and selectivities; give --stats FILE (see `decopa stats`) "
            "or --trace FILE to measure them"
        )
    from decopa.runs.preparation.measure import measure

    found = measure(queries, open_stored(args), seed=getattr(args, "seed", 0))
    return [one.statistics for one in found], tuple(line for one in found for line in one.notices)


def capacity_of(args: argparse.Namespace) -> Capacity:
    """What a unit can do, from --capacity or --iota and --kappa, to be held against --objective."""
    from dataclasses import replace

    from costmodel.capacity import Capacity

    if args.capacity is None:
        capacity = Capacity.per_second(args.iota or DEFAULT_INGESTED_PER_S, args.kappa or DEFAULT_COMPARED_PER_S)
    elif args.iota or args.kappa:
        raise StatisticsError("--capacity FILE has iota and kappa; leave out --iota and --kappa, or --capacity")
    else:
        capacity = Capacity.from_json(read_text(args.capacity, StatisticsError), str(args.capacity))
    return replace(capacity, objective=Objective(args.objective))


def node_speeds_of(args: argparse.Namespace) -> dict[str, float] | None:
    """How fast the nodes are that --capacity was measured on; None if that is not known."""
    from costmodel.calibration import node_speeds

    if args.capacity is None:
        return None
    return node_speeds(read_text(args.capacity, StatisticsError), str(args.capacity)) or None


def check_emulation(args: argparse.Namespace) -> None:
    """Emulated units need a capacity to pretend to."""
    if args.emulate and not (args.iota or args.kappa or args.capacity):
        raise DecoPaError(
            "--emulate needs to know the capacity of a unit; give --iota and --kappa, per second, or --capacity FILE"
        )


def priced_parts(args: argparse.Namespace, plan: Plan, statistics: Sequence[Statistics]) -> list[PricedPlan]:
    """The parts of a plan with prices; there are statistics for each of them."""
    from decopa.planning.price import price_plan

    capacity, reading = capacity_of(args), Reading(args.reading)
    return [
        price_plan(part, known, capacity, reading=reading) for part, known in zip(plan.parts, statistics, strict=True)
    ]


def read_text(path: Path, error: type[DecoPaError]) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as err:
        raise error(f"cannot read '{path}': {err.strerror}; check the path") from err
    except UnicodeDecodeError as err:
        raise error(f"'{path}' is not UTF-8 text: {err.reason} at byte {err.start}") from err
