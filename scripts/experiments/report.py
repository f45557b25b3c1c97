"""All sections as one Markdown report."""

from __future__ import annotations

import platform
import re
from collections.abc import Sequence
from pathlib import Path

from scripts.experiments.context import Context, Section

_HEAD = (
    "# The DecoPa paper's tables and figures\n\n"
    "Made by `scripts/paper_experiments`; every section names its own command, and `--only` renews only the sections "
    "it names. All numbers are predictions of the cost model (c: the largest factor by which the rates may grow), none "
    "are measurements of the engine. `decopa` is our default planner, `decopa-paper` the paper's Algorithm 1, "
    "`hybrid`, `state`, `rip` and `centralized` the baselines of section 7.1.\n"
)
_MARK = re.compile(r"\n<!-- section (\S+) -->\n")


def write_report(context: Context, sections: Sequence[tuple[Section, float]], order: Sequence[str]) -> Path:
    """Writes `report.md` with the given sections and how long they took; others that it had stay as they are."""
    path = context.out / "report.md"
    parts = _MARK.split(path.read_text()) if path.exists() else [""]
    texts = dict(zip(parts[1::2], parts[2::2], strict=True))
    for section, seconds in sections:
        made = f"*{seconds:.0f} s, {context.jobs} processes, Python {platform.python_version()}.*"
        texts[section.name] = f"\n## {section.title}\n\n{section.body}\n{made}\n"
    body = "".join(f"\n<!-- section {name} -->\n{texts[name]}" for name in order if name in texts)
    path.write_text(_HEAD + body)
    return path
