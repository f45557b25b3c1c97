"""Figures of all cases, kept from run to run so that a report may be put together from several."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from scripts.benchmarks.peers.contenders import BY_NAME
from scripts.benchmarks.peers.job import Outcome


@dataclass(frozen=True)
class CaseResult:
    """`outcomes` by contender; `failures` are those without an answer, with the reason; `command` measured them."""

    name: str
    group: str
    title: str
    query_text: str
    axis: float | None
    trace_events: int
    trace_matches: int
    outcomes: Mapping[str, Outcome]
    failures: Mapping[str, str]
    command: str

    def ratio(self, contender: str) -> float | None:
        """How many times the events per second of the contender decopa does: above 1 decopa is faster."""
        baseline = self.outcomes.get(BY_NAME[contender].baseline)
        outcome = self.outcomes.get(contender)
        return baseline.events_per_s / outcome.events_per_s if baseline and outcome else None


@dataclass(frozen=True)
class Target:
    """The least that `ratio` should be for a contender in a case."""

    case: str
    contender: str
    least: float


TARGETS = (
    Target("window-1", "FlinkCEP", 1000),
    Target("window-1", "DuckDB, time-bucket join", 2),
    Target("window-1", "DuckDB, batches of 10,000", 5),
    Target("window-1", "DuckDB, batches of 1,000", 5),
)


def save(results: Iterable[CaseResult], machine: Mapping[str, str], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    record = {"machine": dict(machine), "cases": [asdict(result) for result in results]}
    path.write_text(json.dumps(record, indent=1) + "\n")


def load(path: Path) -> list[CaseResult]:
    """The cases of an earlier run, none if there was none."""
    if not path.is_file():
        return []
    return [_from_json(record) for record in json.loads(path.read_text())["cases"]]


def _from_json(record: dict[str, Any]) -> CaseResult:
    outcomes = {name: Outcome.from_json(outcome) for name, outcome in record["outcomes"].items()}
    return CaseResult(**record | {"outcomes": outcomes})


def write_csv(results: Iterable[CaseResult], path: Path) -> None:
    """One row for each case and contender."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(
            ["case", "axis", "contender", "events", "matches", "seconds", "events_per_s", "runs", "decopa_is_faster_by"]
        )
        for result in results:
            for name, outcome in result.outcomes.items():
                speed, ratio = outcome.events_per_s, result.ratio(name)
                shown = "" if ratio is None else f"{ratio:.4g}"
                row = [result.name, result.axis, name, outcome.events, outcome.matches]
                writer.writerow([*row, f"{outcome.seconds:.6g}", f"{speed:.6g}", outcome.runs, shown])
