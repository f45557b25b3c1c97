"""`scripts/adaptivity`: the thesis' inflation experiment on our runtime, its table beside ours.

SEQ and AND of N and C on 3 and 5 units, ten minutes of event time each, N inflated from the third minute on to each
factor times C. The same events run under the plan that stays, under the thesis' scheme, and under our monitor. Counted
are the rows that go to units, which do not depend on the machine. With --three, SEQ and AND of A, B and C beside.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from costmodel.drift.inflation import FACTORS, Inflation
from decopa.report.table import markdown_table
from scripts.adaptation.kept import Kept
from scripts.adaptation.portions import KEY, is_kept, played
from scripts.adaptation.report import Row, plot, rows_table, savings_table, verdicts
from scripts.adaptation.runs import Case
from scripts.adaptation.stream import SHARE, inflated_by
from scripts.adaptation.three import three_types

_ROOT = Path(__file__).resolve().parents[2]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="scripts/adaptivity", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--factors", type=_factor, nargs="+", default=list(FACTORS), help="which of the 11 factors")
    parser.add_argument("--operators", nargs="+", choices=("SEQ", "AND"), default=["SEQ", "AND"])
    parser.add_argument("--units", type=int, nargs="+", choices=(3, 5), default=[3, 5])
    parser.add_argument("--rate", type=float, default=40.0, help="C events a second (default 40)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--three", action="store_true", help="also three types, against the model of traffic")
    parser.add_argument("--resume", action="store_true", help="keep the runs that are in the folder already")
    parser.add_argument("--budget", type=float, default=math.inf, help="begin no run after so many seconds")
    parser.add_argument("--out", type=Path, default=_ROOT / "docs" / "experiments" / "adaptivity", help="folder")
    chosen = parser.parse_args(arguments)
    if chosen.rate <= 0:
        parser.error("--rate must be positive")
    kept = Kept(chosen.out / "runs.csv", KEY, resume=chosen.resume)
    rows = list(_rows(chosen, kept))
    if not rows:
        print("no case is complete; give a larger --budget, and --resume to go on", file=sys.stderr)
        return 1
    tables = [savings_table(rows), rows_table(rows)]
    if chosen.three:
        tables += [
            markdown_table(*three_types(chosen.factors, chosen.rate, chosen.seed, inflation, kept))
            for inflation in (Inflation.MAX, Inflation.SUM)
        ]
    checks = verdicts(rows)
    lines = [f"- {'yes' if holds else 'NO'}: {claim}" for claim, holds in checks]
    wanted = len(chosen.units) * len(chosen.operators) * len(chosen.factors)
    if len(rows) < wanted:
        lines.append(f"- {wanted - len(rows)} of {wanted} cases have not been run; --resume goes on with them")
    text = "\n\n".join([*tables, "\n".join(lines)]) + "\n"
    chosen.out.mkdir(parents=True, exist_ok=True)
    (chosen.out / "tables.md").write_text(text)
    plot(rows, chosen.out / "savings.png")
    print(text)
    return 0 if all(holds for _, holds in checks) else 1


def _rows(chosen: argparse.Namespace, kept: Kept) -> Iterator[Row]:
    ends = time.monotonic() + chosen.budget
    for units in chosen.units:
        for operator in chosen.operators:
            for alpha in chosen.factors:
                drift = inflated_by(alpha, chosen.rate, {"N": SHARE})
                case = Case(operator, drift, units, one_unit=units == 3)
                key = (f"{operator}(N, C)", str(units), f"{alpha:g}", f"{chosen.rate:g}", str(chosen.seed))
                if time.monotonic() >= ends and not is_kept(key, kept):
                    continue
                row = Row(alpha, case, *played(case, key, chosen.seed, kept))
                print(f"{row.name}, factor {alpha:g}: {row.saved:.1f} % saved", file=sys.stderr, flush=True)
                yield row


def _factor(text: str) -> float:
    value = float(text)
    if value not in FACTORS:
        raise argparse.ArgumentTypeError(f"{text} is none of the thesis' factors {', '.join(map(str, FACTORS))}")
    return value


if __name__ == "__main__":
    sys.exit(main())
