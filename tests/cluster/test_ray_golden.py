"""Worked examples, real traces, all strategies and random queries on Ray: what the local runtime finds, and no more."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

import decopa
from actors.columnar.jit import interpreted
from tests.golden.test_semantics import assert_golden
from tests.property.test_matches import ATTRIBUTES
from tests.support.brute_force import brute_force, canonical
from tests.support.engine import matches_of, table_of
from tests.support.examples import examples
from tests.support.golden_form import events_of, text_of
from tests.support.plans import plans
from tests.support.shared import needs_golden, semantics_cases
from tests.support.strategies import queries, streams

pytestmark = [pytest.mark.ray, pytest.mark.slow]

STRATEGIES = ("left-deep", "decopa", "hybrid", "state", "rip", "centralized")


@needs_golden
@pytest.mark.parametrize(("place", "case"), list(enumerate(semantics_cases())), ids=lambda one: str(one)[:40])
def test_the_golden_matches_are_found_on_ray(ray_cluster: None, place: int, case: dict[str, Any]) -> None:
    events = table_of(events_of(case["events"]), {"id": str})
    units = 1 + place % 8
    with interpreted():
        result = decopa.run(
            text_of(case["query"]), events, units=units, runtime="ray", trace=decopa.TraceOptions(batch_size=2)
        )
    assert_golden(case, result)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize(("file", "query"), [
    ("google_cluster_small.parquet", "PATTERN SEQ(D d, C c, E e) WHERE d.machine_id = c.machine_id WITHIN 60 s"),
    ("citibike_small.parquet", "PATTERN SEQ(D d, AND(H h, B b)) WHERE d.bike_id = h.bike_id WITHIN 24 h"),
])  # fmt: skip
def test_real_traces_give_the_same_on_ray(
    ray_cluster: None, shared: Path, file: str, query: str, strategy: str
) -> None:
    events = pq.read_table(shared / "data" / file)
    columns = decopa.TraceColumns(id="event_id")
    here = decopa.run(query, events, trace=decopa.TraceOptions(columns=columns))
    found = decopa.run(
        query, events, units=5, strategy=strategy, runtime="ray", trace=decopa.TraceOptions(columns=columns)
    )
    assert found.equals(here)
    assert here.num_rows


@settings(max_examples=examples(20))
@given(st.data())
def test_random_queries_plans_and_streams_give_what_the_brute_force_gives(
    ray_cluster: None, data: st.DataObject
) -> None:
    query = data.draw(queries(max_positions=4))
    events = data.draw(streams(query))
    plan = data.draw(plans(query))
    note(f"{query}\n{plan.to_json()}")
    options = decopa.RayOptions(shufflers=data.draw(st.integers(1, 3)), batch_size=data.draw(st.sampled_from((1, 3))))
    with interpreted():
        found = decopa.run(
            query, table_of(events, ATTRIBUTES), runtime="ray", ray=options, planning=decopa.Planning(plan=plan)
        )
    assert sorted(map(canonical, matches_of(query, found))) == list(map(canonical, brute_force(query, events)))
