"""Parsers are kept for the next process, and made anew when what was kept is of no use."""

from __future__ import annotations

from pathlib import Path

import pytest

from decopa.language.grammars import parser_of

PACKAGE = "decopa.language.text"
TEXT = "PATTERN SEQ(A a, B b) WHERE a.k = b.k WITHIN 1 s"


@pytest.fixture(autouse=True)
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DECOPA_CACHE_DIR", str(tmp_path))
    return tmp_path / "grammars"


def test_a_parser_that_was_kept_reads_what_a_new_one_reads(kept: Path) -> None:
    new = parser_of.__wrapped__(PACKAGE)
    (file,) = kept.iterdir()
    made_at = file.stat().st_mtime_ns
    loaded = parser_of.__wrapped__(PACKAGE)
    assert loaded.parse(TEXT) == new.parse(TEXT)
    assert loaded.source_path == "<deserialized>" and file.stat().st_mtime_ns == made_at


@pytest.mark.parametrize("left", [b"", b"half of a parser"])
def test_a_damaged_one_is_made_again(kept: Path, left: bytes) -> None:
    parser_of.__wrapped__(PACKAGE)
    (file,) = kept.iterdir()
    file.write_bytes(left)
    assert parser_of.__wrapped__(PACKAGE).parse(TEXT)
    assert len(file.read_bytes()) > len(left)


def test_every_language_has_a_parser_of_its_own(kept: Path) -> None:
    for package in (PACKAGE, "decopa.language.eql"):
        parser_of.__wrapped__(package)
    assert len(list(kept.iterdir())) == 2
