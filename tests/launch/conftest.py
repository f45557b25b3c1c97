"""Machines and a cluster for all tests of this folder; skipped, with the reason, where machines cannot be made."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.launched import QUERY, Launched
from tests.support.machines import LAPTOP, Machines, why_not


@pytest.fixture(scope="session")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)
    with Machines(tmp_path_factory.mktemp("machines"), [LAPTOP, "n1", "n2", "n3", "n4"]) as made:
        yield made
    assert made.left() == []


@pytest.fixture(scope="session")
def files(machines: Machines) -> Launched:
    """A cluster file and a trace, but no cluster yet."""
    launched = Launched(machines)
    launched.write_file()
    rides = ["trace", "rides", "--days", "4", "--seed", "7", "--out", "/shared/rides.parquet", "--quiet"]
    launched.decopa(LAPTOP, rides)
    machines.run(LAPTOP, "cat > query.txt; cp query.txt /shared/query.txt", stdin=QUERY)
    there = ["run", "query.txt", "--trace", "/shared/rides.parquet", "--runtime", "local", "--quiet"]
    launched.decopa(LAPTOP, [*there, "--out", "/shared/expected.parquet"])
    return launched


@pytest.fixture(scope="session")
def cluster(files: Launched) -> Launched:
    """The cluster, up; its machines vanish with all that runs on them."""
    done = files.decopa(LAPTOP, ["cluster", "up", files.file, "--limit", "4 min"], timeout_s=300)
    files.up_output = done.stdout
    return files
