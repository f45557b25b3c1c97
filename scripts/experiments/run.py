"""`scripts/paper_experiments`: runs the experiments and writes CSV, PNG and one Markdown report."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from scripts.experiments import figures, optimum, planning_time
from scripts.experiments.as_published import authors, table3
from scripts.experiments.context import Context
from scripts.experiments.report import write_report

EXPERIMENTS = {module.NAME: module.run for module in (table3, authors, optimum, planning_time, figures)}
_ROOT = Path(__file__).resolve().parents[2]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="scripts/paper_experiments", description=__doc__)
    parser.add_argument("--out", type=Path, default=_ROOT / "docs" / "experiments", help="folder for all output")
    parser.add_argument("--seeds", type=int, default=50, help="random instances per point of a figure (default 50)")
    parser.add_argument("--only", nargs="+", choices=EXPERIMENTS, default=list(EXPERIMENTS), help="which experiments")
    parser.add_argument("--quick", action="store_true", help="50 queries instead of 500, short queries only")
    parser.add_argument("--shared", type=Path, default=_ROOT.parent / "shared", help="folder with the paper's inputs")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default 2); planning times are taken on one")
    chosen = parser.parse_args(arguments)
    if chosen.seeds < 1 or chosen.jobs < 1:
        parser.error("--seeds and --jobs must be at least 1")
    needs = {"table3", "authors"} & set(chosen.only)
    if needs and not (chosen.shared / "data" / "paper_table3.json").is_file():
        parser.error(f"no {chosen.shared / 'data' / 'paper_table3.json'}, which {sorted(needs)} need; see --shared")
    chosen.out.mkdir(parents=True, exist_ok=True)
    context = Context(chosen.out, chosen.shared, chosen.seeds, chosen.quick, chosen.jobs)
    for name in chosen.only:
        start = time.perf_counter()
        section = EXPERIMENTS[name](context)
        seconds = time.perf_counter() - start
        print(f"{name}: {seconds:.0f} s", file=sys.stderr, flush=True)
        report = write_report(context, [(section, seconds)], list(EXPERIMENTS))  # at once: a later one may fail
    print(report)
    return 0


if __name__ == "__main__":
    sys.exit(main())
