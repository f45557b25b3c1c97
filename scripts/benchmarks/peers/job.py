"""What a contender is told and what it answers; both travel as JSON between processes of two environments."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from scripts.benchmarks.peers.query import SequenceQuery


@dataclass(frozen=True)
class Job:
    """`trace` is a Parquet file in time order whose ids are 0, 1, 2, ...; `form` says which way to run the query.

    A run may take `limit_s`; who cannot do the whole trace in that time does its beginning. Runs are repeated `repeat`
    times or more, and the fastest counts. `batch_events` is the size of a micro-batch where the form has any.
    """

    trace: str
    query: SequenceQuery
    form: str
    limit_s: float
    repeat: int
    batch_events: int = 0

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self) | {"query": self.query.to_json()}))

    @staticmethod
    def load(path: Path) -> Job:
        record: dict[str, Any] = json.loads(path.read_text())
        return Job(**record | {"query": SequenceQuery.from_json(record["query"])})


@dataclass(frozen=True)
class Outcome:
    """Matches within the first `events` events, and the seconds of the fastest of `runs` runs over them; where several
    patterns run at once, the matches of each."""

    matches: int
    events: int
    seconds: float
    runs: int = 1
    by_pattern: Sequence[int] = ()

    @staticmethod
    def from_json(record: Mapping[str, Any]) -> Outcome:
        return Outcome(**{**record, "by_pattern": tuple(record.get("by_pattern", ()))})

    @property
    def events_per_s(self) -> float:
        return self.events / self.seconds


def worker(run: Callable[[Job], Outcome]) -> None:
    """The main program of a contender's process: one argument, the job's file; the answer is the last line printed."""
    print(json.dumps(asdict(run(Job.load(Path(sys.argv[1]))))), flush=True)


def answer(printed: str) -> Outcome:
    """The outcome in what a contender printed."""
    lines = printed.strip().splitlines()
    if not lines:
        raise ValueError("nothing was printed")
    return Outcome.from_json(json.loads(lines[-1]))
