"""PlanSwitch: what is told about a change of plan; and the file that changes are written to."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from cluster.change.outcome import Switched
from decopa.errors import OutputError
from decopa.planning.change.decision import Decision
from decopa.planning.plan import Plan


@dataclass(frozen=True, slots=True)
class PlanSwitch:
    """A change of plan: when, why, what it promised and what it brought.

    `at_event` events came before the cut, the last of them at `at_us`. `gain` is how many times as much the new plan
    was predicted to sustain, `rows_saved` the share of rows that it does not send. `promised` and `measured` are what
    the audit compares: work of the busiest unit or rows, old by new; `measured` is None until the new plan has run for
    long enough. Times are those of `Switched`. `given_up` says why the old plan has stayed.
    """

    at_event: int
    at_us: int
    reason: str
    ground: str
    scaling_factor_before: float
    scaling_factor_after: float
    gain: float
    rows_saved: float
    plan: Plan
    replayed: int = 0
    warm_up_s: float = 0.0
    pause_s: float = 0.0
    stall_s: float = 0.0
    promised: float | None = None
    measured: float | None = None
    given_up: str | None = None

    @classmethod
    def of(cls, decision: Decision, made: Switched, given_up: str | None = None) -> PlanSwitch:
        proposal = decision.proposal
        return cls(
            made.at_event,
            made.at_us,
            decision.reason,
            decision.ground.value,
            proposal.now.scaling_factor,
            proposal.new.scaling_factor,
            proposal.gain,
            proposal.rows_saved,
            decision.plan,
            made.seeded,
            made.warm_up_s,
            made.pause_s,
            made.stall_s,
            given_up=given_up,
        )

    def __str__(self) -> str:
        """One line: `at event 120,000, rate of A 30 -> 1000: the new plan sustains more (c 0.02 -> 0.667), ...`"""
        before, after = self.scaling_factor_before, self.scaling_factor_after
        parts = [
            f"at event {self.at_event:,}, {self.reason}: the new plan {self.ground} (c {before:.3g} -> {after:.3g}"
        ]
        parts[0] += f", {100 * self.rows_saved:.0f} % fewer rows)" if self.rows_saved > 0 else ")"
        if self.given_up is not None:
            return f"{parts[0]}; given up: {self.given_up}"
        if self.measured is not None and self.promised is not None:
            parts.append(f"{self.promised:.3g} times less work promised, {self.measured:.3g} times measured")
        parts.append(f"{self.replayed:,} events worked on again, held up {1000 * self.pause_s:.3g} ms")
        return "; ".join(parts)

    def to_record(self) -> dict[str, Any]:
        """As a line of the log."""
        return {
            "kind": "plan" if self.given_up is None else "given up",
            "at_event": self.at_event,
            "at_us": self.at_us,
            "reason": self.reason,
            "ground": self.ground,
            "c": [self.scaling_factor_before, self.scaling_factor_after],
            "gain": self.gain,
            "rows_saved": self.rows_saved,
            "replayed": self.replayed,
            "warm_up_s": self.warm_up_s,
            "pause_s": self.pause_s,
            "stall_s": self.stall_s,
            **({} if self.given_up is None else {"why": self.given_up}),
            "plan": self.plan.to_document(),
        }


class SwitchLog:
    """A file of JSON lines that grows with every change; without a path nothing is written."""

    def __init__(self, path: str | Path | None) -> None:
        self._path = None if path is None else Path(path)
        if self._path is not None:
            with self._opened(self._path):  # whether it can be written is known before anything runs
                pass

    def write(self, record: Mapping[str, Any]) -> None:
        """Appends a line; OutputError if that cannot be done."""
        if self._path is not None:
            with self._opened(self._path) as file:
                file.write((json.dumps(record, default=str) + "\n").encode())

    @contextmanager
    def _opened(self, path: Path) -> Iterator[IO[bytes]]:
        try:
            with path.open("ab", buffering=0) as file:
                yield file
        except OSError as err:
            why = err.strerror or err
            raise OutputError(f"cannot write changes to '{path}': {why}; check rights and free space") from err
