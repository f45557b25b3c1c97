"""Scaling tests on machines whose cores are limited, from the user's machine, one command per step.

Machines of their own, since everything else that runs here takes time away from units. Run alone:
scripts/test -m launch tests/launch/test_5_scaling.py -s
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.launched import Launched
from tests.support.machines import LAPTOP, Machines, why_not

pytestmark = [pytest.mark.launch, pytest.mark.slow]
#: Compares much and matches nearly never: 20,000 candidates for each event, one pair in a million.
QUERY = "QUERY far PATTERN SEQ(A a, B b) WHERE a.x + 0.9985 < b.x WITHIN 40 s"
TRACE = ["trace", "synthetic", "--events", "120000", "--rate", "1000", "--types", "2", "--zipf", "0", "--seed", "3"]
#: One process fits on each machine, so that each unit has a machine of its own.
RAY_OPTIONS = "--num-cpus=1 --object-store-memory=200000000 --memory=2000000000"


@pytest.fixture(scope="module")
def five(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Launched]:
    """A head and four workers with one place each; trace and query lie where all see them."""
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)
    names = [LAPTOP, "n1", "n2", "n3", "n4", "n5"]
    with Machines(tmp_path_factory.mktemp("scaling"), names) as machines:
        launched = Launched(machines)
        launched.write_file("--set", f"head_options='{RAY_OPTIONS}'", ray_options=RAY_OPTIONS)
        launched.decopa(LAPTOP, [*TRACE, "--out", "/shared/trace.parquet", "--quiet"])
        machines.run(LAPTOP, "cat > query.txt", stdin=QUERY)
        launched.decopa(LAPTOP, ["cluster", "up", launched.file, "--limit", "4 min"], timeout_s=300)
        yield launched
    assert machines.left() == []


def scaled(cluster: Launched, units: str, folder: str) -> dict[int, dict[str, Any]]:
    """Points of a scaling test with calibrated units, by number of units, as a user would make it."""
    submit = ["submit", "--cluster", cluster.file]
    there = ["query.txt", "--trace", "/shared/trace.parquet", "--quiet"]
    calibrate = [*submit, "calibrate", *there, "--events", "100000", "--repeats", "1"]
    cluster.decopa(LAPTOP, [*calibrate, "--out", f"{folder}.json", "--overwrite"], timeout_s=400)
    options = ["--units", units, "--strategies", "decopa", "--capacity", f"{folder}.json", "--objective", "busy"]
    # Whatever is no unit is on the head, so that each limited machine has a unit and nothing else.
    options += ["--seconds", "6", "--pin", "shuffler/0=10.77.0.1", "--pin", "far/sink=10.77.0.1", "--out", folder]
    done = cluster.decopa(LAPTOP, [*submit, "scale", *there, *options], timeout_s=600)
    print(done.stdout)
    document = json.loads(cluster.machines.run(LAPTOP, f"cat {folder}/results.json").stdout)
    return {point["units"]: point for point in document["points"]}


def limit(cluster: Launched, cores: dict[str, float]) -> None:
    for name, share in cores.items():
        cluster.machines.limit_cores(name, share)


def check(points: dict[int, dict[str, Any]], units: int, least: float) -> None:
    gain = points[units]["measured"] / points[1]["measured"]
    print(f"{units} machines: {gain:.2f} times the events/s of one")
    assert gain >= least
    working = [one for one in points[units]["machines"] if any("/o" in name for name in one["processes"])]
    assert len(working) == units  # each unit has a machine of its own


def test_two_machines_take_1_7_times_as_much(five: Launched) -> None:
    """A core each where driver, shuffler and sink have a third one; else these take theirs from the units."""
    share = 1.0 if (os.cpu_count() or 1) > 2 else 0.5
    limit(five, dict.fromkeys(("n2", "n3", "n4", "n5"), share))
    check(scaled(five, "1,2", "two"), 2, 1.7)


def test_four_machines_with_a_quarter_core_each_take_3_2_times_as_much(five: Launched) -> None:
    limit(five, {"n2": 0.25, "n3": 0.25, "n4": 0.25, "n5": 0.25})
    points = scaled(five, "1,4", "four")
    check(points, 4, 3.2)
    # Units were the limit: their machines wanted more than they had nearly all the time.
    throttled = [one["throttled"] for one in points[4]["machines"] if any("/o" in name for name in one["processes"])]
    print("throttled:", [f"{share:.0%}" for share in throttled])
    assert min(throttled) > 0.5
