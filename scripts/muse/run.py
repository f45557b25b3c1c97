"""`scripts/muse_experiments`: the MuSE paper's table and figures beside ours; writes CSV and one Markdown report."""

from __future__ import annotations

import argparse
import platform
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from scripts.experiments.context import Context
from scripts.muse import case_study, figures

EXPERIMENTS = {module.NAME: module.run for module in (case_study, figures)}
_ROOT = Path(__file__).resolve().parents[2]
_HEAD = (
    "# The MuSE paper's table and figures\n\nMade by `scripts/muse_experiments`. All numbers are predictions of the "
    "paper's cost model, in matches per window. `search` is our planner; `search+reducers` may also send events that "
    "have a partner instead of matches; `amuse` and `amuse-star` are the paper's algorithms as printed, errata "
    "applied; `oop` is optimal operator placement.\n"
)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="scripts/muse_experiments", description=__doc__)
    parser.add_argument(
        "--out", type=Path, default=_ROOT / "docs" / "experiments" / "muse", help="folder for all output"
    )
    parser.add_argument("--seeds", type=int, default=3, help="random networks per point of a figure (default 3)")
    parser.add_argument("--only", nargs="+", choices=EXPERIMENTS, default=list(EXPERIMENTS), help="which experiments")
    parser.add_argument("--quick", action="store_true", help="two points per figure")
    parser.add_argument("--shared", type=Path, default=_ROOT.parent / "shared", help="folder with the paper's inputs")
    chosen = parser.parse_args(arguments)
    if chosen.seeds < 1:
        parser.error("--seeds must be at least 1")
    if not (chosen.shared / "data" / "muse" / "inputs.json").is_file():
        parser.error(f"no {chosen.shared / 'data' / 'muse' / 'inputs.json'}; see --shared")
    chosen.out.mkdir(parents=True, exist_ok=True)
    context = Context(chosen.out, chosen.shared, chosen.seeds, chosen.quick, 1)
    sections = []
    for name in chosen.only:
        started = time.perf_counter()
        section = EXPERIMENTS[name](context)
        seconds = time.perf_counter() - started
        print(f"{name}: {seconds:.0f} s", file=sys.stderr, flush=True)
        sections.append(
            f"\n## {section.title}\n\n{section.body}\n*{seconds:.0f} s, Python {platform.python_version()}.*\n"
        )
    report = chosen.out / ("report.md" if len(chosen.only) == len(EXPERIMENTS) else f"{'_'.join(chosen.only)}.md")
    report.write_text(_HEAD + "".join(sections))
    print(report)
    return 0


if __name__ == "__main__":
    sys.exit(main())
