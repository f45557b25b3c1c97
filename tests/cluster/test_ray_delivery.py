"""On Ray, root units keep what they find: figures, counts and files agree with those of one process."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import decopa
from actors.columnar.jit import interpreted
from decopa.runs.folder import MatchFolder

pytestmark = pytest.mark.ray

PATTERN = "PATTERN SEQ(A a, KL(B b), C c) WHERE a.x < c.x WITHIN 9 us"
FIGURES = f"{PATTERN} RETURN a.k, count(*), sum(c.x), avg(c.x) GROUP BY a.k EVERY 20 us"


def trace() -> pa.Table:
    count = 60
    columns = {"id": list(range(count)), "ts": list(range(count)), "type": list("ABBC" * (count // 4))}
    return pa.table(columns | {"x": [(7 * n) % 11 / 10 for n in range(count)], "k": [n % 3 for n in range(count)]})


def test_figures_counts_and_files_of_several_units_are_those_of_one_process(tmp_path: Path) -> None:
    rows = decopa.run(PATTERN, trace(), runtime="local")
    figures = decopa.run(FIGURES, trace(), runtime="local")
    assert isinstance(rows, pa.Table)
    with interpreted(), decopa.session(places=16):
        for units in (2, 4):
            assert decopa.run(FIGURES, trace(), units=units).equals(figures)
            counted = decopa.run(PATTERN, trace(), units=units, count=True)
            assert counted.column("count(*)").to_pylist() == [rows.num_rows]
            folder = decopa.run(PATTERN, trace(), units=units, out=tmp_path / str(units))
            assert isinstance(folder, MatchFolder)
            assert folder.rows == rows.num_rows
            assert sorted(map(str, folder.table().to_pylist())) == sorted(map(str, rows.to_pylist()))
            assert sorted(path.name for path in folder.path.iterdir()) == sorted(file.name for file in folder.files)
