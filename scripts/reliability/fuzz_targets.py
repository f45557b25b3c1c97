"""What is fuzzed: for each kind of input from outside, how to draw one and how the program takes it in.

`accept` returns if the input was taken, raises a DecoPaError if it was refused; anything else is a finding.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from random import Random

from actors.group import Limits
from cluster.checkpoint.store import RUN_FILE, CheckpointStore, Manifest
from cluster.options import Checkpoints, Placement, RayOptions
from costmodel.capacity import Capacity
from costmodel.statistics import PairSelectivity, RateProfile, Statistics, SubQuerySelectivity
from costmodel.stats_file import from_json as read_statistics
from costmodel.stats_file import to_json as statistics_text
from decopa.api import make_plan
from decopa.language.text.parser import parse, parse_workload
from decopa.planning.plan import Plan
from decopa.planning.planner import plan_workload
from decopa.planning.validate import check_structure
from decopa.query.binding import bind
from decopa.query.schema import Column, Kind, Schema
from decopa.runs.spec import Output, Planning, RunSpec, TraceOptions
from decopa.runs.spec_file import read_run, to_document
from scripts.reliability.mutations import damaged_bytes, damaged_document, damaged_text
from scripts.reliability.odd_queries import WORDS, odd_query
from scripts.reliability.odd_states import OddStates
from scripts.reliability.odd_traces import odd_csv, odd_json_lines, odd_parquet, read_stream, read_trace
from shuffler.rows.events import TraceColumns
from shuffler.source.dead_letters import BadRows
from shuffler.source.pacing import Replay

SCHEMA = Schema(
    {
        "id": Column(Kind.INT), "ts": Column(Kind.INT), "x": Column(Kind.FLOAT), "y": Column(Kind.FLOAT, nullable=True),
        "n": Column(Kind.INT), "s": Column(Kind.STRING), "flag": Column(Kind.BOOL), "lat": Column(Kind.FLOAT),
        "lon": Column(Kind.FLOAT),
    }
)  # fmt: skip
_QUERIES = (
    "PATTERN SEQ(A a, B b, C c) WHERE a.x < b.x AND b.s = c.s WITHIN 10 min",
    "QUERY k PATTERN SEQ(A a, KL(B b), NOT(C c)) WHERE a.x < b.x WITHIN 1 h RETURN a.x",
    "PATTERN AND(A a, A b, OR(B c, C d)) WHERE a.n = b.n WITHIN 3 us",
)


class Target(ABC):
    """`weight` is its share of all inputs; `folder` is for files that the program reads."""

    name: str
    weight: int

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @abstractmethod
    def draw(self, random: Random) -> bytes: ...

    @abstractmethod
    def accept(self, content: bytes) -> None: ...


class QueryText(Target):
    name, weight = "query text", 30

    def draw(self, random: Random) -> bytes:
        return odd_query(random).encode("utf-8", "surrogatepass")

    def accept(self, content: bytes) -> None:
        """Parsed, written and parsed again, bound to columns, planned: all that happens before anything runs."""
        queries = parse_workload(content.decode("utf-8", "surrogatepass"))
        assert parse_workload(";\n".join(map(str, queries))) == queries
        for query in queries:
            for branch in query.branches:
                bind(branch, SCHEMA)
        check_structure(make_plan(queries, units=4))


class PlanFile(Target):
    name, weight = "plan JSON", 12

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._documents = [json.loads(make_plan(text, units=units).to_json()) for text in _QUERIES for units in (1, 9)]

    def draw(self, random: Random) -> bytes:
        change: Callable[[str], str] = lambda text: damaged_text(text, random, WORDS)  # noqa: E731
        return damaged_document(random.choice(self._documents), random, change).encode("utf-8", "surrogatepass")

    def accept(self, content: bytes) -> None:
        plan = Plan.from_json(content.decode("utf-8", "surrogatepass"))
        check_structure(plan)
        assert Plan.from_json(plan.to_json()) == plan


class StatisticsFile(Target):
    name, weight = "stats JSON", 10

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._queries = (parse(_QUERIES[0]),)
        pairs = (PairSelectivity("A", "B", 0.01, 0.001), PairSelectivity("B", "C", 1.0))
        full = Statistics(
            window_us=600_000_000,
            rates={"A": 1000, "B": 30.5, "C": 2},
            type_pairs=pairs,
            alias_pairs=(PairSelectivity("a", "b", 0.25),),
            sub_queries=(SubQuerySelectivity("SEQ(A a, B b)", 0.008),),
            filter_shares={"a": 0.5},
            default_selectivity=1.0,
            measured_for=(str(self._queries[0]),),
            profiles={"A": RateProfile(3120, 0.8, 0.31)},
            meetings={("A", "B"): 1.3},
        )
        self._document = json.loads(statistics_text(full))

    def draw(self, random: Random) -> bytes:
        change: Callable[[str], str] = lambda text: damaged_text(text, random, WORDS)  # noqa: E731
        return damaged_document(self._document, random, change).encode("utf-8", "surrogatepass")

    def accept(self, content: bytes) -> None:
        """Read, and used for a plan."""
        statistics = read_statistics(content.decode("utf-8", "surrogatepass"))
        plan_workload(self._queries, statistics, Capacity.per_second(1e6, 1e8), units=4, strategy="decopa")


class CapacityFile(Target):
    name, weight = "capacity JSON", 5

    def draw(self, random: Random) -> bytes:
        document = json.loads(Capacity.per_second(2e6, 1e8).to_json())
        return damaged_document(document, random).encode("utf-8", "surrogatepass")

    def accept(self, content: bytes) -> None:
        str(Capacity.from_json(content.decode("utf-8", "surrogatepass")).for_window(600_000_000))


class ManifestFile(Target):
    """manifest.json of a checkpoint whose states are there."""

    name, weight = "manifest.json", 6

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / "manifest")
        self._store = CheckpointStore(self.folder)
        states = {
            name: self._store.write_state(7, name, name.encode(), 1) for name in ("shuffler/0", "q/o3/0", "sink/q")
        }
        plan = make_plan(_QUERIES[0], units=2).to_json()
        self._store.commit(Manifest(7, 1, plan, 1, 500, 3, states, ("part-00000007.parquet",), 11))
        self._path = self.folder / "checkpoint-00000007" / "manifest.json"
        self._document = json.loads(self._path.read_text())

    def draw(self, random: Random) -> bytes:
        if random.random() < 0.2:
            return damaged_bytes(json.dumps(self._document).encode(), random)
        return damaged_document(self._document, random).encode("utf-8", "surrogatepass")

    def accept(self, content: bytes) -> None:
        """Read as `decopa resume` does: the last whole checkpoint, its states, its plan."""
        self._path.write_bytes(content)
        self._store.latest()
        manifest = self._store.read(7)
        for process in manifest.states:
            self._store.read_state(manifest, process)
        Plan.from_json(manifest.plan)


class JobFile(Target):
    name, weight = "run.json", 5

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / "run")
        self._store = CheckpointStore(self.folder)
        queries = parse_workload(_QUERIES[0])
        spec = RunSpec(
            TraceOptions(TraceColumns(id="event_id"), path="trace.parquet", bad_rows=BadRows("divert")),
            Planning(units=4, plan=make_plan(queries, units=4)),
            Limits(max_matches=1_000),
            RayOptions(placement=Placement(pins={"o5": "127.0.0.1"}), replay=Replay(rate=10.0)),
            output=Output("matches"),
            checkpoints=Checkpoints("checkpoints", every_s=0.5),
        )
        self._store.write_run(to_document(spec, queries))
        self._path = self.folder / RUN_FILE
        self._document = json.loads(self._path.read_text())

    def draw(self, random: Random) -> bytes:
        if random.random() < 0.2:
            return damaged_bytes(json.dumps(self._document).encode(), random)
        return damaged_document(self._document, random).encode("utf-8", "surrogatepass")

    def accept(self, content: bytes) -> None:
        self._path.write_bytes(content)
        read_run(self._store)


class StateFile(Target):
    """Files of units and shufflers, with right and wrong checksums."""

    name, weight = "state files", 12

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._states = OddStates()

    def draw(self, random: Random) -> bytes:
        return self._states.draw(random)

    def accept(self, content: bytes) -> None:
        self._states.accept(content)


class TraceFile(Target):
    """A file of one kind; every second input is read with --bad-rows divert."""

    suffix: str
    weight = 7

    def accept(self, content: bytes) -> None:
        path = self.folder / f"trace{self.suffix}"
        path.write_bytes(content)
        read_trace(path, divert=len(content) % 2 == 1)


class CsvTrace(TraceFile):
    name, suffix = "CSV trace", ".csv"

    def draw(self, random: Random) -> bytes:
        return odd_csv(random)


class JsonTrace(TraceFile):
    name, suffix = "JSON lines trace", ".jsonl"

    def draw(self, random: Random) -> bytes:
        return odd_json_lines(random)


class ParquetTrace(TraceFile):
    name, suffix = "Parquet trace", ".parquet"

    def draw(self, random: Random) -> bytes:
        return odd_parquet(random)


class LiveStream(Target):
    """JSON lines as they come from standard input."""

    name, weight = "live JSON lines", 5

    def draw(self, random: Random) -> bytes:
        return odd_json_lines(random)

    def accept(self, content: bytes) -> None:
        read_stream(content, divert=len(content) % 2 == 1)


TARGETS: dict[str, type[Target]] = {
    kind.name: kind
    for kind in (
        QueryText, PlanFile, StatisticsFile, CapacityFile, ManifestFile, JobFile, StateFile, CsvTrace, JsonTrace,
        ParquetTrace, LiveStream,
    )
}  # fmt: skip
