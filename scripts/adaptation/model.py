"""What the thesis printed, and what a model of our plans says, for every inflation factor.

An operator on u units that deals out C and broadcasts N gets C + uN rows; on one unit C + N; with N dealt out N + uC.
"""

from __future__ import annotations

import statistics

from costmodel.drift.inflation import FACTORS, saving
from scripts.adaptation.stream import Drift

#: The thesis' Tables 2 and 3: mean saving in percent over the networks that have a row for the factor, losses counted,
#: and the worst and best of them. Columns as corrected: the first one is without repair.
PRINTED: dict[float, tuple[float, int, int]] = {
    0.2: (-26.7, -98, 0),
    0.5: (14.8, -3, 64),
    0.7: (24.8, 0, 81),
    1.0: (33.2, 12, 87),
    1.3: (33.0, 8, 87),
    1.5: (31.6, -5, 85),
    2.0: (33.3, -11, 88),
    3.0: (33.5, -24, 85),
    4.0: (32.6, -36, 82),
    5.0: (31.7, -49, 81),
    10.0: (27.8, -60, 69),
}
#: How long after inflation the thesis' code lets the new plan take over.
TRANSITION_S = 8.0
assert tuple(PRINTED) == FACTORS


def printed_mean() -> float:
    return statistics.mean(mean for mean, _, _ in PRINTED.values())


def static_rows(drift: Drift, units: int) -> float:
    """Rows to the units of a plan that never changes."""
    return drift.events("C") + units * drift.events("N")


def adaptive_rows(drift: Drift, units: int, *, one_unit: bool) -> float:
    """Rows with a change eight seconds after inflation: to one unit, or to the other side dealt out; the plan stays
    where the change would not save anything."""
    cut_s = drift.inflated_from_s + TRANSITION_S
    early = {name: drift.events(name, until_s=cut_s) for name in ("C", "N")}
    late = {name: drift.events(name) - early[name] for name in ("C", "N")}
    other = late["C"] + late["N"] if one_unit else late["N"] + units * late["C"]
    return early["C"] + units * early["N"] + min(late["C"] + units * late["N"], other)


def model_saving(drift: Drift, units: int, *, one_unit: bool) -> float:
    """The saving in percent that the model predicts."""
    return saving(static_rows(drift, units), adaptive_rows(drift, units, one_unit=one_unit))
