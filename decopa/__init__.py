"""decopa: parallel complex event processing. See `decopa.run` and the command line `decopa --help`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from actors.group import Limits
    from actors.state_memory import Spill
    from cluster.checkpoint.recovery import Checkpoints
    from cluster.options import Placement, RayOptions
    from costmodel.capacity import Capacity, Objective
    from costmodel.statistics import Statistics
    from decopa.api import RunResult, make_plan, plan, run, run_detailed
    from decopa.checkpointed import resume, run_with_checkpoints
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
    from decopa.planning.plan import Plan
    from decopa.query.parser import parse, parse_workload
    from decopa.query.query import Query
    from decopa.streaming import stream
    from shuffler.checks import TraceColumns
    from shuffler.dead_letters import BadRows
    from shuffler.lateness import Lateness
    from shuffler.pacing import Replay

__version__ = "0.1.0"
_HOME = {
    "Limits": "actors.group",
    "Spill": "actors.state_memory",
    "BadRows": "shuffler.dead_letters",
    "Lateness": "shuffler.lateness",
    "Placement": "cluster.options",
    "RayOptions": "cluster.options",
    "Replay": "shuffler.pacing",
    "RunResult": "decopa.api",
    "TraceColumns": "shuffler.checks",
    "Capacity": "costmodel.capacity",
    "Objective": "costmodel.capacity",
    "Statistics": "costmodel.statistics",
    "make_plan": "decopa.api",
    "plan": "decopa.api",
    "run": "decopa.api",
    "run_detailed": "decopa.api",
    "Checkpoints": "cluster.checkpoint.recovery",
    "resume": "decopa.checkpointed",
    "run_with_checkpoints": "decopa.checkpointed",
    "stream": "decopa.streaming",
    "CheckpointError": "decopa.errors",
    "DecoPaError": "decopa.errors",
    "DeployError": "decopa.errors",
    "LimitError": "decopa.errors",
    "PlanError": "decopa.errors",
    "QueryError": "decopa.errors",
    "StatisticsError": "decopa.errors",
    "TraceError": "decopa.errors",
    "Plan": "decopa.planning.plan",
    "parse": "decopa.query.parser",
    "parse_workload": "decopa.query.parser",
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
