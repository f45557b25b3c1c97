"""decopa: parallel complex event processing. See `decopa.run` and the command line `decopa --help`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from actors.columnar.memory import Spill
    from actors.group import Limits
    from cluster.checkpoint.recovery import Checkpoints
    from cluster.options import Placement, RayOptions
    from costmodel.capacity import Capacity
    from costmodel.statistics import Statistics
    from decopa.choices import Objective
    from decopa.errors import (
        CheckpointError,
        DecoPaError,
        DeployError,
        LimitError,
        PlanError,
        QueryError,
        StatisticsError,
        TraceError,
    )
    from decopa.language.text.parser import parse, parse_workload
    from decopa.planning.plan import Plan
    from decopa.query.query import Query
    from decopa.runs.checkpointed import resume, run_with_checkpoints
    from decopa.runs.execute import RunResult, make_plan, plan, run, run_detailed
    from decopa.runs.streaming import stream
    from shuffler.rows.events import TraceColumns
    from shuffler.source.dead_letters import BadRows
    from shuffler.source.lateness import Lateness
    from shuffler.source.pacing import Replay

__version__ = "0.1.0"
_HOME = {
    "Limits": "actors.group",
    "Spill": "actors.columnar.memory",
    "BadRows": "shuffler.source.dead_letters",
    "Lateness": "shuffler.source.lateness",
    "Placement": "cluster.options",
    "RayOptions": "cluster.options",
    "Replay": "shuffler.source.pacing",
    "RunResult": "decopa.runs.execute",
    "TraceColumns": "shuffler.rows.events",
    "Capacity": "costmodel.capacity",
    "Objective": "decopa.choices",
    "Statistics": "costmodel.statistics",
    "make_plan": "decopa.runs.execute",
    "plan": "decopa.runs.execute",
    "run": "decopa.runs.execute",
    "run_detailed": "decopa.runs.execute",
    "Checkpoints": "cluster.checkpoint.recovery",
    "resume": "decopa.runs.checkpointed",
    "run_with_checkpoints": "decopa.runs.checkpointed",
    "stream": "decopa.runs.streaming",
    "CheckpointError": "decopa.errors",
    "DecoPaError": "decopa.errors",
    "DeployError": "decopa.errors",
    "LimitError": "decopa.errors",
    "PlanError": "decopa.errors",
    "QueryError": "decopa.errors",
    "StatisticsError": "decopa.errors",
    "TraceError": "decopa.errors",
    "Plan": "decopa.planning.plan",
    "parse": "decopa.language.text.parser",
    "parse_workload": "decopa.language.text.parser",
    "Query": "decopa.query.query",
}
__all__ = [
    "BadRows",
    "Capacity",
    "CheckpointError",
    "Checkpoints",
    "DecoPaError",
    "DeployError",
    "Lateness",
    "LimitError",
    "Limits",
    "Objective",
    "Placement",
    "Plan",
    "PlanError",
    "Query",
    "QueryError",
    "RayOptions",
    "Replay",
    "RunResult",
    "Spill",
    "Statistics",
    "StatisticsError",
    "TraceColumns",
    "TraceError",
    "make_plan",
    "parse",
    "parse_workload",
    "plan",
    "resume",
    "run",
    "run_detailed",
    "run_with_checkpoints",
    "stream",
]


def __getattr__(name: str) -> Any:
    """Loads the public names on first use: the packages below import `decopa.query` without what is above them."""
    if name not in _HOME:
        raise AttributeError(f"module 'decopa' has no attribute '{name}'")
    import importlib

    return getattr(importlib.import_module(_HOME[name]), name)
