"""Shufflers that read a stored trace themselves: the same matches, and no event through the driver."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import decopa
from actors.columnar.jit import interpreted
from cluster.feeding import TraceBlocks
from cluster.options import Placement, RayOptions
from decopa.traces.synthetic import SyntheticSpec

pytestmark = pytest.mark.ray
QUERY = "QUERY q PATTERN SEQ(A a, B b, C c) WHERE a.x < b.x AND a.s = c.s WITHIN 200 ms RETURN a.s"


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three files of four row groups each."""
    spec = SyntheticSpec(events=1_200, rate_per_s=1000, types=3, keys=10, zipf=0.5, seed=4)
    table = pa.Table.from_batches(list(spec.batches()))
    folder = tmp_path_factory.mktemp("trace")
    for number in range(3):
        pq.write_table(table.slice(400 * number, 400), folder / f"{number}.parquet", row_group_size=100)
    return folder


def run(trace: Path, *, shufflers: int = 1, placement: str = "SPREAD") -> pa.Table:
    options = RayOptions(shufflers=shufflers, placement=Placement(placement), metrics=False)
    with interpreted():
        return decopa.run(QUERY, trace, units=4, strategy="decopa", runtime="ray", ray=options)


@pytest.mark.parametrize("shufflers", [pytest.param(1, marks=pytest.mark.slow), 3])
def test_the_driver_reads_nothing_and_the_matches_are_the_same(
    shufflers: int, trace: Path, ray_cluster: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fed(self: TraceBlocks, attributes: object, skip: int = 0) -> None:
        raise AssertionError("the driver fed events")

    expected = decopa.run(QUERY, trace)
    monkeypatch.setattr(TraceBlocks, "feed_blocks", fed)
    found = run(trace, shufflers=shufflers)
    assert expected.num_rows > 10
    assert sorted(found.to_pylist(), key=repr) == sorted(expected.to_pylist(), key=repr)


def test_placement_by_edges_finds_the_same_matches(trace: Path, ray_cluster: None) -> None:
    found = run(trace, placement="EDGES")
    assert sorted(found.to_pylist(), key=repr) == sorted(decopa.run(QUERY, trace).to_pylist(), key=repr)
