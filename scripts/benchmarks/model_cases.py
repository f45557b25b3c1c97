"""Queries with traces on which the cost model is checked: synthetic ones, and the real traces beside the repository."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from decopa.traces.synthetic import PairSelectivity, SyntheticSpec
from shuffler.source.trace import TraceColumns, TraceSource, open_trace

AB, BC, AC, CD, AA = (
    PairSelectivity("A", "B", 0.05),
    PairSelectivity("B", "C", 0.1),
    PairSelectivity("A", "C", 0.2),
    PairSelectivity("C", "D", 0.02),
    PairSelectivity("A", "A", 0.3),
)
_SPECS = {
    "even": SyntheticSpec(events=100_000, types=4, zipf=0.0, seed=11, pairs=(AB, BC, AC, CD, AA)),
    "skewed": SyntheticSpec(events=100_000, types=4, zipf=1.5, seed=12, pairs=(AB, BC, AC, CD, AA)),
}
_DIST = "dist_km({0}.start_lat, {0}.start_lon, {1}.start_lat, {1}.start_lon) >= {2}"
_FITS = "{0}.memory_request >= {1}.memory_request AND {0}.cpu_request >= {1}.cpu_request"


@dataclass(frozen=True)
class Case:
    name: str
    trace: str
    query: str

    @property
    def is_real(self) -> bool:
        return self.trace not in _SPECS


def _where(*pairs: tuple[PairSelectivity, str, str]) -> str:
    return " AND ".join(pair.predicate(first, second) for pair, first, second in pairs)


def _synthetic() -> list[Case]:
    shapes = {
        "seq2": ("SEQ(A a, B b)", _where((AB, "a", "b")), "400 ms"),
        "and2": ("AND(A a, B b)", _where((AB, "a", "b")), "300 ms"),
        "seq3": ("SEQ(A a, B b, C c)", _where((AB, "a", "b"), (BC, "b", "c")), "200 ms"),
        "and3": ("AND(A a, B b, C c)", _where((AB, "a", "b"), (AC, "a", "c")), "100 ms"),
        "seq-and": ("SEQ(A a, AND(B b, C c))", _where((AB, "a", "b"), (AC, "a", "c")), "150 ms"),
        "seq4": ("SEQ(A a, B b, C c, D d)", _where((AB, "a", "b"), (BC, "b", "c"), (CD, "c", "d")), "100 ms"),
        "twice": ("SEQ(A a, A a2, B b)", _where((AA, "a", "a2"), (AB, "a", "b")), "60 ms"),
        "key": ("SEQ(A a, B b, C c)", "a.k = b.k AND b.x < c.x", "400 ms"),
    }  # fmt: skip
    return [
        Case(f"{trace} {name}", trace, f"QUERY q PATTERN {pattern} WHERE {where} WITHIN {window}")
        for trace in _SPECS
        for name, (pattern, where, window) in shapes.items()
    ]


def _real() -> list[Case]:
    def bikes(name: str, pattern: str, pairs: str, kilometres: float, window: str) -> Case:
        where = " AND ".join(_DIST.format(*pair.split("-"), kilometres) for pair in pairs.split())
        return Case(f"citibike {name}", "citibike", f"QUERY q PATTERN {pattern} WHERE {where} WITHIN {window}")

    def google(name: str, pattern: str, pairs: str, window: str) -> Case:
        where = " AND ".join(_FITS.format(*pair.split("-")) for pair in pairs.split())
        return Case(f"google {name}", "google", f"QUERY q PATTERN {pattern} WHERE {where} WITHIN {window}")

    return [
        bikes("pair", "SEQ(D sy, H lc)", "sy-lc", 6, "24 h"),
        bikes("triple", "AND(D sy, A so, H lc)", "sy-so sy-lc so-lc", 4, "24 h"),
        bikes("long", "SEQ(D sy, H lc, B lo)", "sy-lc lc-lo", 6, "24 h"),
        google("pair", "SEQ(E e, C c)", "e-c", "60 s"),
        google("triple", "AND(D d, C c, E e)", "d-c c-e d-e", "15 s"),
        google("sequence", "SEQ(B b, C c, D d)", "b-c c-d", "10 s"),
    ]


def all_cases() -> list[Case]:
    return _synthetic() + _real()


def open_case(case: Case, shared: Path) -> TraceSource:
    if case.trace in _SPECS:
        return open_trace(_SPECS[case.trace].table())
    if case.trace == "citibike":
        table = pq.read_table(shared / "data" / "citibike.parquet")
    else:  # segments are days apart; the first is the longer one
        table = pq.read_table(shared / "data" / "google_cluster.parquet")
        table = table.filter(pc.equal(table.column("segment"), pa.scalar(1, pa.int8())))
    return open_trace(table, columns=TraceColumns(id="event_id"))
