"""The command line of a job: files are taken along or brought back, places on the cluster stay as they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster.launch.shipping import Flags, ship
from decopa.errors import DeployError

FLAGS = Flags(inputs=("--plan",), outputs=("--out",), seen_by_nodes=("--trace", "--checkpoint"))


def test_files_are_taken_along_under_their_new_names(tmp_path: Path) -> None:
    query, plan = tmp_path / "my query.txt", tmp_path / "p.json"
    query.write_text("x")
    plan.write_text("x")
    words = ["run", str(query), "--plan", str(plan), "--trace=/data/t.parquet", "--out", "m.csv", "--units", "4"]
    shipment = ship(words, FLAGS, query=str(query))
    expected = "run in/query.txt --plan in/plan.json --trace /data/t.parquet --out out/out.csv --units 4"
    assert list(shipment.words) == expected.split()
    assert shipment.inputs == {"in/query.txt": query, "in/plan.json": plan}
    assert shipment.outputs == {"out/out.csv": Path("m.csv").absolute()}


def test_a_query_that_is_a_text_stays_one() -> None:
    text = "PATTERN SEQ(A a, B b) WITHIN 1 s"
    shipment = ship(["run", text, "--trace", "s3://b/t"], FLAGS, query=text)
    assert shipment.words == ("run", text, "--trace", "s3://b/t")
    assert shipment.inputs == {}


@pytest.mark.parametrize("value", ["t.parquet", "./t.parquet", "../t.parquet"])
def test_a_path_that_only_this_machine_has_is_refused(value: str) -> None:
    with pytest.raises(DeployError, match="name a path that they all see"):
        ship(["run", "q", "--trace", value], FLAGS)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DeployError, match="there is no"):
        ship(["run", "q", "--plan", str(tmp_path / "none.json")], FLAGS)
