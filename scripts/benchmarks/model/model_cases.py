"""Queries with traces on which the cost model is checked: synthetic ones, and the real traces beside the repository."""

from __future__ import annotations

import itertools
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


def _kleene_and_not() -> list[Case]:
    """KL and NOT, six on synthetic streams and six on the real traces."""
    even = {
        "kl": ("SEQ(A a, KL(B b))", _where((AB, "a", "b")), "60 ms"),
        "kl-and": ("AND(A a, KL(D d), C c)", _where((AC, "a", "c"), (CD, "c", "d")), "60 ms"),
        "kl-members": ("SEQ(A a, KL(B b), C c)", _where((AB, "a", "b"), (BC, "b", "c")) + " AND b.x < b.x", "80 ms"),
        "not": ("SEQ(A a, NOT(B b), C c)", _where((AC, "a", "c"), (AB, "a", "b")), "100 ms"),
        "not-end": ("SEQ(A a, C c, NOT(B b))", _where((AC, "a", "c")) + " AND b.k = a.k", "60 ms"),
        "not-key": ("SEQ(A a, NOT(D d), B b)", _where((AB, "a", "b")) + " AND d.k = a.k", "200 ms"),
    }
    made = [
        Case(f"{'skewed' if at % 2 else 'even'} {name}", "skewed" if at % 2 else "even",
             f"QUERY q PATTERN {pattern} WHERE {where} WITHIN {window}")
        for at, (name, (pattern, where, window)) in enumerate(even.items())
    ]  # fmt: skip
    far = [_DIST.format(one, other, 4) for one, other in itertools.combinations(("ly", "sy", "so", "lc"), 2)]
    apart = " AND ".join([_DIST.format("sy", "lc", 4), _DIST.format("sy", "sy", 3)])
    fits = " AND ".join(_FITS.format(one, other) for one, other in (("c", "d"), ("d", "e")))
    queries = [
        ("citibike kl", "citibike", f"AND(E ly, KL(D sy), A so, H lc) WHERE {' AND '.join(far)} WITHIN 6 h"),
        ("citibike kl-members", "citibike", f"SEQ(KL(D sy), H lc) WHERE {apart} WITHIN 6 h"),
        ("citibike kl-alone", "citibike", f"SEQ(A so, KL(D sy)) WHERE {_DIST.format('so', 'sy', 5)} WITHIN 8 h"),
        ("citibike not", "citibike", f"SEQ(D sy, NOT(A so), H lc) WHERE {_DIST.format('sy', 'lc', 5)} WITHIN 12 h"),
        ("google kl", "google", f"SEQ(C c, KL(D d), E e) WHERE {fits} WITHIN 2 s"),
        ("google not", "google", f"SEQ(D d, NOT(C c), E e) WHERE {_FITS.format('d', 'e')} AND c.priority = d.priority "
         "WITHIN 20 s"),
    ]  # fmt: skip
    return made + [Case(name, trace, f"QUERY q PATTERN {text}") for name, trace, text in queries]


def plain_cases() -> list[Case]:
    """The queries without KL and NOT."""
    return _synthetic() + _real()


def all_cases() -> list[Case]:
    return plain_cases() + _kleene_and_not()


def table_of(case: Case, shared: Path) -> pa.Table:
    """The events of a case."""
    if case.trace in _SPECS:
        return _SPECS[case.trace].table()
    if case.trace == "citibike":
        return pq.read_table(shared / "data" / "citibike.parquet")
    # Segments are days apart; the first is the longer one.
    table = pq.read_table(shared / "data" / "google_cluster.parquet")
    return table.filter(pc.equal(table.column("segment"), pa.scalar(1, pa.int8())))


def open_case(case: Case, shared: Path) -> TraceSource:
    table = table_of(case, shared)
    return open_trace(table, columns=TraceColumns(id="event_id")) if case.is_real else open_trace(table)
