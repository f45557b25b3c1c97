"""A Ray that starts while a run is prepared: the run uses it, and nothing is left of it however the run ends."""

from __future__ import annotations

import pyarrow as pa
import pytest
import ray

import decopa
from decopa.errors import QueryError
from decopa.runs.runtimes.early_ray import EarlyRay

pytestmark = [pytest.mark.ray, pytest.mark.slow]

EVENTS = pa.table({"id": [1, 2, 3], "ts": [1, 2, 3], "type": ["A", "B", "C"]})


@pytest.fixture(autouse=True)
def _no_ray() -> None:
    if ray.is_initialized():
        pytest.skip("this program is connected to a Ray already; run this file alone")


def test_a_run_uses_the_ray_that_was_begun_and_leaves_none() -> None:
    result = decopa.run("PATTERN SEQ(A a, B b) WITHIN 10 us", EVENTS, runtime="ray", units=1)
    assert result.num_rows == 1
    assert not ray.is_initialized()


def test_nothing_is_begun_for_a_query_that_does_not_fit() -> None:
    with pytest.raises(QueryError):
        decopa.run("PATTERN SEQ(A a, B b) WHERE a.nothing = 1 WITHIN 10 us", EVENTS, runtime="ray", units=1)
    assert not ray.is_initialized()


def test_a_plan_that_needs_more_places_gets_a_ray_that_has_them() -> None:
    with EarlyRay(None) as early:
        early.begin()
        with early.session(100):
            assert ray.cluster_resources()["CPU"] >= 100
    assert not ray.is_initialized()
