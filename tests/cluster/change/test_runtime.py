"""A local run whose plan changes while it goes on: one change at a time, and none that cannot be made."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any, cast

import pyarrow as pa
import pytest

from cluster.change.loop import Adaptable, AdaptLoop
from cluster.change.outcome import ChangeAbandoned, Switched
from cluster.change.runtime import AdaptingRuntime
from decopa.language.text.parser import parse
from decopa.planning.plan import Plan
from decopa.planning.spread import spread_units
from decopa.planning.strategies.left_deep import left_deep
from shuffler.source.trace import open_trace
from tests.support.engine import table_of

pytestmark = pytest.mark.usefixtures("without_compiling")

QUERY = parse("PATTERN SEQ(A a, B b, C c) WITHIN 9 us")
EVENTS = table_of([{"id": at, "ts": at, "type": "ABC"[at % 3]} for at in range(90)])
#: Each is split differently from the others, so that it is built from the history.
ORDERS = {2: ("a", "b", "c"), 4: ("c", "b", "a"), 6: ("a", "c", "b")}
PLANS = [Plan((spread_units(left_deep(QUERY, order), units),)) for units, order in ORDERS.items()]


class Impatient:
    """Asks for two other plans at once after some batches."""

    def __init__(self, run: Adaptable) -> None:
        self._run, self._steps = run, 0
        self.asked: list[Future[Switched]] = []

    def step(self, ts_us: int) -> None:
        self._steps += 1
        if self._steps == 10:
            self.asked = [self._run.change(plan) for plan in PLANS[1:]]


class Fickle(Impatient):
    """Does not want the first of them any more once it is being built."""

    def step(self, ts_us: int) -> None:
        self._steps += 1
        if self._steps == 10:
            self.asked.append(self._run.change(PLANS[1]))
            self.asked[0].cancel()
            self.asked.append(self._run.change(PLANS[2]))


def played(
    kind: type[Impatient] = Impatient, **options: Any
) -> tuple[list[dict[str, Any]], AdaptingRuntime, list[Future[Switched]]]:
    loops: list[Impatient] = []

    def loop_of(run: Adaptable) -> AdaptLoop:
        loops.append(kind(run))
        return cast(AdaptLoop, loops[0])

    source = open_trace(iter(EVENTS.to_batches(max_chunksize=3)))
    run = AdaptingRuntime(PLANS[0], source, loop_of, is_live=True, batch_size=3, **options)
    tables = [table for new in run.live() for table in new.tables]
    return pa.concat_tables(tables).select(["a", "b", "c"]).to_pylist(), run, loops[0].asked


def expected() -> int:
    times = {kind: [at for at in range(90) if "ABC"[at % 3] == kind] for kind in "ABC"}
    return sum(a < b < c <= a + 9 for a in times["A"] for b in times["B"] for c in times["C"])


def test_changes_that_are_asked_for_at_once_are_made_one_after_the_other() -> None:
    found, run, asked = played()
    assert len(found) == expected() == len({tuple(match.values()) for match in found})
    first, second = (one.result(0) for one in asked)
    assert 30 <= first.at_event <= second.at_event < 90 and first.seeded and second.seeded
    assert run.plan == PLANS[2].with_keys


def test_a_change_that_nobody_wants_any_more_is_not_made() -> None:
    found, run, asked = played(Fickle)
    assert len(found) == expected()
    assert asked[0].cancelled() and asked[1].result(0).at_event > 30
    assert run.plan == PLANS[2].with_keys


def test_a_change_without_history_is_abandoned_and_the_old_plan_stays() -> None:
    found, run, asked = played(max_history_bytes=1)
    assert len(found) == expected()
    assert all(isinstance(one.exception(0), ChangeAbandoned) and "kept" in str(one.exception(0)) for one in asked)
    assert run.plan == PLANS[0].with_keys
