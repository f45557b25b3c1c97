"""The thesis' scheme on one operator: it falls back once, after five violations, whatever that costs."""

from __future__ import annotations

import numpy as np
import pytest

from decopa.errors import PlanError
from decopa.planning.change.repair import on_one_unit
from decopa.planning.change.thesis import ThesisScheme
from decopa.planning.plan import Plan
from tests.support.plan_text import leaves, operator, plan_of


def spread(units: int) -> Plan:
    """SEQ(N, C) on some units, with C dealt out."""
    return Plan((
        plan_of(
            "SEQ(N n, C c)",
            operator("n", "n"),
            operator("c", "c", partitioned=True),
            operator("o", "n c", "n c", units=units),
        ),
    ))  # fmt: skip


def alarms(units: int, inflated_from: int, rate: float, factor: float) -> list[tuple[float, float]]:
    scheme, found = ThesisScheme(spread(units)), []
    for second in range(1, 61):
        n_rate = rate * (factor if second > inflated_from else 0.05)
        events = {"N": second - 1 + np.arange(n_rate) / max(n_rate, 1), "C": second - 1 + np.arange(rate) / rate}
        decision = scheme.look(float(second), events)
        if decision is not None:
            assert decision.plan == on_one_unit(spread(units))
            found.append((decision.alarm_s, decision.cut_s))
    return found


def test_the_scheme_falls_back_once_after_five_violations_in_a_row() -> None:
    # 2 (0.05 x 100 (10 - k) + 100 k) > 1000 from k = 5 full seconds on: violated at 25 to 29.
    assert alarms(3, 20, 100, 1.0) == [(29.0, 37.0)]


def test_the_scheme_stays_while_the_inequality_holds() -> None:
    assert alarms(3, 20, 100, 0.4) == []
    assert alarms(5, 20, 100, 0.4) == [(30.0, 38.0)]  # 4 (5 (10 - k) + 40 k) > 1000 from k = 6 on


def test_one_unit_takes_everything_once() -> None:
    (part,) = on_one_unit(spread(5)).parts
    assert [part.roles(one).active_units for one in part.operators if one.inputs] == [1]


def test_a_plan_without_a_spread_operator_is_refused() -> None:
    with pytest.raises(PlanError, match="the plan has 0 of them"):
        ThesisScheme(spread(1))
    several = plan_of(
        "AND(A a, B b, C c, D d)",
        *leaves("a", "c"),
        operator("b", "b", partitioned=True),
        operator("d", "d", partitioned=True),
        operator("o1", "a b", "a b", units=2),
        operator("o2", "c d", "c d", units=2),
        operator("o3", "a b c d", "o1 o2"),
    )
    with pytest.raises(PlanError, match="the plan has 2 of them"):
        ThesisScheme(Plan((several,)))
