"""`scripts/fuzz` in short: damaged input of every kind is taken or refused, and a broken target would be noticed."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from decopa.errors import PlanError
from scripts.reliability import fuzz
from scripts.reliability.fuzz_targets import TARGETS, Target

SEED = 20
INPUTS = 60


@pytest.fixture(autouse=True)
def recursion_limit() -> Iterator[None]:
    """Hypothesis raises it while other tests run; here it should be what users have."""
    before = sys.getrecursionlimit()
    yield
    sys.setrecursionlimit(before)


@pytest.mark.parametrize("name", TARGETS)
def test_damaged_input_is_taken_or_refused(name: str, tmp_path: Path) -> None:
    target = TARGETS[name](tmp_path)
    found = [fuzz.outcome(target, fuzz.drawn(target, SEED, index)) for index in range(INPUTS)]
    assert set(found) <= {"accepted", "refused"}
    assert "accepted" in found  # else only the first check would be tested


class Broken(Target):
    """Takes each kind of input as it should not."""

    name, weight = "broken", 1

    def draw(self, random: object) -> bytes:
        return b""

    def accept(self, content: bytes) -> None:
        match content:
            case b"hang":
                while True:
                    time.monotonic()
            case b"bug":
                raise KeyError("x")
            case b"long":
                error = PlanError("x")
                error.args = ("x" * 100_000,)
                raise error


@pytest.mark.parametrize(
    ("content", "found"),
    [(b"hang", "hang: "), (b"bug", "KeyError: "), (b"long", "bad message of PlanError"), (b"", "accepted")],
)
def test_what_should_not_happen_is_a_finding(content: bytes, found: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz, "TIME_LIMIT_S", 0.2)
    assert fuzz.outcome(Broken(Path()), content).startswith(found)


def test_memory_that_grows_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    """The peak of this process may lie above what it has now, so the limit must not be reached by chance."""
    peaks = iter((0, fuzz.GROWTH + 1))
    monkeypatch.setattr(fuzz, "_memory", lambda: next(peaks))
    assert fuzz.outcome(Broken(Path()), b"").startswith("memory: accepted")


@pytest.mark.parametrize("name", TARGETS)
def test_an_input_follows_from_the_seed_alone(name: str, tmp_path: Path) -> None:
    one, other = TARGETS[name](tmp_path / "one"), TARGETS[name](tmp_path / "other")
    assert fuzz.drawn(one, 7, 3) == fuzz.drawn(other, 7, 3)


@pytest.mark.slow
def test_workers_share_the_inputs_and_print_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert fuzz.main(["--inputs", "200", "--seed", "5", "--out", str(tmp_path / "out")]) == 0
    shown = capsys.readouterr().out
    total = next(line for line in shown.splitlines() if line.startswith("total")).split()
    assert int(total[1]) == int(total[2]) + int(total[3]) >= 200
    assert not (tmp_path / "out").exists()
