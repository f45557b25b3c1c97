"""Kernels: written once per query shape, shared, and kept on disk."""

from __future__ import annotations

from pathlib import Path

import pytest

import decopa
from actors.columnar import jit
from tests.support.engine import table_of

EVENTS = [{"id": n, "ts": n, "type": "AB"[n % 2], "x": n} for n in range(6)]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DECOPA_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(jit, "_modules", {})
    return tmp_path / "kernels"


def run(condition: str, units: int = 1) -> int:
    text = f"PATTERN SEQ(A a, B b) WHERE {condition} WITHIN 10 us"
    return int(
        decopa.run(
            text, table_of(EVENTS), units=units, runtime="local", trace=decopa.TraceOptions(batch_size=2)
        ).num_rows
    )


def sources(cache: Path) -> set[str]:
    return {path.name for path in cache.glob("*.py")}


def test_queries_that_differ_in_constants_only_share_a_kernel(cache: Path) -> None:
    with jit.interpreted():
        assert run("a.x + 1 < b.x * 2 AND a.x < b.x") > 0
        before = sources(cache)
        run("a.x + 3 < b.x * 9 AND a.x < b.x")
        assert sources(cache) == before
        run("a.x < b.x AND a.x != b.x")
        assert sources(cache) > before


def test_all_units_of_an_operator_share_a_kernel(cache: Path) -> None:
    with jit.interpreted():
        one = run("a.x < b.x")
        before = sources(cache)
        assert run("a.x < b.x", units=4) == one
        assert sources(cache) == before


@pytest.mark.slow
def test_machine_code_is_kept_beside_the_source(cache: Path) -> None:
    run("a.x < b.x")
    kept = {path.name: path.stat().st_mtime_ns for path in cache.rglob("*.nb?")}
    assert kept
    jit._modules.clear()
    run("a.x < b.x")
    assert {path.name: path.stat().st_mtime_ns for path in cache.rglob("*.nb?")} == kept


def test_no_text_of_the_query_gets_into_a_kernel(cache: Path) -> None:
    events = [{**event, "evil_name": "s"} for event in EVENTS]
    text = "PATTERN SEQ(A a, B b) WHERE a.evil_name = b.evil_name AND a.x + 4711 < b.x * 4712 WITHIN 10 us"
    with jit.interpreted():
        decopa.run(text, table_of(events), trace=decopa.TraceOptions(batch_size=2))
    written = "".join(path.read_text() for path in cache.glob("*.py"))
    assert written
    for secret in ("evil_name", "4711", "4712"):
        assert secret not in written


def test_a_kernel_file_that_was_changed_is_written_anew(cache: Path) -> None:
    with jit.interpreted():
        expected = run("a.x < b.x")
        for path in cache.glob("*.py"):
            path.write_text("raise SystemExit('tampered')")
        jit._modules.clear()
        assert run("a.x < b.x") == expected


def test_a_cache_that_cannot_be_written_is_done_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("DECOPA_CACHE_DIR", str(blocked))
    monkeypatch.setattr(jit, "_modules", {})
    with jit.interpreted():
        assert run("a.x < b.x") > 0
