"""RunSpecs of the functions that users call."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from actors.group import Limits
from cluster.options import Checkpoints, RayOptions
from decopa.errors import OutputError
from decopa.runs.spec import Output, Planning, RunSpec, TraceOptions


def durable(
    spec: RunSpec, events: str | Path, out: str | Path | Output, checkpoint: str | Path | Checkpoints
) -> RunSpec:
    """The spec of a run with checkpoints that reads a stored trace or a stream, and publishes its matches."""
    return replace(
        spec,
        trace=replace(spec.trace, path=str(events)),
        output=out if isinstance(out, Output) else Output(str(out)),
        checkpoints=checkpoint if isinstance(checkpoint, Checkpoints) else Checkpoints(str(checkpoint)),
    )


def folder_of(out: str | Path | Output | None) -> Output | None:
    """The folder for matches; a table that is in memory anyway is written by its reader's own means."""
    output = out if out is None or isinstance(out, Output) else Output(str(out))
    if output is not None and not output.is_folder:
        raise OutputError(
            f"out={output.path!r} names a file, but runs in Python write folders; name a folder, or write the table "
            "with pyarrow.parquet.write_table"
        )
    return output


def spec_of(
    units: int | None,
    strategy: str | None,
    runtime: str | None,
    planning: Planning,
    trace: TraceOptions,
    limits: Limits,
    ray: RayOptions,
) -> RunSpec:
    """The spec of a call; `units` and `strategy` are short for those of `planning`."""
    planning = replace(
        planning,
        units=planning.units if units is None else units,
        strategy=planning.strategy if strategy is None else strategy,
    )
    return RunSpec(trace=trace, planning=planning, limits=limits, ray=ray, runtime=runtime)
