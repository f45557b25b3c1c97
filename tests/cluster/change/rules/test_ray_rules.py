"""`decopa.open_run` on a real Ray: every version of every rule reports what it reports in one process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pyarrow as pa
import pytest

import decopa
from actors.columnar.jit import interpreted
from cluster.change.rules.versions import RuleError
from decopa.runs.streams.open_run import OpenRun
from decopa.traces.synthetic import SyntheticSpec

pytestmark = pytest.mark.ray

RULES = """QUERY pairs PATTERN SEQ(A a, B b) WHERE a.k = b.k WITHIN 100 ms;
QUERY calm PATTERN SEQ(A a, NOT(B b), C c) WHERE a.k = c.k AND a.k = b.k WITHIN 100 ms"""


@pytest.fixture(scope="module")
def events() -> pa.Table:
    spec = SyntheticSpec(events=1_500, rate_per_s=1_000, types=3, keys=10, zipf=0.5, seed=4)
    return pa.Table.from_batches(list(spec.batches()))


def act(run: OpenRun, step: int) -> None:
    """Changes that depend on how far the stream is alone."""
    now_us = run.reached_us or 0
    if step == 3:
        run.add("QUERY late PATTERN SEQ(B b, NOT(A a), C c) WHERE b.k = c.k WITHIN 80 ms", at=now_us + 1)
    elif step == 6:
        run.replace("pairs", "PATTERN SEQ(A a, C c) WHERE a.k = c.k WITHIN 50 ms", at=now_us + 20_000)
        with pytest.raises(RuleError, match="there is no rule 'unknown'"):
            run.remove("unknown")
    elif step == 9:
        run.remove("calm", at=now_us + 1)


def rows_with(run: OpenRun, change: Callable[[OpenRun, int], None]) -> list[pa.Table]:
    """Changes the rules after every hundred events, whatever has come of them by then."""
    done = -1
    feed = run._engine.feed

    def feeding(batch: object) -> None:
        nonlocal done
        feed(batch)
        if run.events // 100 > done:
            done = run.events // 100
            change(run, done)

    run._engine.feed = feeding
    with run:
        return [run.nothing, *run]


def reports(tables: list[pa.Table]) -> Counter[str]:
    """Rows as text; which columns a table has depends on the rules that report at the same moment."""
    rows = (row for table in tables for row in table.to_pylist())
    return Counter(repr(sorted((name, value) for name, value in row.items() if value is not None)) for row in rows)


def test_rules_come_and_go_on_ray_as_they_do_here(ray_cluster: None, events: pa.Table) -> None:
    trace = decopa.TraceOptions(batch_size=100)
    with interpreted():
        here = rows_with(decopa.open_run(RULES, events, trace=trace), act)
        there = rows_with(decopa.open_run(RULES, events, units=2, trace=trace), act)
    expected, found = (reports(tables) for tables in (here, there))
    assert expected.total() > 100
    assert {row for row in expected if "'late'" in row} and {row for row in expected if "'version', 2" in row}
    assert found == expected
