"""prepare: a spec and queries -> a run that can start. The only place that opens, measures, plans, applies defaults and
refuses what a way to run cannot do; the runtimes carry out what it returns."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from costmodel.statistics import Statistics
from decopa.errors import (
    CheckpointError,
    DecoPaError,
    DeployError,
    PlanError,
    QueryError,
    StatisticsError,
    TraceError,
    did_you_mean,
)
from decopa.planning.plan import Plan
from decopa.query.binding import bind, missing_types
from decopa.query.conditions.constant import constant_notices
from decopa.query.conditions.predicate import attributes
from decopa.query.pattern import leaves
from decopa.query.query import Query
from decopa.runs.folder import check_folder
from decopa.runs.guard import Guard
from decopa.runs.preparation.measure import measure_each
from decopa.runs.preparation.opening import OpenedEvents, is_spark_frame, open_events
from decopa.runs.preparation.planning import (
    LEFT_DEEP,
    PlanChoice,
    check_measurable,
    choose_plan,
    needs_statistics,
    per_part,
)
from decopa.runs.result import MOST_COLUMNS
from decopa.runs.spec import Planning, RunSpec
from decopa.runs.support import Way, asks_for_ray, check_supported, way_of
from shuffler.routing.topology import Topology
from shuffler.source.stopping import Stop
from shuffler.source.trace import TraceSource

#: What the process of a unit takes on a Ray that is started here, before it holds any event.
_PROCESS_BYTES = 150 * 2**20
#: From this many unit processes a core on, a run on one machine is warned of.
_CROWDED = 8

Phase = Callable[[str], None]


def nothing() -> None:
    """Where nobody waits to be told."""


@dataclass(frozen=True)
class Prepared:
    """A run that can start: `spec` has its defaults, `events` are open, the plan is chosen.

    `strategy` made the plan. `statistics` has one entry for each query, or none. `notices` say what was decided;
    those among them that a user should act on are `warnings`, too.
    """

    spec: RunSpec
    way: Way
    queries: tuple[Query, ...]
    events: OpenedEvents
    plan: Plan
    strategy: str
    statistics: tuple[Statistics | None, ...] = ()
    notices: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def source(self) -> TraceSource:
        return self.events.source


def prepare(
    spec: RunSpec,
    queries: Sequence[Query],
    events: Any = None,
    *,
    predictions: bool = False,
    phase: Phase = lambda doing: None,
    checked: Callable[[], None] = nothing,
    stop: Stop | None = None,
) -> Prepared:
    """Opens the events given, or the trace that the spec names, checks the queries against them, and chooses a plan.

    With `predictions` the trace is measured even where the plan does not need it. `checked` is called before anything
    that takes long, when spec, queries and events are known to fit. A live source ends once `stop` is set.
    """
    queries = tuple(queries)
    spec = with_defaults(spec, events)
    phase("opening the trace")
    opened = open_events(spec.trace, events, queries, stop=stop)
    queries = tuple(query.with_every_attribute(opened.source.schema.attributes) for query in queries)
    way = way_of(spec, live=opened.live, spark=opened.loaded is not None, replayable=opened.source.replayable)
    check_supported(spec, way)
    check_alternatives(queries, way)
    check_delivery(spec, queries, way)
    check_limit_policy(spec, way)
    check_adapt(spec, queries, way)
    check_rules(spec, way)
    absent = _absent_types(queries, opened.source, required=spec.trace.require_types)
    _check_conditions(queries, opened)
    checked()
    statistics, notices, doubts = _statistics(spec.planning, queries, opened, predictions, phase)
    phase("planning")
    chosen = choose_plan(
        spec.planning,
        queries,
        statistics,
        processors=1 if spec.runtime == "local" else None,
        lasting=opened.source.schema.intervals,
    )
    chosen = _probed(spec, chosen, opened, phase)
    said = tuple(line for query in queries for line in constant_notices(query))
    if not spec.planning.force and spec.limits.on_limit == "stop":  # else queries that exceed limits are dropped
        guard = Guard.of(chosen.plan, per_part(chosen.plan, queries, statistics), opened.source.span_us, spec.limits)
        guard.check(opened.source.row_count, spec.planning.capacity, spec.trace.batch_size)
    if spec.runtime == "ray" and spec.ray.address is None:
        doubts = (*doubts, *_crowding(chosen.plan, spec.ray.shufflers))
    return Prepared(
        spec,
        way,
        queries,
        opened,
        chosen.plan,
        chosen.strategy,
        statistics,
        tuple(dict.fromkeys((*opened.source.notices, *absent, *said, *notices, *doubts, *chosen.notices))),
        tuple(dict.fromkeys((*absent, *said, *doubts))),
    )


def _probed(spec: RunSpec, chosen: PlanChoice, opened: OpenedEvents, phase: Phase) -> PlanChoice:
    """The candidate that measures best on the beginning of a stored trace, if that was asked for."""
    if not spec.planning.probe_s or not chosen.candidates or opened.live or opened.loaded is not None:
        return chosen
    from decopa.runs.preparation.probe import choose_by_probing

    phase("trying candidate plans")
    plan, line = choose_by_probing(chosen.candidates, opened.source, spec.limits, spec.planning.probe_s)
    return replace(chosen, plan=plan, notices=(*chosen.notices, *([] if line is None else [line])))


def with_defaults(spec: RunSpec, events: Any = None) -> RunSpec:
    """The spec with a runtime and, on Ray, the batch size that was asked for."""
    ray = spec.ray
    runtime = spec.runtime or ("ray" if asks_for_ray(spec) or is_spark_frame(events) else "local")
    if runtime == "ray" and spec.trace.batch_size is not None:
        ray = replace(ray, batch_size=spec.trace.batch_size)
    return replace(spec, runtime=runtime, ray=ray)


def check_alternatives(queries: Sequence[Query], way: Way) -> None:
    """Refuses OR with NOT where matches are published in parts.

    Two alternatives may find the same match. If a NOT holds one of them back, it may come after a part that has
    published the other, and would be published twice.
    """
    if way not in (Way.CHECKPOINTS, Way.LIVE_CHECKPOINTS):
        return
    for query in queries:
        held = [bool(branch.negations) for branch in query.branches]
        if len(held) > 1 and any(held):
            raise CheckpointError(
                f"query {query.name}: OR together with NOT cannot run with checkpoints; write one query for each "
                "alternative"
            )


def check_delivery(spec: RunSpec, queries: Sequence[Query], way: Way) -> None:
    """Refuses aggregates and folders where matches cannot be delivered like that."""
    in_parts = way not in (Way.LOCAL, Way.RAY, Way.SPARK)
    figures = next((query.name for query in queries if query.summary is not None), None)
    if in_parts and figures is not None:
        raise QueryError(
            f"the aggregates of query {figures} are known at the end of a run, but this one publishes matches as it "
            "goes on; leave them out, or run without --checkpoint, on a stored trace"
        )
    ranked = next((query for query in queries if query.ranking is not None), None)
    if in_parts and ranked is not None:
        raise QueryError(
            f"'{ranked.ranking}' of query {ranked.name} is about a whole result, but this run publishes matches as it "
            "goes on; leave it out, or run without --checkpoint, on a stored trace"
        )
    if spec.output is not None and spec.output.is_folder and not in_parts:
        check_folder(spec, queries)
    columns = {name for query in queries for name in (*query.positive_aliases, *query.columns)}
    if spec.output is not None and not spec.output.is_folder and not spec.count and len(columns) > MOST_COLUMNS:
        raise DecoPaError(
            f"the matches of these {len(queries):,} queries have {len(columns):,} columns, too many for one file; "
            "write a folder, which gets files for each query, or use the same aliases in all queries"
        )


def check_limit_policy(spec: RunSpec, way: Way) -> None:
    """Refuses to drop single queries where processes would have to agree on it, or matches are written already."""
    if spec.limits.on_limit != "drop-query":
        return
    if way is not Way.LOCAL:
        raise DecoPaError(
            "a query that exceeds a limit is dropped alone in the local runtime, on a stored trace; add --runtime "
            "local, or leave out --on-limit drop-query"
        )
    if spec.output is not None and spec.output.is_folder:
        raise DecoPaError("--on-limit drop-query goes with one output file, not with a folder of parts")


def check_adapt(spec: RunSpec, queries: Sequence[Query], way: Way) -> None:
    """Refuses what cannot be built again in the middle of a stream, or could not be undone."""
    if spec.adapt is None:
        return
    if spec.limits.spill is not None:
        raise DecoPaError(
            "--adapt and --spill exclude each other: a new plan is built in memory beside the old one; leave one out"
        )
    if spec.limits.on_limit == "drop-query":
        raise DecoPaError("--adapt and --on-limit drop-query exclude each other: a plan is changed as a whole")
    if way is Way.RAY:
        # At a cut the sinks hand matches over; figures and files are made in the units, which end with their plan.
        folder = spec.output is not None and spec.output.is_folder
        figures = any(query.summary is not None for query in queries)
        what = "--out none" if spec.count else "a folder of matches" if folder else "RETURN with aggregates"
        if spec.count or folder or figures:
            raise DecoPaError(
                f"--adapt on Ray hands over matches when the plan changes, which {what} does not make; write a file, "
                "or add --checkpoint, --runtime local, or leave out --adapt"
            )
    if spec.adapt.units is not None and not spec.adapt.units[0] <= (spec.planning.units or 1) <= spec.adapt.units[1]:
        fewest, most = spec.adapt.units
        raise PlanError(f"a run that takes {fewest} to {most} units cannot begin with {spec.planning.units or 1}")


def check_rules(spec: RunSpec, way: Way) -> None:
    """Refuses rules that come and go where nothing would keep them, or the plan."""
    if spec.rules is None:
        return
    if way not in (Way.CHECKPOINTS, Way.LIVE_CHECKPOINTS):
        raise DecoPaError("RunSpec.rules belong to a run with checkpoints; name a folder for these, or use open_run")
    if spec.adapt is not None:
        raise DecoPaError("rules that come and go and --adapt exclude each other: both change the plan; leave one out")


def _absent_types(queries: Sequence[Query], source: TraceSource, *, required: bool) -> tuple[str, ...]:
    """A type that never occurs is most likely a typing error: its query finds nothing."""
    missing = dict.fromkeys(name for query in queries for name in missing_types(query, source.schema))
    types = sorted(source.schema.event_types or ())
    if missing and required:
        shown = ", ".join(types[:20]) + (f" and {len(types) - 20:,} more" if len(types) > 20 else "")
        named = ", ".join(f"'{name}'" for name in missing)
        events = (
            event for query in queries for event in leaves(query.pattern) if not missing.keys().isdisjoint(event.types)
        )
        at = next((event.at for event in events), None)
        where = {} if at is None else {"line": at.line, "column": at.column}
        raise QueryError(
            f"no event of type {named} in {source.name}; its types are {shown}; correct the query, or name another "
            "column with --type",
            **where,
        )
    return tuple(f"no event of type '{name}' in the trace{did_you_mean(name, types)}" for name in missing)


def _check_conditions(queries: Sequence[Query], opened: OpenedEvents) -> None:
    """Refuses conditions that do not fit the columns of the events, before anything is measured or started."""
    source = opened.source
    if opened.live:
        asked = [one for query in queries for one in (*query.where, *query.returns)]
        for name in dict.fromkeys(attr.name for one in asked for attr in attributes(one)):
            if name not in source.schema.attributes:
                have = ", ".join(source.schema.attributes)
                raise TraceError(
                    f"the first events of the stream have no '{name}', which the query needs (they have {have}); if "
                    f"it comes later say what it holds, as in --schema {name}=float"
                )
    for query in queries:
        try:
            for branch in query.branches:
                bind(branch, source.schema)
        except QueryError as err:
            raise err if len(queries) == 1 else QueryError(f"query {query.name}: {err}") from err


def _statistics(
    planning: Planning, queries: Sequence[Query], opened: OpenedEvents, predictions: bool, phase: Phase
) -> tuple[tuple[Statistics | None, ...], tuple[str, ...], tuple[str, ...]]:
    """Statistics of each query, notices, and what the user should act on."""
    known = planning.known_statistics(len(queries))
    if known:
        return known, (), ()
    if planning.strategy == LEFT_DEEP or (planning.plan is not None and not predictions):
        return (), (), ()
    if opened.live:
        check_measurable(planning)
        told = "planned left-deep: a live stream cannot be measured beforehand; give --stats FILE for a better plan"
        return (), () if planning.plan is not None else (told,), ()
    phase("measuring rates and selectivities")
    asked, found = needs_statistics(planning), _measured(queries, opened)
    statistics = tuple(None if isinstance(one, StatisticsError) else one.statistics for one in found)
    notices = [line for one in found if not isinstance(one, StatisticsError) for line in one.notices]
    what = "no predictions" if planning.plan is not None else "planned left-deep"
    failed = [
        f"{f'query {query.name} ' if len(queries) > 1 else ''}{what}: {one}"
        for query, one in zip(queries, found, strict=True)
        if isinstance(one, StatisticsError)
    ]
    return statistics, (*notices, *failed), tuple(failed) if asked else ()


def _measured(queries: Sequence[Query], opened: OpenedEvents) -> list[Any]:
    """An Estimate for each query, or the StatisticsError that says why there is none."""
    if opened.loaded is None:
        return measure_each(queries, opened.source)
    from cluster.spark.stats import measure_on_spark

    try:
        return list(measure_on_spark(queries, opened.loaded.trace, nan_as_null=opened.source.format.nan_as_null))
    except StatisticsError as err:
        return [err] * len(queries)


def _crowding(plan: Plan, shufflers: int) -> tuple[str, ...]:
    """Refuses more processes than this machine has memory for; warns of far more than it has cores for."""
    processes, cores = len(Topology(plan, shufflers).units), os.cpu_count() or 1
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    most = int(0.8 * memory / _PROCESS_BYTES)
    if processes > most:
        raise DeployError(
            f"{processes:,} units are {processes:,} processes of about {_PROCESS_BYTES / 2**20:.0f} MiB each, and this "
            f"machine has {memory / 2**30:.0f} GiB; use --units {most} or fewer, or a cluster (--address)"
        )
    if processes > _CROWDED * cores:
        return (
            f"{processes:,} units share {cores:,} cores, so they do not run faster than {cores:,} units; to test how "
            "a plan scales use --emulate, or a cluster (--address)",
        )
    return ()
