"""State beyond the limit goes to files, if there is a place for it, and matches stay the same."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import decopa
from actors.columnar.memory import Spill, StateMemory
from decopa.traces.synthetic import SyntheticSpec

MANY = "PATTERN SEQ(A a, B b, C c) WHERE a.k = b.k AND b.x < c.x AND a.x > 0.9 AND c.x > 0.98 WITHIN 10 s"
GROUPS = "PATTERN SEQ(A a, KL(B b), C c) WHERE a.x > 0.995 AND b.x > 0.9 AND c.x > 0.99 WITHIN 60 ms"
ABSENT = "PATTERN SEQ(A a, NOT(B b), C c) WHERE a.k = b.k AND a.x > 0.99 AND c.x > 0.99 WITHIN 1 s"


@pytest.fixture(scope="module")
def events() -> object:
    import pyarrow as pa

    spec = SyntheticSpec(events=16_000, rate_per_s=4_000.0, types=3, zipf=0.0, seed=5)
    return pa.Table.from_batches(list(spec.batches()))


@pytest.mark.parametrize("query", [MANY, GROUPS, ABSENT])
def test_matches_do_not_depend_on_where_rows_are_kept(
    query: str, events: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("actors.columnar.memory._SMALLEST_FILE", 4096)
    expected = decopa.run_detailed(query, events)
    limits = decopa.Limits(max_state_bytes=10_000, spill=Spill(tmp_path))
    found = decopa.run_detailed(query, events, limits=limits)
    assert expected.matches.num_rows > 0
    assert found.matches.equals(expected.matches)
    assert max(report.most_spilled_bytes for report in found.operators) > 15_000
    assert list(tmp_path.iterdir()) == []


def test_what_is_freed_can_be_used_again(tmp_path: Path) -> None:
    memory = StateMemory(1_000_000, Spill(tmp_path, 3_000_000))
    first = memory.empty(100_000, np.int64)
    second = memory.empty(100_000, np.int64)
    assert (memory.in_memory, memory.on_disk) == (800_000, 800_000)
    second[:] = 7
    view = second[10:20]
    del first, second
    gc.collect()
    assert (memory.in_memory, memory.on_disk) == (0, 800_000), "a view still needs the file"
    assert view.tolist() == [7] * 10
    del view
    gc.collect()
    assert (memory.in_memory, memory.on_disk, memory.most_on_disk) == (0, 0, 800_000)


def test_the_limit_of_spilling_stops_the_run(events: object, tmp_path: Path) -> None:
    limits = decopa.Limits(max_state_bytes=10_000, spill=Spill(tmp_path, 200_000))
    with pytest.raises(decopa.LimitError, match=r"unit o\d/0 of operator .*: .* MiB .* \(--max-spill-mb"):
        decopa.run(MANY, events, limits=limits)


def test_a_folder_that_is_not_there_is_named_before_the_run(events: object, tmp_path: Path) -> None:
    with pytest.raises(decopa.LimitError, match=r"there is no folder .*gone"):
        decopa.run(MANY, events, limits=decopa.Limits(spill=Spill(tmp_path / "gone")))


_FULL = """
import resource, sys
import numpy as np
from pathlib import Path
from actors.columnar.memory import Spill, StateMemory
from decopa.errors import LimitError
resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))
memory = StateMemory(0, Spill(Path(sys.argv[1])))
memory.empty(100_000, np.int64)
try:
    memory.empty(200_000, np.int64)
except LimitError as err:
    print(err)
"""


def test_a_file_that_cannot_grow_is_an_error_and_not_a_signal(tmp_path: Path) -> None:
    run = subprocess.run([sys.executable, "-c", _FULL, str(tmp_path)], capture_output=True, text=True, check=True)
    assert "cannot be spilled to" in run.stdout
    assert "--spill" in run.stdout


_BEYOND_MEMORY = """
import resource, sys
from pathlib import Path
import numpy as np
from actors.columnar.memory import Spill, StateMemory
resource.setrlimit(resource.RLIMIT_DATA, (2**29, 2**29))  # does not count mapped files
spill = Spill(Path(sys.argv[1])) if len(sys.argv) > 1 else None
memory = StateMemory(2**26, spill)
arrays = []
for number in range(24):
    arrays.append(memory.empty(2**22, np.int64))
    arrays[-1][:] = number
assert [int(array[-1]) for array in arrays] == list(range(24))
print(memory.on_disk >> 20)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="memory is limited the way Linux does it")
def test_more_state_than_memory_fits_with_files_and_only_with_them(tmp_path: Path) -> None:
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}

    def outcome(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", _BEYOND_MEMORY, *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)

    with_files = outcome(str(tmp_path))
    assert with_files.returncode == 0, with_files.stderr
    assert int(with_files.stdout) >= 700
    assert "MemoryError" in outcome().stderr
