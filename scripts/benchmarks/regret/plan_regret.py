"""Regret: what the plan that a strategy chooses takes, over what the best plan found takes; both are run.

Every query is run with the plan of every strategy and with random valid plans, in one process and bounded in time. Work
is comparisons; time is processor time of the run, the least of several if the plan may be the best one. What was
measured is stored query by query, so that a run may break off and go on with --resume. The paper's six queries are run
in several variants with the plan of `decopa` and with `left-deep` only.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from scripts.benchmarks.regret.regret_cases import all_cases, paper_cases
from scripts.benchmarks.regret.regret_report import load_results, one_line, report, save_results
from scripts.benchmarks.regret.regret_runs import STRATEGIES, Bench, measure_case


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/plan_regret", description=__doc__)
    parser.add_argument("--shared", type=Path, default=Path("../shared"), help="folder with data/ (default: ../shared)")
    parser.add_argument("--out", type=Path, default=Path("docs/benchmarks"), help="folder of the report")
    parser.add_argument("--units", type=int, default=4, help="processing units of every plan (default: 4)")
    parser.add_argument("--plans", type=int, default=20, help="random plans for each query (default: 20)")
    parser.add_argument("--bound", type=float, default=10.0, help="seconds after which a plan is cut off (default: 10)")
    parser.add_argument("--only", default="", help="cases whose name contains one of these (commas between them)")
    parser.add_argument("--resume", action="store_true", help="leave out queries that were measured already")
    parser.add_argument(
        "--choose-again", action="store_true", help="plan anew, and run only plans that were not measured already"
    )
    parser.add_argument("--budget", type=float, default=float("inf"), help="seconds after which no query is begun")
    parser.add_argument("--report", action="store_true", help="run nothing: write the report of what was measured")
    args = parser.parse_args()
    store = args.out / "plan_regret.json"
    begun = time.monotonic()
    for case in [] if args.report else [*all_cases(), *paper_cases()]:
        before = load_results(store).get(case.name)
        wanted = any(part.strip() in case.name for part in args.only.split(","))
        if not wanted or (args.resume and before is not None) or time.monotonic() - begun > args.budget:
            continue
        plans, strategies = (args.plans, STRATEGIES) if case in all_cases() else (0, ("decopa", "left-deep"))
        bench = Bench(case, args.shared, args.bound, before if args.choose_again else None)
        result = measure_case(bench, units=args.units, plans=plans, strategies=strategies)
        save_results(store, {**load_results(store), case.name: result})
        print(one_line(result), file=sys.stderr, flush=True)
    found = load_results(store)
    command = f"scripts/plan_regret --units {args.units} --plans {args.plans} --bound {args.bound:g}"
    regrets, papers = (
        [found[one.name] for one in cases if one.name in found] for cases in (all_cases(), paper_cases())
    )
    text = report(regrets, papers, command)
    (args.out / "plan_regret.md").write_text(text, encoding="utf-8")
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
