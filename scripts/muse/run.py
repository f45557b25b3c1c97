"""`scripts/muse_experiments`: the MuSE paper's table and figures beside ours; writes CSV and Markdown."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from scripts.experiments.context import Context, Section
from scripts.muse import case_study, emulated, figures

EXPERIMENTS: dict[str, Callable[[Context], Section]] = {
    case_study.NAME: case_study.run,
    **{f"figure{sweep.figure}": partial(figures.run, sweep.figure) for sweep in figures.SWEEPS},
    emulated.NAME: emulated.run,
}
_ROOT = Path(__file__).resolve().parents[2]
_HEAD = (
    "# The MuSE paper's table and figures\n\nMade by `scripts/muse_experiments`, one file for each. Table 3 and "
    "Figures 5 to 7 are predictions of the paper's cost model, in matches per window; Figure 8 is measured. `search` "
    "is our planner; `search+reducers` may also send events that have a partner instead of matches; `amuse` and "
    "`amuse-star` are the paper's algorithms as printed, errata applied; `oop` is optimal operator placement.\n\n"
)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="scripts/muse_experiments", description=__doc__)
    parser.add_argument(
        "--out", type=Path, default=_ROOT / "docs" / "experiments" / "muse", help="folder for all output"
    )
    parser.add_argument("--seeds", type=int, default=3, help="random networks per point of a figure (default 3)")
    parser.add_argument("--only", nargs="+", choices=EXPERIMENTS, default=list(EXPERIMENTS), help="which experiments")
    parser.add_argument("--jobs", type=int, default=1, help="processes that plan (default 1)")
    parser.add_argument("--quick", action="store_true", help="two points per figure")
    parser.add_argument("--shared", type=Path, default=_ROOT.parent / "shared", help="folder with the paper's inputs")
    chosen = parser.parse_args(arguments)
    if chosen.seeds < 1:
        parser.error("--seeds must be at least 1")
    if not (chosen.shared / "data" / "muse" / "inputs.json").is_file():
        parser.error(f"no {chosen.shared / 'data' / 'muse' / 'inputs.json'}; see --shared")
    chosen.out.mkdir(parents=True, exist_ok=True)
    context = Context(chosen.out, chosen.shared, chosen.seeds, chosen.quick, chosen.jobs, "scripts/muse_experiments")
    for name in chosen.only:
        started = time.perf_counter()
        section = EXPERIMENTS[name](context)
        seconds = time.perf_counter() - started
        print(f"{name}: {seconds:.0f} s", file=sys.stderr, flush=True)
        made = f"*{context.command(name, seeds=name.startswith('figure'))}: {seconds:.0f} s.*"
        (chosen.out / f"{name}.md").write_text(f"# {section.title}\n\n{section.body}\n{made}\n")
    report = chosen.out / "report.md"
    report.write_text(_HEAD + "".join(_links(chosen.out)))
    print(report)
    return 0


def _links(folder: Path) -> Iterator[str]:
    """A line for each experiment that has been made, in their order."""
    for name in EXPERIMENTS:
        if (made := folder / f"{name}.md").is_file():
            title = made.read_text().splitlines()[0].removeprefix("# ")
            yield f"- [{title}]({name}.md)\n"


if __name__ == "__main__":
    sys.exit(main())
