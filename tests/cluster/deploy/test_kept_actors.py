"""In a session the actors of a run are there for the next one, which finds what it would find alone."""

from __future__ import annotations

import pyarrow as pa
import pytest
import ray

import decopa
from actors.group import Limits
from cluster.deploy.kept_actors import kept_actors
from decopa.errors import LimitError
from tests.support.mirrored import RARE_A, RARE_C, stream
from tests.support.ray_changes import left_behind

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("without_compiling")]

QUERY = "PATTERN SEQ(A a, B b) WHERE a.x = b.x WITHIN 10 s"


def actors_of() -> dict[str, int]:
    """The processes that are kept, by name."""
    keeping = kept_actors()
    assert keeping is not None and keeping._ensemble is not None
    ensemble = keeping._ensemble
    actors = {**ensemble.sinks, **ensemble.units, **ensemble.shufflers}
    return {name: ray.get(actor.pid.remote()) for name, actor in actors.items()}


def check(query: str, events: pa.Table, **options: int) -> None:
    assert decopa.run(query, events, runtime="ray", **options).equals(decopa.run(query, events, runtime="local"))


def test_a_run_takes_over_the_actors_of_the_one_before(ray_cluster: None) -> None:
    one, other = stream([(60, RARE_A)]), stream([(90, RARE_C)], seed=2)
    with decopa.session():
        check(QUERY, one, units=2)
        first = actors_of()
        check(QUERY.replace("=", "<"), other, units=2)
        assert actors_of() == first
        ray.kill(next(iter(kept_actors()._ensemble.units.values())))  # type: ignore[union-attr]
        check(QUERY, other, units=2)
        assert len(actors_of().items() & first.items()) == len(first) - 1
        check(QUERY, one, units=1)
        assert len(actors_of()) == len(first) - 1
        with pytest.raises(LimitError):
            decopa.run(QUERY, one, runtime="ray", units=1, limits=Limits(max_state_bytes=1))
        assert left_behind() == []  # who has failed is not kept
        check(QUERY, one, units=1)
    assert left_behind() == []
