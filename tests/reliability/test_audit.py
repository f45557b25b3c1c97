"""The dependency audit: differences are named, and a look-up that looked up nothing is no all-clear."""

from __future__ import annotations

from typing import Any

import pytest

from scripts.reliability import audit

HOLE = {"id": "CVE-1", "fix_versions": ["2.0"]}
CONTROL = {"name": "Jinja2", "version": "2.4.1", "vulns": [HOLE]}


def report(*dependencies: dict[str, Any]) -> dict[str, Any]:
    return {"dependencies": list(dependencies), "fixes": []}


def test_versions_that_differ_or_are_not_pinned_are_named() -> None:
    wanted = audit.pinned("# why\na==1.0\nB_c==2  # reason\n")
    assert wanted == {"a": "1.0", "b-c": "2"}
    assert audit.differences(wanted, {"a": "1.0", "b-c": "3", "d": "4", "decopa": "0"}) == [
        "b-c 3 is installed, 2 is pinned; run scripts/setup",
        "d 4 is installed and not pinned; add it to constraints.txt",
    ]


def test_a_line_that_pins_nothing_is_refused() -> None:
    with pytest.raises(SystemExit, match="names no version"):
        audit.pinned("a>=1\n")


def test_known_holes_are_listed() -> None:
    found, skipped = audit.verdict(report(CONTROL, {"name": "a", "version": "1", "vulns": [HOLE]}))
    assert found == ["a 1: CVE-1, fixed in 2.0"]
    assert skipped == []


def test_without_a_hole_in_the_control_nothing_was_looked_up() -> None:
    for control in ({"name": "jinja2", "skip_reason": "not found"}, CONTROL | {"vulns": []}):
        found, _ = audit.verdict(report(control, {"name": "a", "version": "1", "vulns": []}))
        assert found is None


def test_packages_that_were_skipped_are_told() -> None:
    found, skipped = audit.verdict(report(CONTROL, {"name": "a", "skip_reason": "not found"}))
    assert (found, skipped) == ([], ["a"])


@pytest.mark.parametrize(("holes", "problems", "status"), [(0, 0, 0), (2, 0, 1), (None, 0, 3), (None, 1, 1), (0, 1, 1)])
def test_the_status_says_what_was_found(
    holes: int | None, problems: int, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit, "distributions", list)  # takes a while to look through
    monkeypatch.setattr(audit, "_vulnerabilities", lambda wanted: holes)
    monkeypatch.setattr(audit, "differences", lambda wanted, installed: ["x"] * problems)
    assert audit.main([]) == status
