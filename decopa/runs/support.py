"""Which option works on which way to run, and why not where it does not: one table.

Refusals, the table in docs/options.md and the tests of both come from `OPTIONS`. A way to run is a runtime together
with where events come from; it follows from the spec and the events.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from cluster.options import Placement, RayOptions
from decopa.choices import DEFAULT_MAX_FOLDER_BYTES
from decopa.errors import DecoPaError
from decopa.runs.spec import RunSpec


class Way(Enum):
    """A way to run, named as the documentation names it."""

    LOCAL = "local"
    RAY = "Ray"
    CHECKPOINTS = "Ray with checkpoints"
    SPARK = "Spark"
    LIVE_LOCAL = "live, local"
    LIVE_RAY = "live, Ray"
    LIVE_CHECKPOINTS = "live, Ray with checkpoints"
    STREAM = "decopa.stream"


_LIVE = (Way.LIVE_LOCAL, Way.LIVE_RAY, Way.LIVE_CHECKPOINTS)
_CHECKPOINTS = (Way.CHECKPOINTS, Way.LIVE_CHECKPOINTS)
_IN_PARTS = (Way.CHECKPOINTS, Way.STREAM, *_LIVE)
_STORED = (Way.LOCAL, Way.RAY, Way.CHECKPOINTS, Way.SPARK)
_IN_PROCESS = (Way.LOCAL, Way.LIVE_LOCAL)
_NO_RAY = "is about Ray; leave it out, or use --runtime ray"
_NOT_LIVE = "is about live streams; leave it out, or read one with --trace -"
_OWN_PACE = "replays stored traces; a live stream has its own pace: leave it out"
_DEFAULTS = RayOptions()


@dataclass(frozen=True)
class Option:
    """An option by the names that people know, who asks for it, and where it is refused for which reason."""

    flag: str
    value: str
    asked: Callable[[RunSpec], bool]
    refused: Mapping[Way, str] = field(default_factory=dict)


def _on(ways: tuple[Way, ...], reason: str) -> dict[Way, str]:
    return dict.fromkeys(ways, reason)


OPTIONS: tuple[Option, ...] = (
    Option("--units", "units", lambda spec: spec.planning.units is not None),
    Option("--strategy", "strategy", lambda spec: spec.planning.strategy is not None),
    Option("--plan", "Planning.plan", lambda spec: spec.planning.plan is not None),
    Option("--stats", "Planning.statistics", lambda spec: spec.planning.statistics is not None),
    Option("--batch-size", "TraceOptions.batch_size", lambda spec: spec.trace.batch_size is not None),
    Option(
        "--assume-sorted",
        "TraceOptions.assume_sorted",
        lambda spec: spec.trace.assume_sorted,
        _on((*_LIVE, Way.STREAM), "is about stored traces; say with --allowed-lateness how far events may be late")
        | _on((Way.SPARK,), "has no effect on Spark, which sorts every trace; leave it out"),
    ),
    Option(
        "--nan-as-null",
        "TraceOptions.nan_as_null",
        lambda spec: spec.trace.nan_as_null,
        _on((Way.STREAM,), "does not reach a streaming frame; replace NaN in Spark, with nanvl"),
    ),
    Option(
        "--allowed-lateness",
        "Lateness.allowed_us",
        lambda spec: spec.trace.lateness.allowed_us > 0,
        _on(_STORED, _NOT_LIVE),
    ),
    Option("--late", "Lateness.policy", lambda spec: spec.trace.lateness.policy != "fail", _on(_STORED, _NOT_LIVE)),
    Option(
        "--schema",
        "TraceOptions.kinds",
        lambda spec: bool(spec.trace.kinds),
        _on((Way.SPARK, Way.STREAM), "is about CSV and JSON lines that decopa reads; a data frame has a schema"),
    ),
    Option(
        "--bad-rows divert",
        "BadRows.policy",
        lambda spec: spec.trace.bad_rows.policy == "divert",
        _on((Way.SPARK, Way.STREAM), "does not reach rows that Spark reads; leave them out there, with a filter"),
    ),
    Option(
        "--address",
        "RayOptions.address",
        lambda spec: spec.ray.address is not None,
        _on(_IN_PROCESS, _NO_RAY),
    ),
    Option(
        "--shufflers",
        "RayOptions.shufflers",
        lambda spec: spec.ray.shufflers != _DEFAULTS.shufflers,
        _on(_IN_PROCESS, _NO_RAY),
    ),
    Option(
        "--sinks",
        "RayOptions.sinks",
        lambda spec: spec.ray.sinks != _DEFAULTS.sinks,
        _on(_IN_PROCESS, _NO_RAY),
    ),
    Option(
        "--compress",
        "FlushPolicy.compression",
        lambda spec: spec.ray.policy.compression is not None,
        _on(_IN_PROCESS, _NO_RAY),
    ),
    Option(
        "--placement",
        "Placement.strategy",
        lambda spec: spec.ray.placement.strategy != Placement().strategy,
        _on(_IN_PROCESS, _NO_RAY),
    ),
    Option("--pin", "Placement.pins", lambda spec: bool(spec.ray.placement.pins), _on(_IN_PROCESS, _NO_RAY)),
    Option(
        "--wait-for-nodes",
        "RayOptions.wait_for_nodes_s",
        lambda spec: spec.ray.wait_for_nodes_s is not None,
        _on(_IN_PROCESS, _NO_RAY),
    ),
    Option(
        "--speed",
        "Replay.speed",
        lambda spec: spec.ray.replay.speed is not None,
        _on(_IN_PROCESS, _NO_RAY) | _on((Way.LIVE_RAY, Way.LIVE_CHECKPOINTS, Way.STREAM), _OWN_PACE),
    ),
    Option(
        "--rate",
        "Replay.rate",
        lambda spec: spec.ray.replay.rate is not None,
        _on(_IN_PROCESS, _NO_RAY) | _on((Way.LIVE_RAY, Way.LIVE_CHECKPOINTS, Way.STREAM), _OWN_PACE),
    ),
    Option("--emulate", "RayOptions.emulate", lambda spec: bool(spec.ray.emulate), _on(_IN_PROCESS, _NO_RAY)),
    Option(
        "--spill",
        "Limits.spill",
        lambda spec: spec.limits.spill is not None,
        _on(_CHECKPOINTS, "and --checkpoint exclude each other: a checkpoint copies rows from memory"),
    ),
    Option(
        "--overwrite",
        "Output.overwrite",
        lambda spec: spec.output is not None and spec.output.overwrite,
        _on(_CHECKPOINTS, "replaces a file; a run with checkpoints continues in its folder: leave it out"),
    ),
    Option(
        "--out none",
        "count",
        lambda spec: spec.count,
        _on(_IN_PARTS, "counts matches at the end, but this run publishes them as it goes on; name a folder"),
    ),
    Option(
        "--order",
        "order",
        lambda spec: spec.order is not None,
        _on(_IN_PARTS, "is that of a whole result; parts are in canonical order each: leave it out"),
    ),
    Option(
        "--max-out-mb",
        "Output.max_bytes",
        lambda spec: spec.output is not None and spec.output.max_bytes != DEFAULT_MAX_FOLDER_BYTES,
        _on(_IN_PARTS, "limits folders that are published at the end; leave it out"),
    ),
    Option(
        "--adapt",
        "adapt",
        lambda spec: spec.adapt is not None,
        _on(
            (Way.SPARK,), "keeps the last events, which stay in Ray's object store with --spark; leave out one of both"
        ),
    ),
)


def way_of(spec: RunSpec, *, live: bool, spark: bool, replayable: bool = True) -> Way:
    """The way that a spec with a runtime runs; refuses checkpoints where there can be none: on a stream that is not
    `replayable`."""
    on_ray = spec.runtime == "ray"
    if spec.checkpoints is not None:
        for impossible, reason in (
            (not on_ray, "checkpoints are kept by Ray's actors; use --runtime ray, or leave out --checkpoint"),
            (spark, "checkpoints read the trace again from a place in it, which Spark cannot; leave out --spark"),
            (
                live and not replayable,
                "this stream cannot be read again, so it has no checkpoints; use a topic, a folder or a stored trace",
            ),
        ):
            if impossible:
                raise DecoPaError(reason)
        return Way.LIVE_CHECKPOINTS if live else Way.CHECKPOINTS
    if spark:
        if not on_ray:
            raise DecoPaError("--spark runs on Ray; leave it out, or use --runtime ray")
        if live:
            raise DecoPaError("--spark reads stored traces; for a stream use decopa.stream, or leave out --spark")
        return Way.SPARK
    if live:
        return Way.LIVE_RAY if on_ray else Way.LIVE_LOCAL
    return Way.RAY if on_ray else Way.LOCAL


def asks_for_ray(spec: RunSpec) -> bool:
    """Whether somebody who asks for this expects Ray: units, a cluster, or an option that only Ray has."""
    wanted = spec.planning.units is not None or spec.checkpoints is not None or spec.trace.spark
    return wanted or any(option.refused.get(Way.LOCAL) == _NO_RAY and option.asked(spec) for option in OPTIONS)


def check_supported(spec: RunSpec, way: Way) -> None:
    """Refuses the first option that the spec asks for and the way does not have."""
    for option in OPTIONS:
        if way in option.refused and option.asked(spec):
            raise DecoPaError(f"{option.flag} {option.refused[way]}")


def markdown_table() -> str:
    """The table for the documentation: a row for each option, a column for each way."""
    lines = [
        "| option | in Python | " + " | ".join(way.value for way in Way) + " |",
        "| --- | --- | " + " | ".join(":-:" for _ in Way) + " |",
    ]
    for option in OPTIONS:
        cells = ["no" if way in option.refused else "yes" for way in Way]
        lines.append(f"| `{option.flag}` | `{option.value}` | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"
