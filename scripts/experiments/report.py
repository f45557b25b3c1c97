"""All sections as one Markdown report."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from pathlib import Path

from scripts.experiments.context import Context, Section


def write_report(context: Context, sections: Sequence[Section], seconds: Mapping[str, float]) -> Path:
    """Writes `report.md` with the given sections; returns its path."""
    took = ", ".join(f"{name} {value:.0f} s" for name, value in seconds.items())
    head = [
        "# The DecoPa paper's tables and figures\n\n",
        "Made by `scripts/paper_experiments`; every section names its own command. All numbers are predictions of the "
        "cost model (c: the largest factor by which the rates may grow), none are measurements of the engine. `decopa` "
        "is our default planner, `decopa-paper` the paper's Algorithm 1, `hybrid`, `state`, `rip` and `centralized` "
        "the baselines of section 7.1.\n\n",
        f"Seeds per point: {context.seeds}{', quick mode' if context.quick else ''}. Python {platform.python_version()}, "
        f"{context.jobs} processes. Time: {took}.\n",
    ]
    parts = [f"\n## {section.title}\n\n{section.body}" for section in sections]
    path = context.out / "report.md"
    path.write_text("".join(head + parts))
    return path
