"""The papers' tiny streams through the engine."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import decopa
from actors.columnar.jit import interpreted
from tests.support.brute_force import canonical
from tests.support.engine import matches_of, table_of
from tests.support.golden_form import events_of, parsed, text_of
from tests.support.shared import needs_golden, semantics_cases

pytestmark = needs_golden


@pytest.mark.parametrize("case", semantics_cases(), ids=lambda case: case["id"])
@pytest.mark.parametrize("batch_size", [None, 1], ids=["one batch", "event by event"])
def test_the_engine_finds_the_golden_matches(case: dict[str, Any], batch_size: int | None) -> None:
    events = table_of(events_of(case["events"]), {"id": str})
    with interpreted():
        result = decopa.run(text_of(case["query"]), events, trace=decopa.TraceOptions(batch_size=batch_size))
    assert_golden(case, result)


@pytest.mark.slow
@pytest.mark.parametrize("case", semantics_cases(), ids=lambda case: case["id"])
def test_compiled_kernels_find_the_golden_matches(case: dict[str, Any]) -> None:
    events = table_of(events_of(case["events"]), {"id": str})
    assert_golden(case, decopa.run(text_of(case["query"]), events, trace=decopa.TraceOptions(batch_size=2)))


def assert_golden(case: dict[str, Any], result: pa.Table) -> None:
    found = matches_of(parsed(case["query"]), result)
    assert sorted(map(canonical, found)) == sorted(map(canonical, case["matches"]))
