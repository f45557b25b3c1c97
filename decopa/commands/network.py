"""`decopa network stats | plan | explain | run`: queries evaluated inside a network of event sources."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from decopa.choices import NETWORK_STRATEGIES
from decopa.commands.arguments.inputs import (
    capacity_of,
    check_emulation,
    open_stored,
    read_queries,
    read_text,
    trace_options,
)
from decopa.commands.arguments.network import (
    add_network_planning_arguments,
    add_origin_arguments,
    add_ray_arguments,
    asks_for_ray,
)
from decopa.commands.arguments.options import (
    Parser,
    Subparsers,
    add_capacity_arguments,
    add_output_arguments,
    add_query_argument,
    add_quiet_argument,
    add_spark_argument,
    add_trace_arguments,
)
from decopa.commands.terminal import Progress, progress_line, tell
from decopa.errors import DecoPaError, PlanError, StatisticsError

if TYPE_CHECKING:
    from costmodel.networks.network_file import MeasuredNetwork
    from decopa.planning.network.graphs.graph import NetworkPlan
    from decopa.planning.network.planner import NetworkOptions, PlannedNetwork
    from decopa.query.query import Query
    from decopa.runs.networks.network import NetworkRun


def register(commands: Subparsers) -> None:
    network = commands.add_parser(
        "network",
        help="evaluate queries inside a network of event sources",
        description="Plans and runs queries inside a network of event sources.",
    )
    kinds = network.add_subparsers(required=True, metavar="ACTION", dest="kind", parser_class=Parser)
    stats = kinds.add_parser("stats", help="measure a network from a trace")
    stats.description = (
        "Counts the events of each node and type per window, samples pairs of events, and counts which share of events "
        "has a partner; --origin names the column that says where an event was born."
    )
    stats.epilog = (
        "example: decopa network stats query.txt --trace trace.parquet --origin machine_id --nodes 20 --out net.json"
    )
    add_query_argument(stats)
    add_trace_arguments(stats, required=True)
    add_origin_arguments(stats)
    add_spark_argument(stats, "count on Spark, for traces of any size")
    stats.add_argument("--seed", metavar="S", type=int, default=0, help="of the sample (default: %(default)s)")
    add_output_arguments(stats, "where the network goes (default: printed)")
    add_quiet_argument(stats)
    stats.set_defaults(action=network_stats)

    plan = kinds.add_parser("plan", help="plan queries inside a network")
    plan.description = "Decides which projections of the queries are evaluated at which nodes, so that little travels."
    plan.epilog = "example: decopa network plan query.txt --network net.json --out plan.json --html plan.html"
    add_query_argument(plan)
    add_network_planning_arguments(plan)
    add_capacity_arguments(plan)
    plan.add_argument("--html", metavar="FILE", type=Path, help="write a page with the network drawn")
    plan.add_argument("--compare", action="store_true", help="also plan by the other strategies, for table and page")
    add_output_arguments(plan, "where the plan goes (default: printed)")
    add_quiet_argument(plan)
    plan.set_defaults(action=network_plan_command)

    explain = kinds.add_parser("explain", help="show a network plan")
    explain.description = "Shows what is evaluated where, and with --network what is expected to cross each edge."
    explain.epilog = "example: decopa network explain plan.json --network net.json --html plan.html"
    explain.add_argument("plan", metavar="PLAN", type=Path, help="a plan that `decopa network plan` wrote")
    explain.add_argument("--network", metavar="FILE", type=Path, help="the network, see `decopa network stats`")
    explain.add_argument("--html", metavar="FILE", type=Path, help="write a page with the network drawn")
    explain.add_argument("--overwrite", action="store_true", help="replace the page if it exists")
    explain.set_defaults(action=network_explain)

    run = kinds.add_parser("run", help="run queries inside a network")
    run.description = (
        "Finds all matches with every node of the network in this process, or on Ray, and shows for each edge what was "
        "expected and what crossed it. Without --plan and --network both are made from the trace."
    )
    run.epilog = "example: decopa network run query.txt --trace trace.parquet --origin machine_id --nodes 20"
    add_query_argument(run)
    add_trace_arguments(run, required=True)
    add_origin_arguments(run)
    add_network_planning_arguments(run)
    add_capacity_arguments(run)
    run.add_argument("--plan", metavar="FILE", type=Path, help="a plan that `decopa network plan` wrote")
    run.add_argument("--html", metavar="FILE", type=Path, help="write a page with the network and what crossed it")
    add_ray_arguments(run)
    add_output_arguments(run, "where matches go: .parquet, .csv (lists joined by ';') or .jsonl")
    add_quiet_argument(run)
    run.set_defaults(action=network_run)


def network_stats(args: argparse.Namespace) -> None:
    from costmodel.networks.network_file import to_json
    from decopa.files import check_writable, write_text

    queries = read_queries(args.query, args.language)
    if args.out is not None:
        check_writable(args.out, args.overwrite, suffixes=())
    measured, notices = _measured(args, queries)
    if args.out is None:
        print(to_json(measured), end="")
    else:
        write_text(to_json(measured), args.out, overwrite=args.overwrite)
    if args.quiet:
        return
    for notice in notices:
        tell("note", notice)
    network = measured.network
    tell(
        "nodes", f"{len(network.nodes)}, {sum(bool(types) for types in network.rates.values())} of them produce events"
    )
    totals = {event_type: network.total_rate(event_type) for event_type in network.event_types}
    tell(
        "per window",
        ", ".join(f"{name} {rate:,.4g} at {len(network.producers(name))}" for name, rate in totals.items()),
    )
    for (one, other), share in measured.partners.items():
        tell("partners", f"{100 * share:.3g} % of {one} events have a partner of type {other}")
    if args.out is not None:
        tell("output", str(args.out))


def network_plan_command(args: argparse.Namespace) -> None:
    from decopa.files import check_writable, write_text
    from decopa.report.network.text import explain_network

    queries = read_queries(args.query, args.language)
    for path, suffixes in ((args.out, ()), (args.html, (".html",))):
        if path is not None:
            check_writable(path, args.overwrite, suffixes=suffixes)
    measured = _network(args)
    planned = _planned(args, queries, measured)
    others = _compared(args, queries, measured) if args.compare else {}
    if args.out is None:
        print(planned.plan.to_json(), end="")
    else:
        write_text(planned.plan.to_json(), args.out, overwrite=args.overwrite)
    if args.html is not None:
        from decopa.report.network.page import network_page

        page = network_page({args.strategy: planned, **others})
        write_text(page, args.html, overwrite=args.overwrite)
    if args.quiet:
        return
    for line in explain_network(planned.plan, planned.price, central=planned.central).splitlines():
        tell("", line)
    for name, other in others.items():
        tell(name, f"{other.price.rows:,.4g} rows per window, {100 * other.ratio:.3g} % of centralized")


def network_explain(args: argparse.Namespace) -> None:
    from decopa.files import check_writable, write_text
    from decopa.planning.network.graphs.validate import check_network_plan
    from decopa.planning.network.planner import priced_network
    from decopa.report.network.text import explain_network

    if args.html is not None:
        check_writable(args.html, args.overwrite, suffixes=(".html",))
    plan = _read_plan(args.plan)
    check_network_plan(plan)
    if args.network is None:
        if args.html is not None:
            raise StatisticsError("--html draws rates, which need --network FILE; make it with `decopa network stats`")
        print(explain_network(plan), end="")
        return
    measured = _read_network(args.network)
    plan.check_fits(measured.network)
    planned = priced_network(plan, measured)
    print(explain_network(plan, planned.price, central=planned.central), end="")
    if args.html is not None:
        from decopa.report.network.page import network_page

        write_text(network_page({args.plan.stem: planned}), args.html, overwrite=args.overwrite)
        tell("page", str(args.html))


def network_run(args: argparse.Namespace) -> None:
    from decopa.files import check_writable, write_matches, write_text
    from decopa.planning.network.planner import priced_network
    from decopa.report.network.text import edge_table, node_table

    queries = read_queries(args.query, args.language)
    for path, suffixes in ((args.out, None), (args.html, (".html",))):
        if path is not None:
            check_writable(path, args.overwrite, suffixes=suffixes)
    check_emulation(args)
    if args.runtime == "local" and asks_for_ray(args):
        raise DecoPaError(
            "--address, --rate, --emulate and --checkpoint are for Ray; leave them out, or --runtime local"
        )
    progress = progress_line(quiet=args.quiet)
    progress.phase("measuring and planning")
    measured = _read_network(args.network) if args.network is not None else _measured(args, queries)[0]
    if args.plan is not None:
        plan = _read_plan(args.plan)
        plan.check_fits(measured.network)
        if plan.queries != tuple(branch for query in queries for branch in query.branches):
            raise PlanError(f"{args.plan} is a plan for other queries; make one with `decopa network plan`")
        planned = priced_network(plan, measured)
    else:
        planned = _planned(args, queries, measured)
    run = _run(args, queries, planned, progress)
    progress.clear()
    if args.out is not None:
        write_matches(run.matches, args.out, overwrite=args.overwrite)
    if args.html is not None:
        from decopa.report.network.page import network_page

        name = args.plan.stem if args.plan is not None else args.strategy
        write_text(network_page({name: planned}, run), args.html, overwrite=args.overwrite)
    if args.quiet:
        return
    total = run.traffic.total
    sinks = len(run.matches_at)
    tell("matches", f"{run.matches.num_rows:,} at {sinks} {'node' if sinks == 1 else 'nodes'}")
    tell("events", f"{run.events:,} in {run.seconds:.2f} s")
    tell("crossed", f"{total.rows:,} rows ({100 * run.ratio:.3g} % of centralized), {total.bytes:,} bytes, "
         f"{total.messages:,} messages")  # fmt: skip
    tell("heartbeats", f"{total.watermarks:,} watermarks, {total.watermark_bytes:,} bytes")
    if run.latency is not None and run.latency.count:
        tell("latency", f"p50 {1e3 * run.latency.p50_s:,.1f} ms, p99 {1e3 * run.latency.p99_s:,.1f} ms")
    if run.recoveries:
        tell("taken up", f"{run.recoveries} times after a process was lost; what crossed is that of the last attempt")
    for table in (edge_table(run.edges), node_table(run.nodes)):
        for line in table.splitlines():
            tell("", line)
    if args.out is not None:
        tell("output", str(args.out))


def _run(args: argparse.Namespace, queries: Sequence[Query], planned: PlannedNetwork, progress: Progress) -> NetworkRun:
    from decopa.runs.networks.network import Origins, run_network, run_network_on_ray

    origins = Origins(args.origin, args.nodes, args.idle_after, lambda line: tell("note", line))
    source, rates = open_stored(args), planned.rates
    if args.runtime != "ray" and not asks_for_ray(args):
        return run_network(
            queries, planned.plan, source, origins, rates=rates, progress=lambda events: progress(events, 0)
        )
    from cluster.checkpoint.store import CheckpointStore
    from cluster.network.options import NetworkRayOptions
    from shuffler.source.pacing import Replay

    options = NetworkRayOptions(
        checkpoints=None if args.checkpoint is None else CheckpointStore(args.checkpoint),
        replay=Replay(rate=args.rate),
        emulate=capacity_of(args) if args.emulate else None,
        network=planned.network,
    )
    progress.phase("starting the processes")
    return run_network_on_ray(
        queries,
        planned.plan,
        source,
        origins,
        rates=rates,
        options=options,
        address=args.address,
        progress=lambda events: progress(events, 0),
    )


# ------------------------------------------------------------------- inputs
def _network(args: argparse.Namespace) -> MeasuredNetwork:
    if args.network is None:
        raise StatisticsError("a plan needs --network FILE; make it with `decopa network stats`")
    return _read_network(args.network)


def _read_network(path: Path) -> MeasuredNetwork:
    from costmodel.networks.network_file import from_json

    return from_json(read_text(path, StatisticsError), str(path))


def _read_plan(path: Path) -> NetworkPlan:
    from decopa.planning.network.graphs.graph import NetworkPlan

    return NetworkPlan.from_json(read_text(path, PlanError))


def _measured(args: argparse.Namespace, queries: Sequence[Query]) -> tuple[MeasuredNetwork, tuple[str, ...]]:
    if getattr(args, "spark", False):
        return network_on_spark(args, queries)
    from decopa.runs.networks.network_stats import measured_network

    return measured_network(queries, open_stored(args), args.origin, buckets=args.nodes)


def _options(args: argparse.Namespace, strategy: str, measured: MeasuredNetwork) -> NetworkOptions:
    from costmodel.formulas import ENGINE, PAPER
    from decopa.planning.network.planner import NetworkOptions
    from decopa.runs.networks.network import row_weight

    weight = None
    if args.count == "bytes":
        if getattr(args, "trace", None) is None:
            raise StatisticsError("--count bytes needs the columns of the trace: give it to `decopa network run`")
        weight = row_weight(open_stored(args).schema)
    limited = args.capacity is not None or args.iota or args.kappa
    return NetworkOptions(
        strategy,
        model=ENGINE if args.rates == "engine" else PAPER,
        implied=args.rates == "engine",
        reducers=not args.no_reducers,
        weight=weight,
        partners=measured.partners,
        capacity=capacity_of(args) if limited else None,
    )


def _planned(args: argparse.Namespace, queries: Sequence[Query], measured: MeasuredNetwork) -> PlannedNetwork:
    from decopa.planning.network.planner import plan_network

    return plan_network(
        queries, measured.network, _statistics(queries, measured), _options(args, args.strategy, measured)
    )


def _compared(
    args: argparse.Namespace, queries: Sequence[Query], measured: MeasuredNetwork
) -> dict[str, PlannedNetwork]:
    from decopa.planning.network.planner import plan_network

    found = {}
    for strategy in NETWORK_STRATEGIES:
        if strategy not in (args.strategy, "exhaustive"):
            options = _options(args, strategy, measured)
            try:
                found[strategy] = plan_network(queries, measured.network, _statistics(queries, measured), options)
            except DecoPaError as err:
                tell("note", f"{strategy}: {err}")
    return found


def _statistics(queries: Sequence[Query], measured: MeasuredNetwork) -> list[Any]:
    """The statistics of each query: in the file for all of them, or for none, then every condition counts 1."""
    from costmodel.statistics import Statistics

    if not measured.statistics:
        return [Statistics(query.window_us, {}, default_selectivity=1.0) for query in queries]
    if len(measured.statistics) == 1:
        return list(measured.statistics) * len(queries)
    if len(measured.statistics) != len(queries):
        raise StatisticsError(
            f"{measured.network.name} has statistics of {len(measured.statistics)} queries, not of these "
            f"{len(queries)}; run `decopa network stats` for them"
        )
    return list(measured.statistics)


def network_on_spark(args: argparse.Namespace, queries: Sequence[Query]) -> tuple[MeasuredNetwork, tuple[str, ...]]:
    """The network behind a trace, counted on Spark; shares of events that have a partner are left to the planner."""
    from cluster.spark.network import network_of
    from cluster.spark.stats import measure_on_spark
    from cluster.spark.traces import clean
    from costmodel.networks.network_file import MeasuredNetwork
    from decopa.runs.preparation.opening import spark_frame
    from decopa.runs.spec import RunSpec

    spec = RunSpec(trace=trace_options(args))
    with spark_frame(spec) as frame:
        trace = clean(frame, spec.trace.columns, name=str(args.trace))
        network = network_of(trace, queries, args.origin, buckets=args.nodes)
        found = measure_on_spark(queries, trace, spec.trace.columns, seed=args.seed, nan_as_null=spec.trace.nan_as_null)
    notices = tuple(line for one in found for line in one.notices)
    return MeasuredNetwork(network, tuple(one.statistics for one in found)), notices
