"""Jobs that chaos and soak run: a query over a synthetic trace, published part by part, and what should come of it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.json
import pyarrow.parquet as pq

import decopa
from decopa.api import as_workload
from decopa.planning.plan import Plan
from decopa.planning.spread import spread_units
from decopa.planning.strategies.left_deep import left_deep
from decopa.traces.synthetic import SyntheticSpec

#: Joins on several units, a NOT that holds matches back over checkpoints, a Kleene closure whose groups grow over them,
#: a NEXT whose inputs are hashed and whose first events wait for their successors.
QUERIES = (
    """QUERY q PATTERN SEQ(A a, AND(B b, C c), NOT(D d))
    WHERE a.x < b.x * 0.3 AND a.y < c.y * 0.3 AND a.s = c.s AND a.k = d.k WITHIN 300 ms RETURN a.s""",
    """QUERY q PATTERN SEQ(A a, KL(B b), C c) WHERE a.k = b.k AND b.k = c.k AND a.x < c.x WITHIN 150 ms RETURN a.s""",
    """QUERY q PATTERN SEQ(A a, B b, C c) WHERE a.k = b.k AND b.x < c.x * 0.2 WITHIN 150 ms RETURN b.s""",
    """QUERY q PATTERN NEXT(A a, B b, C c) WHERE FILTER(b.k = a.k) AND FILTER(c.k = b.k) WITHIN 30 s RETURN a.s""",
)


@dataclass(frozen=True)
class Job:
    """A run in `folder`: number n differs from the others in query, units, shufflers and format of its parts."""

    number: int
    folder: Path
    trace: Path
    rate: float

    @property
    def query(self) -> str:
        return QUERIES[self.number % len(QUERIES)]

    @property
    def units(self) -> int:
        return 3 + self.number % 2

    @property
    def shufflers(self) -> int:
        return 1 + self.number // 2 % 2

    @property
    def form(self) -> str:
        return "jsonl" if self.number % 4 == 3 else "parquet"

    @property
    def checkpoints(self) -> Path:
        return self.folder / "checkpoints"

    @property
    def out(self) -> Path:
        return self.folder / "out"

    def manifests(self) -> list[int]:
        """The numbers of complete checkpoints."""
        found = self.checkpoints.glob("checkpoint-*/manifest.json")
        return sorted(int(path.parent.name.removeprefix("checkpoint-")) for path in found)

    def expected(self) -> Counter[str]:
        return rows_of(decopa.run(self.query, self.trace))

    def published(self) -> Counter[str]:
        """Every row that a reader finds now; parts that are withdrawn while he reads are passed over."""
        rows: Counter[str] = Counter()
        for path in sorted(self.out.glob("part-*")):
            try:
                rows += rows_of(pq.read_table(path) if self.form == "parquet" else pa.json.read_json(path))
            except FileNotFoundError:
                continue
        return rows


def plans_of(query: str, units: int) -> tuple[Plan, Plan]:
    """Two plans of a query that split it differently, on different numbers of units."""
    (one,) = as_workload(query)
    backwards = left_deep(one, tuple(reversed(one.aliases)))
    return Plan((spread_units(left_deep(one), units),)), Plan((spread_units(backwards, units + 1),))


def rows_of(matches: pa.Table) -> Counter[str]:
    """Rows as text, so that formats can be compared; how often each occurs."""
    return Counter(repr(sorted(row.items())) for row in matches.to_pylist())


def write_trace(path: Path, *, events: int, rate: float, seed: int) -> None:
    spec = SyntheticSpec(events=events, rate_per_s=rate, types=4, keys=20, zipf=0.3, seed=seed)
    batches = spec.batches()
    first = next(batches)
    with pq.ParquetWriter(path, first.schema) as writer:
        writer.write_batch(first)
        for batch in batches:
            writer.write_batch(batch)
