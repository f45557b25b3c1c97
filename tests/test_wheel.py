"""The wheel holds everything that the checkout runs with, and works where there is no checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("decopa", "costmodel", "shuffler", "actors", "cluster")
QUERY = "PATTERN SEQ(A a, B b) WITHIN 10 us"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy, since setuptools leaves folders behind, with the setuptools of this environment."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    source.mkdir()
    for name in PACKAGES:
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    ran = subprocess.run(
        [*command, "--disable-pip-version-check", "--wheel-dir", folder, source], capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
    (found,) = folder.glob("*.whl")
    return found


def test_the_wheel_holds_every_file_of_the_packages(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if name.partition("/")[0] in PACKAGES}
    ours = {
        path.relative_to(ROOT).as_posix()
        for name in PACKAGES
        for path in (ROOT / name).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert held == ours
    assert {"cluster/grafana/dashboards/decopa.json", "decopa/language/text/grammar.lark"} <= held
    assert {"decopa/report/plan_page.html", "cluster/spark/log4j2.properties"} <= held


@pytest.mark.slow
def test_a_query_runs_with_the_wheel_where_there_is_no_checkout(wheel: Path, tmp_path: Path) -> None:
    environment = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", environment], check=True)
    home = Path(sysconfig.get_path("purelib", vars={"base": str(environment)}))
    # What decopa needs comes from this environment. A path in a .pth does not make Python read the .pth files there,
    # so the checkout that this environment may point to stays out of sight.
    (home / "needed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    pip = [environment / "bin" / "python", "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*pip, "--disable-pip-version-check", wheel], check=True)
    pq.write_table(pa.table({"id": [1, 2], "ts": [0, 5], "type": ["A", "B"]}), tmp_path / "trace.parquet")
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def run(*command: str) -> str:
        ran = subprocess.run(
            [environment / "bin" / command[0], *command[1:]], cwd=tmp_path, env=clean, capture_output=True, text=True
        )
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    where = run("python", "-c", "import decopa, cluster.options; print(decopa.__file__, cluster.options.__file__)")
    assert all(path.startswith(str(environment)) for path in where.split())
    run("decopa", "run", QUERY, "--trace", "trace.parquet", "--runtime", "local", "--out", "matches.parquet")
    assert pq.read_table(tmp_path / "matches.parquet").select(["a", "b"]).to_pylist() == [{"a": 1, "b": 2}]
    run("decopa", "stats", QUERY, "--trace", "trace.parquet", "--out", "stats.json")
    run("decopa", "plan", QUERY, "--stats", "stats.json", "--units", "2", "--out", "plan.json")
    run("decopa", "explain", "plan.json", "--stats", "stats.json", "--html", "plan.html")
    assert "<svg" in (tmp_path / "plan.html").read_text()
