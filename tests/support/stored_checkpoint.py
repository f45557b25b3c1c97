"""Checkpoints of earlier versions, kept in `tests/checkpoints`: every later version restores them, or refuses them.

    python -m tests.support.stored_checkpoint tests/checkpoints/format-N

writes one with the version at hand: do so when the format of checkpoints, states or runs gets a new number.
"""

from __future__ import annotations

import contextlib
import shutil
import sys
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import decopa
from cluster.options import Checkpoints, RayOptions
from decopa.traces.synthetic import SyntheticSpec
from shuffler.source.pacing import Replay

STORED = Path(__file__).resolve().parents[1] / "checkpoints"
#: Stands for the folder that the run was in.
HERE = "@HERE@"
#: State of every kind: sides of joins, families that grow, matches that wait for a NOT, strings.
QUERY = """QUERY q PATTERN SEQ(A a, KL(B b), C c, NOT(D d))
WHERE a.k = b.k AND a.s = c.s AND a.x < c.x AND d.k = a.k WITHIN 60 ms RETURN a.s, b.x"""


class _EnoughError(Exception):
    pass


def write(target: Path) -> None:
    """A run that was broken off in the middle, with its trace and what it had published."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "run"
        folder.mkdir()
        spec = SyntheticSpec(events=1_200, rate_per_s=1_000, types=4, keys=3, zipf=0.2, seed=11)
        pq.write_table(pa.Table.from_batches(list(spec.batches())), folder / "trace.parquet")

        def until_half(events: int, matches: int) -> None:
            if events > 700:
                raise _EnoughError

        with contextlib.suppress(_EnoughError):
            decopa.run_with_checkpoints(
                QUERY,
                folder / "trace.parquet",
                out=folder / "out",
                checkpoint=Checkpoints(str(folder / "checkpoints"), every_s=0.3, keep=1),
                units=3,
                ray=RayOptions(metrics=False, replay=Replay(rate=200)),
                watch=decopa.Watch(progress=until_half),
            )
        run = folder / "checkpoints" / "run.json"
        run.write_text(run.read_text().replace(str(folder.resolve()), HERE))
        shutil.copytree(folder, target)


def unpacked(name: str, folder: Path) -> Path:
    """The stored run, in a folder of its own where it can go on."""
    shutil.copytree(STORED / name, folder)
    run = folder / "checkpoints" / "run.json"
    run.write_text(run.read_text().replace(HERE, str(folder)))
    return folder


if __name__ == "__main__":
    write(Path(sys.argv[1]))
