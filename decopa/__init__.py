"""decopa: parallel complex event processing. See `decopa.run` and the command line `decopa --help`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from actors.columnar.memory import Spill
    from actors.group import Limits
    from cluster.change.switches import PlanSwitch
    from cluster.options import Checkpoints, Placement, RayOptions
    from costmodel.capacity import Capacity
    from costmodel.statistics import Statistics
    from decopa.api import (
        calibrate,
        make_plan,
        open_durable_run,
        open_run,
        plan,
        resume,
        run,
        run_detailed,
        run_with_checkpoints,
        scale,
        session,
        stats,
        stream,
        watch,
    )
    from decopa.choices import Objective, Reading
    from decopa.errors import (
        CheckpointError,
        DecoPaError,
        DecoPaWarning,
        DeployError,
        LimitError,
        OutputError,
        PlanError,
        QueryError,
        StatisticsError,
        TraceError,
    )
    from decopa.language.text.parser import parse, parse_workload
    from decopa.planning.change.options import Adapt
    from decopa.planning.plan import Plan
    from decopa.query.query import Query
    from decopa.query.rewrite.timeouts import timed_out
    from decopa.report.explain import explain
    from decopa.runs.folder import MatchFolder
    from decopa.runs.result import RunResult
    from decopa.runs.scaling.scale_test import ScaleSettings
    from decopa.runs.spec import Output, Planning, Rules, RunSpec, TraceOptions
    from decopa.runs.streams.durable_run import DurableRun
    from decopa.runs.streams.live import LiveRun, LiveSummary
    from decopa.runs.streams.open_run import OpenRun
    from decopa.runs.watch import Watch
    from shuffler.rows.events import TraceColumns
    from shuffler.source.dead_letters import BadRows
    from shuffler.source.lateness import Lateness
    from shuffler.source.pacing import Replay

__version__ = "0.1.0"
#: Where the public names live; they load on first use, so that `import decopa` is quick and Ray loads only when needed.
_HOMES = {
    "actors.columnar.memory": ("Spill",),
    "actors.group": ("Limits",),
    "cluster.change.switches": ("PlanSwitch",),
    "cluster.options": (
        "Checkpoints",
        "Placement",
        "RayOptions",
    ),
    "costmodel.capacity": ("Capacity",),
    "costmodel.statistics": ("Statistics",),
    "decopa.api": (
        "calibrate",
        "make_plan",
        "open_durable_run",
        "open_run",
        "plan",
        "resume",
        "run",
        "run_detailed",
        "run_with_checkpoints",
        "scale",
        "session",
        "stats",
        "stream",
        "watch",
    ),
    "decopa.choices": (
        "Objective",
        "Reading",
    ),
    "decopa.errors": (
        "CheckpointError",
        "DecoPaError",
        "DecoPaWarning",
        "DeployError",
        "LimitError",
        "OutputError",
        "PlanError",
        "QueryError",
        "StatisticsError",
        "TraceError",
    ),
    "decopa.language.text.parser": (
        "parse",
        "parse_workload",
    ),
    "decopa.planning.change.options": ("Adapt",),
    "decopa.planning.plan": ("Plan",),
    "decopa.query.query": ("Query",),
    "decopa.query.rewrite.timeouts": ("timed_out",),
    "decopa.report.explain": ("explain",),
    "decopa.runs.streams.durable_run": ("DurableRun",),
    "decopa.runs.streams.live": ("LiveRun", "LiveSummary"),
    "decopa.runs.folder": ("MatchFolder",),
    "decopa.runs.streams.open_run": ("OpenRun",),
    "decopa.runs.result": ("RunResult",),
    "decopa.runs.scaling.scale_test": ("ScaleSettings",),
    "decopa.runs.spec": (
        "Output",
        "Planning",
        "Rules",
        "RunSpec",
        "TraceOptions",
    ),
    "decopa.runs.watch": ("Watch",),
    "shuffler.rows.events": ("TraceColumns",),
    "shuffler.source.dead_letters": ("BadRows",),
    "shuffler.source.lateness": ("Lateness",),
    "shuffler.source.pacing": ("Replay",),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}
__all__ = [
    "Adapt",
    "BadRows",
    "Capacity",
    "CheckpointError",
    "Checkpoints",
    "DecoPaError",
    "DecoPaWarning",
    "DeployError",
    "DurableRun",
    "Lateness",
    "LimitError",
    "Limits",
    "LiveRun",
    "LiveSummary",
    "MatchFolder",
    "Objective",
    "OpenRun",
    "Output",
    "OutputError",
    "Placement",
    "Plan",
    "PlanError",
    "PlanSwitch",
    "Planning",
    "Query",
    "QueryError",
    "RayOptions",
    "Reading",
    "Replay",
    "Rules",
    "RunResult",
    "RunSpec",
    "ScaleSettings",
    "Spill",
    "Statistics",
    "StatisticsError",
    "TraceColumns",
    "TraceError",
    "TraceOptions",
    "Watch",
    "calibrate",
    "explain",
    "make_plan",
    "open_durable_run",
    "open_run",
    "parse",
    "parse_workload",
    "plan",
    "resume",
    "run",
    "run_detailed",
    "run_with_checkpoints",
    "scale",
    "session",
    "stats",
    "stream",
    "timed_out",
    "watch",
]


def _check_own_packages() -> None:
    """Refuses a module of the user that stands in the way of a package of ours: its import would fail with a riddle."""
    from importlib.util import find_spec
    from pathlib import Path

    home = Path(__file__).resolve().parents[1]
    for name in ("actors", "cluster", "costmodel", "shuffler"):
        found = find_spec(name)
        origin = None if found is None else found.origin
        if origin is not None and Path(origin).resolve().parents[1] != home:
            raise ImportError(f"'{origin}' hides decopa's package '{name}'; rename it, or run from another folder")


def __getattr__(name: str) -> Any:
    """Loads a public name, or the module `builder`, on first use."""
    import importlib

    if name == "builder":
        return importlib.import_module("decopa.language.builder")
    if name not in _HOME:
        raise AttributeError(f"module 'decopa' has no attribute '{name}'")
    if "IPython" in sys.modules:  # values draw themselves in a notebook
        importlib.import_module("decopa.report.notebook").install()
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "builder"})


_check_own_packages()
