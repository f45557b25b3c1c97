"""Bad rows on Ray: the rows that are left out, and so the matches, are those of a run in one process."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import decopa
from actors.columnar.jit import interpreted
from cluster.options import RayOptions
from decopa.errors import TraceError
from decopa.traces.synthetic import SyntheticSpec

pytestmark = pytest.mark.ray

QUERY = "PATTERN SEQ(A a, B b) WHERE a.x < b.x AND a.k = b.k WITHIN 100 ms"


@pytest.fixture(scope="module")
def spoiled() -> pa.Table:
    """Events of which some have no id, no number, or an id that was used before."""
    spec = SyntheticSpec(events=1_200, rate_per_s=1000, types=2, keys=5, zipf=0.5, seed=4)
    table = pa.Table.from_batches(list(spec.batches()))
    x = table["x"].to_numpy().copy()
    x[np.arange(7, 1_200, 50)] = np.nan
    ids = [f"e{n}" for n in range(1_200)]
    ids[40] = None  # type: ignore[call-overload]
    ids[500] = ids[499]
    place = table.schema.get_field_index
    return table.set_column(place("x"), "x", pa.array(x)).set_column(place("id"), "id", pa.array(ids))


def test_ray_leaves_out_what_a_run_in_one_process_leaves_out(
    spoiled: pa.Table, ray_cluster: None, tmp_path: Path
) -> None:
    files = {runtime: tmp_path / f"{runtime}.jsonl" for runtime in ("local", "ray")}
    with interpreted():
        results = {
            runtime: decopa.run_detailed(
                QUERY,
                spoiled,
                units=3,
                runtime=runtime,
                ray=RayOptions(shufflers=2) if runtime == "ray" else None,
                trace=decopa.TraceOptions(bad_rows=decopa.BadRows("divert", file)),
            )
            for runtime, file in files.items()
        }
    assert results["ray"].matches.equals(results["local"].matches)
    assert results["ray"].matches.num_rows > 100
    assert [result.bad_rows for result in results.values()] == [26, 26]
    assert [result.events for result in results.values()] == [1_174, 1_174]
    assert files["ray"].read_text() == files["local"].read_text()
    assert any("left out 26 bad rows" in notice for notice in results["ray"].notices)


def test_without_a_policy_ray_names_the_bad_cell(spoiled: pa.Table, ray_cluster: None) -> None:
    with interpreted(), pytest.raises(TraceError, match="column 'x', row 8: NaN"):
        decopa.run(QUERY, spoiled.set_column(0, "id", pa.array(range(1_200))), runtime="ray")


def test_a_run_with_checkpoints_keeps_its_policy(spoiled: pa.Table, ray_cluster: None, tmp_path: Path) -> None:
    trace, bad = tmp_path / "trace.parquet", tmp_path / "bad.jsonl"
    pq.write_table(spoiled, trace)
    policy = decopa.BadRows("divert", bad)
    with interpreted():
        decopa.run_with_checkpoints(
            QUERY,
            trace,
            out=tmp_path / "out",
            checkpoint=tmp_path / "checkpoints",
            ray=RayOptions(metrics=False),
            trace=decopa.TraceOptions(bad_rows=policy),
        )
        once = bad.read_text()
        decopa.resume(tmp_path / "checkpoints", ray=RayOptions(metrics=False))
        here = decopa.run(QUERY, trace, trace=decopa.TraceOptions(bad_rows=decopa.BadRows("divert")))
    assert len(once.splitlines()) == 26
    assert bad.read_text() == once
    parts = [pq.read_table(path) for path in sorted((tmp_path / "out").glob("part-*.parquet"))]
    assert sum(part.num_rows for part in parts) == here.num_rows
