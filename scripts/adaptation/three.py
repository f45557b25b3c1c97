"""The thesis' own queries, SEQ and AND of three types: rows counted under a plan, against the model of traffic."""

from __future__ import annotations

from collections.abc import Sequence

from costmodel.drift.inflation import Inflation, saving
from costmodel.formulas import ENGINE
from decopa.planning.change.traffic import rows_per_window
from scripts.adaptation.kept import Kept
from scripts.adaptation.portions import played
from scripts.adaptation.runs import WINDOW_US, Case
from scripts.adaptation.stream import Drift, inflated_by

#: The thesis' example of ratios: 0.9, 0.1 and 0.05.
OTHERS = {"A": 0.1 / 0.9, "B": 0.05 / 0.9}
UNITS = 4


def three_types(
    factors: Sequence[float], rate: float, seed: int, inflation: Inflation, kept: Kept
) -> tuple[list[str], list[list[str]]]:
    """Header and rows of a table: rows that units got under the plan that stays, the model's, and under our monitor."""
    header = [f"query, inflated by the {inflation.value}", "factor", "stays", "model", "monitor", "saved %", "cuts s"]
    lines = []
    for operator in ("SEQ", "AND"):
        for alpha in factors:
            drift = inflated_by(alpha, rate, OTHERS, inflation)
            case = Case(operator, drift, UNITS, one_unit=False)
            name = f"{operator}(A, B, C) by {inflation.value}"
            key = (name, str(UNITS), f"{alpha:g}", f"{rate:g}", str(seed))
            static, ours = played(case, key, seed, kept, strategies=("stays", "monitor"))
            lines.append(
                [
                    f"{operator}(A, B, C), {UNITS} units",
                    f"{alpha:g}",
                    f"{static.rows:,}",
                    f"{modelled_rows(case, drift):,.0f}",
                    f"{ours.rows:,}",
                    f"{saving(static.rows, ours.rows):.1f}",
                    ", ".join(f"{at:g}" for at in ours.changes) or "-",
                ]
            )
    return header, lines


def modelled_rows(case: Case, drift: Drift) -> float:
    """Rows of the plan that stays, by `traffic` with the engine's rates."""
    (part,) = case.plan.parts
    early, late = drift.inflated_from_s, drift.length_s - drift.inflated_from_s
    return sum(
        rows_per_window(part, case.statistics(rates), ENGINE) * seconds / (WINDOW_US / 1e6)
        for rates, seconds in ((drift.before, early), (drift.after, late))
    )
