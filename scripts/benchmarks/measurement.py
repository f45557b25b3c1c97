"""One workload measured on every peer."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from scripts.benchmarks import bare_loops
from scripts.benchmarks.duckdb_peer import DuckDBPeer, DuckDBResult
from scripts.benchmarks.ours import OursResult, run_ours
from scripts.benchmarks.workload import Family, Workload

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
            "ours_comparisons": self.ours.comparisons if self.ours else None,
            "bare_ratio": self.bare_ratio,
            "duckdb_ratio": self.duckdb_ratio,
            "targets": self.targets,
            "reached": self.reached,
        }


def measure(workload: Workload, *, repeat: int, skip_ours: bool, with_duckdb: bool = True) -> Measurement:
    """Runs every peer on the workload, warm, and keeps the best of the repeats of each."""
    warm_up = replace(workload, events=workload.events.slice(0, WARM_UP_EVENTS))
    bare_loops.run_bare(warm_up)
    # The matches are dropped at once, or the next repeat would pay for memory that the last one holds.
    bare = best_of(repeat, lambda: replace(bare_loops.run_bare(workload), chunks=[], flat_ids=[]))
    duckdb = None
    if with_duckdb:
        with DuckDBPeer(workload) as peer:
            duckdb = best_of(repeat, peer.run)
    ours = None
    if not skip_ours:
        run_ours(warm_up)
        ours = best_of(repeat, lambda: run_ours(workload))
    return Measurement(
        name=workload.name,
        query_text=workload.query_text,
        events=workload.events.num_rows,
        matches=bare.matches,
        candidates=bare.candidates,
        bare_split_seconds=bare.split_seconds,
        bare_loop_seconds=bare.loop_seconds,
        duckdb=duckdb,
        ours=ours,
        targets=TARGETS.get(workload.family),
    )


def best_of(repeat: int, run: Callable[[], Result]) -> Result:
    """The fastest of at least `repeat` runs."""
    results: list[Result] = []
    while len(results) < repeat or sum(result.seconds for result in results) < LEAST_MEASURED_SECONDS:
        results.append(run())
        if len(results) >= MOST_REPEATS * repeat:
            break
    return min(results, key=lambda result: result.seconds)
