"""One workload measured on every peer."""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from scripts.benchmarks.single_core import bare_loops
from scripts.benchmarks.single_core.duckdb_peer import DuckDBPeer, DuckDBResult
from scripts.benchmarks.single_core.ours import OursResult, run_ours
from scripts.benchmarks.single_core.workload import Family, Workload

WARM_UP_EVENTS = 5_000
LEAST_MEASURED_SECONDS = 1.5  # short runs repeat until they add up to this, or a cold cache would decide a ratio
MOST_REPEATS = 10  # times `repeat`, for runs that are shorter still

# Family -> the least that bare seconds / our seconds and DuckDB seconds / our seconds should be.
TARGETS: dict[Family, tuple[float, float]] = {
    "seq3": (0.5, 2.0),
    "and3": (0.5, 2.0),
    "key4": (1 / 3, 1.0),
    "kleene": (1 / 3, 2.0),
}


class Timed(Protocol):
    """A result with its wall-clock time."""

    @property
    def seconds(self) -> float: ...


Result = TypeVar("Result", bound=Timed)


@dataclass(frozen=True)
class Measurement:
    """What one workload gave; `ours` and `duckdb` are None where they were not run."""

    name: str
    query_text: str
    events: int
    matches: int
    candidates: int
    bare_split_seconds: float
    bare_loop_seconds: float
    duckdb: DuckDBResult | None
    ours: OursResult | None
    targets: tuple[float, float] | None

    @property
    def bare_seconds(self) -> float:
        return self.bare_split_seconds + self.bare_loop_seconds

    @property
    def bare_ratio(self) -> float | None:
        """Our speed as a share of the bare loop's."""
        return self.bare_seconds / self.ours.seconds if self.ours else None

    @property
    def duckdb_ratio(self) -> float | None:
        """Our speed as a multiple of DuckDB's."""
        return self.duckdb.seconds / self.ours.seconds if self.ours and self.duckdb else None

    @property
    def reached(self) -> bool | None:
        """Whether both targets are met; None without an engine or targets."""
        if self.bare_ratio is None or self.duckdb_ratio is None or self.targets is None:
            return None
        return self.bare_ratio >= self.targets[0] and self.duckdb_ratio >= self.targets[1]

    @property
    def disagreement(self) -> str | None:
        """A line naming the peers whose number of matches differs from the bare loop's."""
        counts = {"DuckDB": self.duckdb, "ours": self.ours}
        wrong = [
            f"{name} {result.matches}" for name, result in counts.items() if result and result.matches != self.matches
        ]
        return f"workload {self.name}: bare loop {self.matches} matches, {', '.join(wrong)}" if wrong else None

    def to_json(self) -> dict[str, object]:
        return {
            "workload": self.name,
            "query": self.query_text,
            "events": self.events,
            "matches": self.matches,
            "candidates": self.candidates,
            "bare_split_seconds": self.bare_split_seconds,
            "bare_loop_seconds": self.bare_loop_seconds,
            "duckdb_seconds": self.duckdb.seconds if self.duckdb else None,
            "ours_seconds": self.ours.seconds if self.ours else None,
            "ours_table_seconds": self.ours.table_seconds if self.ours else None,
            "ours_comparisons": self.ours.comparisons if self.ours else None,
            "bare_ratio": self.bare_ratio,
            "duckdb_ratio": self.duckdb_ratio,
            "targets": self.targets,
            "reached": self.reached,
        }


def measure(workload: Workload, *, repeat: int, skip_ours: bool, with_duckdb: bool = True) -> Measurement:
    """Runs every peer on the workload, warm, in turn, and keeps the best of the repeats of each.

    In turn, because what else the machine does changes from second to second and should meet all of them.
    """
    warm_up = replace(workload, events=workload.events.slice(0, WARM_UP_EVENTS))
    bare_loops.run_bare(warm_up)
    if not skip_ours:
        run_ours(warm_up)
    bare: list[bare_loops.BareResult] = []
    duckdb: list[DuckDBResult] = []
    ours: list[OursResult] = []
    with DuckDBPeer(workload) if with_duckdb else nullcontext() as peer:
        while not _enough(repeat, bare, duckdb, ours):
            # The matches are dropped at once, or the next run would pay for memory that this one holds.
            bare.append(replace(bare_loops.run_bare(workload), chunks=[], flat_ids=[]))
            if peer is not None and (len(duckdb) < repeat):
                duckdb.append(peer.run())
            if not skip_ours:
                ours.append(run_ours(workload, with_table=len(ours) < repeat))
    best = _best(bare)
    assert best is not None
    fastest = _best(ours)
    if fastest is not None:
        fastest = replace(fastest, table_seconds=min(result.table_seconds for result in ours[:repeat]))
    return Measurement(
        name=workload.name,
        query_text=workload.query_text,
        events=workload.events.num_rows,
        matches=best.matches,
        candidates=best.candidates,
        bare_split_seconds=best.split_seconds,
        bare_loop_seconds=best.loop_seconds,
        duckdb=_best(duckdb),
        ours=fastest,
        targets=TARGETS.get(workload.family),
    )


def _enough(repeat: int, *peers: Sequence[Timed]) -> bool:
    """Whether every peer that runs has run `repeat` times, and long enough for the best to mean something."""
    rounds = max(len(results) for results in peers)
    if rounds < repeat:
        return False
    spent = min(sum(result.seconds for result in results) for results in peers if results)
    return spent >= LEAST_MEASURED_SECONDS or rounds >= MOST_REPEATS * repeat


def _best(results: Sequence[Result]) -> Result | None:
    return min(results, key=lambda result: result.seconds, default=None)
