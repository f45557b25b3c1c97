"""What docs/security.md promises: nothing listens on all addresses, authentication stays on, paths stay inside."""

from __future__ import annotations

import os
import re
from functools import cache
from pathlib import Path

import pyarrow as pa
import pytest

from cluster.checkpoint.output import PublishedMatches
from cluster.checkpoint.store import CheckpointStore, Manifest
from decopa.caches import cache_folder
from decopa.errors import CheckpointError, OutputError, PlanError
from decopa.planning.plan import Plan

ROOT = Path(__file__).resolve().parents[1]
#: Whatever is run or copied: code, scripts, settings, and examples in documents.
SUFFIXES = (".py", ".sh", ".md", ".yml", ".yaml", ".toml", ".json", ".properties", ".html", "")
CACHES = {".hypothesis", ".mypy_cache", ".pytest_cache", ".ruff_cache", "__pycache__"}
SKIPPED = {".git", ".venv", ".venv-peers", "out", *CACHES}
#: Documents may say what not to do; nothing else may do it.
TALKS_ABOUT_IT = {"docs/security.md", "tests/test_security.py"}
FORBIDDEN = {
    "listens on all addresses": r"(?<![\d.])0\.0\.0\.0(?![\d.])|\[::\]|dashboard[-_]host\W+(?!127\.0\.0\.1)[\w.:*]",
    "switches authentication off": r"RAY_AUTH_MODE\W+(disabled|none|off)|enable_token_auth\W+(0|false)",
    "trusts what it downloads": r"--trusted-host|verify\s*=\s*False|_create_unverified_context|curl[^\n|]*\|\s*(ba)?sh",
    "names a package registry": r"https?://[\w.-]*(pypi|pythonhosted|artifactory|nexus)[\w.-]*|index-url\s*=?\s*http",
    "runs a shell on text": r"shell\s*=\s*True|os\.system\(",
}


@cache
def files() -> tuple[Path, ...]:
    found: list[Path] = []
    for folder, below, names in os.walk(ROOT):
        below[:] = [name for name in below if name not in SKIPPED and not name.endswith(".egg-info")]
        found += [Path(folder, name) for name in names if Path(name).suffix in SUFFIXES]
    return tuple(found)


@pytest.mark.parametrize("what", FORBIDDEN)
def test_nothing_in_the_repository(what: str) -> None:
    pattern = re.compile(FORBIDDEN[what], re.IGNORECASE)
    found = [
        f"{path.relative_to(ROOT)}: {match[0]}"
        for path in files()
        if str(path.relative_to(ROOT)) not in TALKS_ABOUT_IT
        for match in pattern.finditer(path.read_text(encoding="utf-8", errors="replace"))
    ]
    assert found == []


def test_the_search_would_find_something() -> None:
    assert len(files()) > 200
    for what, text in [
        ("listens on all addresses", "ray start --head --dashboard-host=0.0.0.0"),
        ("listens on all addresses", 'dashboard_host="10.0.0.1"'),
        ("switches authentication off", "RAY_AUTH_MODE=disabled"),
        ("names a package registry", "--index-url http://x"),
    ]:
        assert re.search(FORBIDDEN[what], text, re.IGNORECASE)


# ------------------------------------------------------------------ paths


@pytest.mark.parametrize(
    "name", ["../part-00000001.parquet", "/etc/part-00000001.parquet", "part-00000001.parquet\n", "x", "", None, 5]
)
def test_a_manifest_cannot_name_a_part_elsewhere(name: object, tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path)
    store.commit(Manifest(1, 1, "{}", 1, 5, 3, {}, parts=(name,)))  # type: ignore[arg-type]
    with pytest.raises(CheckpointError, match="is no name of a file of matches"):
        store.read(1)


@pytest.mark.parametrize("process", ["../../x", "/etc/passwd", "..", ".", "a/b", "\x00", "manifest.json"])
def test_whatever_a_process_is_called_its_state_lies_in_its_checkpoint(process: str, tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path / "c")
    stored = store.write_state(1, process, b"state", 1)
    (only,) = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert only.parent == tmp_path / "c" / "checkpoint-00000001"
    assert store.read_state(Manifest(1, 1, "{}", 1, 5, 3, {process: stored}), process) == b"state"


def test_links_do_not_lead_out_of_the_folder_of_checkpoints(tmp_path: Path) -> None:
    outside, folder = tmp_path / "outside", tmp_path / "c"
    (outside / "checkpoint").mkdir(parents=True)
    (outside / "secret").write_text("x")
    store = CheckpointStore(folder)
    (folder / "checkpoint-00000001").symlink_to(outside / "checkpoint")
    (folder / "run.json").symlink_to(outside / "secret")
    with pytest.raises(CheckpointError, match="leads out of the folder of checkpoints"):
        store.write_state(1, "q", b"state", 1)
    with pytest.raises(CheckpointError, match="leads out of the folder of checkpoints"):
        store.read_run()
    store.commit(Manifest(2, 1, "{}", 1, 5, 3, {}))
    store.prune(1)
    assert sorted(path.name for path in outside.iterdir()) == ["checkpoint", "secret"]
    assert store.numbers() == [2]


def test_a_linked_folder_may_itself_hold_checkpoints(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    CheckpointStore(tmp_path / "link").write_run({})
    assert (tmp_path / "real" / "run.json").is_file()


def test_matches_are_not_staged_behind_a_link(tmp_path: Path) -> None:
    outside, out = tmp_path / "outside", tmp_path / "out"
    outside.mkdir()
    (outside / "precious").write_text("x")
    out.mkdir()
    (out / "_staged").symlink_to(outside)
    with pytest.raises(OutputError, match="_staged is a link"):
        PublishedMatches(out).prepare([])
    assert (outside / "precious").exists()


def test_a_published_part_replaces_a_link_and_not_what_it_leads_to(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("x")
    output = PublishedMatches(tmp_path / "out")
    output.prepare([])
    (tmp_path / "out" / "part-00000001.parquet").symlink_to(tmp_path / "precious")
    name = output.stage(1, pa.table({"a": [1]}))
    assert name is not None
    output.publish([name])
    assert (tmp_path / "precious").read_text() == "x"


def test_a_plan_names_no_paths() -> None:
    """All that it has are names of operators, and they become parts of names of actors, not of files."""
    with pytest.raises(PlanError):
        Plan.from_json('{"format": "decopa-plan", "version": 1, "queries": [{"query": "../../etc/passwd"}]}')


# ------------------------------------------------------------------ compiled kernels


def test_kernels_are_not_taken_from_a_folder_that_others_may_write_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DECOPA_CACHE_DIR", str(tmp_path))
    assert cache_folder("kernels") == tmp_path / "kernels"
    assert (tmp_path / "kernels").stat().st_mode & 0o777 == 0o700
    (tmp_path / "kernels").chmod(0o770)
    assert not cache_folder("kernels").is_relative_to(tmp_path)
