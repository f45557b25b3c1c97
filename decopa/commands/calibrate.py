"""`decopa calibrate`: what can one processing unit do with this query, here or on every node of a cluster?"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from decopa.commands.inputs import open_stored, read_queries
from decopa.commands.option_types import count
from decopa.commands.terminal import progress_line, tell
from decopa.errors import DecoPaError, QueryError

if TYPE_CHECKING:
    from costmodel.calibration import Calibration, NodeCalibration
    from decopa.query.query import Query
    from shuffler.source.trace import TraceSource

DEFAULT_EVENTS = 200_000
ABOUT = (
    "Runs the query's operators on Ray, each as a processing unit would, under growing load, and finds what a unit can "
    "do in a second: events taken in (iota), comparisons with the query's own conditions (kappa), matches put out and "
    "shipped (epsilon). "
    "For --capacity of plan, run, explain and scale."
)


def add_calibrate_arguments(parser: argparse.ArgumentParser) -> None:
    """Beyond the query and the trace."""
    parser.add_argument("--out", metavar="FILE", type=Path, help="where the capacity goes (default: printed)")
    parser.add_argument("--overwrite", action="store_true", help="replace the output file if it exists")
    parser.add_argument(
        "--events", metavar="N", type=count, default=DEFAULT_EVENTS, help="events to measure with (default: 200,000)"
    )
    parser.add_argument("--repeats", metavar="N", type=count, default=3, help="for the spread (default: %(default)s)")
    parser.add_argument(
        "--address",
        metavar="ADDRESS",
        help="measure on every node of this Ray cluster (auto for the one on this machine); default: one is started",
    )


def calibrate_command(args: argparse.Namespace) -> None:
    from decopa.files import check_writable, write_text

    queries = read_queries(args.query, args.language)
    if len(queries) != 1:
        raise QueryError(f"{len(queries)} queries; a capacity is that for one query: calibrate each on its own")
    query = max(queries[0].branches, key=lambda branch: len(branch.aliases))
    if args.out is not None:
        check_writable(args.out, args.overwrite, suffixes=())
    progress = progress_line(quiet=args.quiet)
    try:
        progress.phase("opening the trace" if args.trace is not None else "making events up")
        source = open_stored(args) if args.trace is not None else made_up_events(query, args.events)
        progress.phase("measuring")
        found = _calibrated(args, query, source)
    finally:
        progress.clear()
    if args.out is None:
        print(found.to_json(), end="")
    else:
        write_text(found.to_json(), args.out, overwrite=args.overwrite)
    if not args.quiet:
        for line in summary(found):
            tell(*line)
        if args.trace is None:
            tell("note", "measured with events that were made up; give --trace FILE for the query's own")
        if args.out is not None:
            tell("output", str(args.out))


def _calibrated(args: argparse.Namespace, query: Query, source: TraceSource) -> Calibration:
    from cluster.measure.calibrate import calibrate_cluster, calibration_spec
    from cluster.ray_session import ray_session

    spec = calibration_spec(query, source, events=args.events, repeats=args.repeats)
    with ray_session(address=args.address, dashboard=False):
        return calibrate_cluster(spec)


def made_up_events(query: Query, events: int) -> TraceSource:
    """Events of the query's types in turn at random, with numbers between 0 and 1 for all attributes."""
    import numpy as np
    import pyarrow as pa

    from decopa.query.predicate import attributes
    from shuffler.source.trace import open_trace

    rng = np.random.default_rng(0)
    types = sorted({position.type for position in query.positions})
    columns: dict[str, object] = {
        "id": np.arange(events),
        "ts": np.cumsum(rng.integers(1, 2_000, events)),
        "type": pa.array(rng.integers(0, len(types), events)).cast(pa.int32()),
    }
    columns["type"] = pa.DictionaryArray.from_arrays(columns["type"], pa.array(types))
    named = {attr.name for predicate in query.conditions for attr in attributes(predicate)}
    named |= {attr.name for attr in query.returns}
    for name in sorted(named - columns.keys()):
        columns[name] = rng.random(events)
    source = open_trace(pa.table(columns))
    try:
        from decopa.query.binding import bind

        bind(query, source.schema)
    except DecoPaError as err:
        raise QueryError(f"{err}; made-up events have numbers only: give --trace FILE") from err
    return source


def summary(found: Calibration) -> list[tuple[str, str]]:
    """Lines of (what, value): the mean, then every node."""
    capacity, spread = found.capacity, found.spread
    assert capacity.max_emission is not None
    rows = (
        ("iota", capacity.max_ingestion, "ingested", "events or matches taken in per second"),
        ("kappa", capacity.max_comparisons, "comparisons", "comparisons per second"),
        ("epsilon", capacity.max_emission, "emitted", "matches put out per second"),
    )
    lines = [(name, f"{_amount(value)} {what}, +- {100 * spread[key]:.0f} %") for name, value, key, what in rows]
    return lines + [("node", node_text(node)) for node in found.nodes]


def node_text(node: NodeCalibration) -> str:
    capacity = node.capacity
    assert capacity.max_emission is not None
    shown = ", ".join(
        f"{name} {_amount(value)}"
        for name, value in (
            ("iota", capacity.max_ingestion),
            ("kappa", capacity.max_comparisons),
            ("epsilon", capacity.max_emission),
        )
    )
    ramp = sorted(node.ramps, key=lambda one: one.queueing_rate)[len(node.ramps) // 2] if node.ramps else None
    queueing = "" if ramp is None else (
        f"; the busiest unit of the query: queues grow above {_amount(ramp.queueing_rate)} rows/s, "
        f"the model says {_amount(ramp.predicted_rate)}"
    )  # fmt: skip
    return f"{node.node}: {shown}; median error of the busy time {100 * node.median_error:.0f} %{queueing}"


def _amount(value: float) -> str:
    from costmodel.calibration import NO_LIMIT_PER_S

    return "no limit seen" if value >= NO_LIMIT_PER_S else f"{value:,.3g}"
