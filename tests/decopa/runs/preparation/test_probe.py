"""Probing: the plan that takes least on the beginning of the trace is run."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from actors.group import Limits
from decopa.api import run_detailed
from decopa.language.text.parser import parse
from decopa.planning.plan import Plan
from decopa.planning.strategies.left_deep import left_deep
from decopa.runs.preparation.probe import choose_by_probing, probe
from decopa.runs.spec import Planning
from shuffler.source.trace import open_trace

RNG = np.random.default_rng(2)
TYPES = RNG.choice(["A", "B", "C"], 3_000, p=[0.01, 0.495, 0.495])
TRACE = pa.table({"id": range(3_000), "ts": range(3_000), "type": TYPES, "s": [f"s{n % 7}" for n in range(3_000)]})
QUERY = parse("PATTERN AND(A a, B b, C c) WHERE a.s = b.s AND a.s != 's1' WITHIN 300 us")


@pytest.mark.slow  # compares processor times, which a busy machine distorts
def test_the_plan_that_takes_least_is_taken_and_told() -> None:
    frequent, rare = (Plan((left_deep(QUERY, order),)) for order in ("bca", "acb"))
    source = open_trace(TRACE)
    chosen, line = choose_by_probing([frequent, rare], source, Limits(), 20)
    assert chosen == rare
    assert line is not None and "number 2 was taken" in line
    chosen, line = choose_by_probing([rare, frequent], source, Limits(), 20)
    assert chosen == rare and line is None


def test_a_plan_that_takes_long_is_cut_off() -> None:
    plan = Plan((left_deep(QUERY, "bca"),))
    cut_off, whole = (probe(plan, open_trace(TRACE), Limits(), seconds) for seconds in (1e-9, 60))
    assert cut_off.events < whole.events == 3_000


def test_a_probed_run_finds_the_same_matches() -> None:
    plain = run_detailed(QUERY, TRACE, strategy="decopa", units=4, runtime="local")
    probed = run_detailed(QUERY, TRACE, planning=Planning(4, "decopa", probe_s=2.0), runtime="local")
    assert probed.matches.num_rows and probed.matches.equals(plain.matches)
