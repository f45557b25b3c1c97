"""Queries on which plans are compared by running them: on the real traces, and on streams made to mislead a planner."""

from __future__ import annotations

import datetime
import itertools
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

#: The two excerpts of the Google trace, which are days apart and have different types.
_SEGMENTS = {"google": 1, "google 2": 2}
_FITS = "{0}.memory_request >= {1}.memory_request AND {0}.cpu_request >= {1}.cpu_request"


@dataclass(frozen=True)
class RegretCase:
    """A query, and the stream that it runs on: a kind of stream and how much of it."""

    name: str
    query: str
    stream: str
    size: float

    def table(self, shared: Path) -> pa.Table:
        if self.stream == "citibike":
            return _days(shared, self.size)
        if self.stream in _SEGMENTS:
            return _seconds(shared, self.size, _SEGMENTS[self.stream])
        return made_stream(self.stream, int(self.size))

    @property
    def id_column(self) -> str:
        return "event_id" if self.is_real else "id"

    @property
    def is_real(self) -> bool:
        return self.stream == "citibike" or self.stream in _SEGMENTS


@cache
def _days(shared: Path, days: float) -> pa.Table:
    table = pq.read_table(shared / "data" / "citibike.parquet")
    end = datetime.datetime(2013, 8, 1) + datetime.timedelta(days=days)
    return table.filter(pc.less(table["ts"], pa.scalar(end, table.schema.field("ts").type)))


@cache
def _seconds(shared: Path, seconds: float, segment: int) -> pa.Table:
    table = pq.read_table(shared / "data" / "google_cluster.parquet")
    table = table.filter(pc.equal(table["segment"], pa.scalar(segment, pa.int8())))
    end = pc.min(table["ts"]).as_py() + int(seconds * 1e6)
    return table.filter(pc.less(table["ts"], end))


@cache
def made_stream(kind: str, events: int) -> pa.Table:
    """Types A to F over 1,000 s. `bursts`: types share bursts; `skew`: A is 100 times as frequent as F; `dependent`: x,
    y and z tell nearly the same of an event, and keys go with types; `tides`: some types come when others do not."""
    rng = np.random.default_rng(17)
    span_us, names = 1_000_000_000, list("ABCDEF")
    weights = np.ones(6) if kind != "skew" else 100.0 ** -(np.arange(6) / 5)
    codes = rng.choice(6, events, p=weights / weights.sum())
    ts = rng.integers(0, span_us, events)
    if kind == "bursts":
        middles = rng.integers(0, span_us, 60)
        burst = rng.random(events) < 0.5
        ts = np.where(burst, middles[rng.integers(0, 60, events)] + rng.integers(0, 2_000_000, events), ts)
    if kind == "tides":
        tide = np.where(codes % 2 == 0, 0, span_us // 20)
        ts = (ts // (span_us // 10)) * (span_us // 10) + (ts % (span_us // 20)) + tide
    order = np.argsort(ts, kind="stable")
    codes, ts = codes[order], ts[order]
    x = rng.random(events)
    noise = 0.05 if kind == "dependent" else 1.0
    y, z = ((x * (1 - noise) + noise * rng.random(events)) for _ in range(2))
    k = codes * 3 + rng.integers(0, 6, events) if kind == "dependent" else rng.integers(0, 20, events)
    columns = {"id": np.arange(events), "ts": ts, "type": pa.array([names[code] for code in codes])}
    return pa.table({**columns, "x": x, "y": y, "z": z, "k": k})


def _apart(aliases: str, kilometres: float, members: str = "") -> str:
    distance = "dist_km({0}.start_lat, {0}.start_lon, {1}.start_lat, {1}.start_lon) >= {2:g}"
    pairs = list(itertools.combinations(aliases.split(), 2)) + [(one, one) for one in members.split()]
    return " AND ".join(distance.format(one, other, kilometres) for one, other in pairs)


def _bikes(name: str, pattern: str, where: str, window: str, days: float = 3) -> RegretCase:
    return RegretCase(f"citibike {name}", f"PATTERN {pattern} WHERE {where} WITHIN {window}", "citibike", days)


def _google(name: str, pattern: str, pairs: str, window: str, seconds: float) -> RegretCase:
    where = " AND ".join(_FITS.format(*pair.split("-")) for pair in pairs.split())
    return RegretCase(f"google {name}", f"PATTERN {pattern} WHERE {where} WITHIN {window}", "google", seconds)


def real_cases() -> list[RegretCase]:
    and4, seq4 = "AND(E ly, KL(D sy), A so, H lc)", "SEQ(KL(D sy), H lc, AND(B lo, E ly))"
    four, every = "ly sy so lc", "sy lc lo ly"
    return [
        _bikes("issue", and4, _apart(four, 4), "12 h"),
        _bikes("issue 3 km", and4, _apart(four, 3), "2 h"),
        _bikes("issue 5 km", and4, _apart(four, 5), "12 h"),
        _bikes("issue 6 km", and4, _apart(four, 6), "24 h"),
        _bikes("issue, members apart", and4, _apart(four, 4, "sy"), "12 h"),
        _bikes("q2", seq4, _apart(every, 4), "2 h", 2),
        _bikes("q2 members apart", seq4, _apart(every, 3, "sy"), "3 h", 1),
        _bikes("q3", "AND(A so, D sy, G sc, H lc)", _apart("so sy sc lc", 3), "24 h", 20),
        _bikes("q3 5 km", "AND(A so, D sy, G sc, H lc)", _apart("so sy sc lc", 5), "24 h", 20),
        _bikes("five", "AND(A so, D sy, G sc, H lc, B lo)", _apart("so sy sc lc lo", 3), "12 h", 4),
        _bikes("chain", "SEQ(D sy, H lc, B lo)", _apart("sy lc", 6) + " AND " + _apart("lc lo", 6), "24 h", 6),
        _bikes("same station", "SEQ(B x, H lc, E y)", "x.end_station_id = lc.start_station_id AND lc.end_station_id = "
               "y.start_station_id", "4 h", 6),
        _bikes("twice", "SEQ(D d1, D d2, H lc)", _apart("d1 d2 lc", 4), "24 h", 12),
        _bikes("not", "SEQ(D sy, NOT(A so), H lc, B lo)", _apart("sy lc lo", 4), "6 h", 6),
        _google("q1", "SEQ(C c, D d, E e)", "c-d d-e", "30 s", 3_000),
        _google("q2", "AND(D d, C c, E e)", "d-c c-e d-e", "5 s", 2_000),
        _google("q3", "SEQ(B b, AND(C c, D d))", "b-c c-d", "10 s", 2_000),
        _google("kleene", "SEQ(C c, KL(D d), E e)", "c-d d-e", "10 s", 2_000),
        _google("not", "SEQ(D d, NOT(C c), E e)", "d-e d-c", "30 s", 3_000),
        _google("twice", "AND(D d1, D d2, C c, E e)", "d1-d2 d2-c c-e", "10 s", 1_000),
    ]  # fmt: skip


def made_cases() -> list[RegretCase]:
    shapes = {
        "and4": (
            "AND(A a, B b, C c, D d)",
            "a.x < 0.5 * b.x AND b.y < 0.6 * c.y AND c.z > 0.7 * d.z AND a.x + d.x < 0.6",
        ),
        "seq4": ("SEQ(A a, B b, C c, D d)", "a.k = b.k AND b.x < c.x AND c.y < d.y AND a.z < 0.4 * d.z"),
        "kleene": ("SEQ(A a, KL(F f), C c)", "a.x < 0.3 * f.x AND f.y > 0.5 * c.y AND a.z < c.z"),
        "not": ("SEQ(A a, NOT(E e), B b, C c)", "e.k = a.k AND a.x < 0.5 * b.x AND b.y < 0.5 * c.y"),
        "and5": (
            "AND(A a, B b, C c, D d, E e)",
            "a.k = b.k AND b.k = c.k AND c.x < 0.3 * d.x AND d.y < 0.4 * e.y AND a.z < 0.5 * e.z",
        ),
    }
    sizes = {
        "bursts": (12_000, {"and4": "2 s", "seq4": "4 s", "kleene": "700 ms", "not": "3 s", "and5": "2 s"}),
        "skew": (20_000, {"and4": "4 s", "seq4": "8 s", "kleene": "3 s", "not": "4 s", "and5": "4 s"}),
        "dependent": (20_000, {"and4": "3 s", "seq4": "6 s", "kleene": "1 s", "not": "4 s", "and5": "3 s"}),
        "tides": (20_000, {"and4": "2 s", "seq4": "5 s", "kleene": "1 s", "not": "3 s", "and5": "3 s"}),
    }
    return [
        RegretCase(
            f"{stream} {name}", f"PATTERN {shapes[name][0]} WHERE {shapes[name][1]} WITHIN {window}", stream, events
        )
        for stream, (events, windows) in sizes.items()
        for name, window in windows.items()
    ]


def all_cases() -> list[RegretCase]:
    return real_cases() + made_cases()


def paper_cases() -> list[RegretCase]:
    """The six queries of the paper's Table 3 in several windows, at several distances, with and without a condition
    between KL members. Two types of Citi Bike's Q1 and Q2 are not in the trace: E stands for C, and B for F."""
    q1, q2 = "AND(D sy, E vl, A so, B lo, H lc)", "SEQ(D sy, H lc, AND(E ly, B vly))"
    q3 = "AND(E ly, KL(D sy), A so, H lc)"
    bikes = [
        *(("Q1", q1, "sy vl so lo lc", "", *rest) for rest in ((3, 1, 3), (4, 3, 3), (5, 6, 3), (6, 24, 6))),
        *(("Q2", q2, "sy lc ly vly", "", *rest) for rest in ((3, 1, 2), (4, 3, 2), (5, 6, 3), (6, 24, 3))),
        *(("Q3", q3, "ly sy so lc", "", *rest) for rest in ((3, 3, 3), (4, 12, 3), (5, 24, 6), (6, 24, 12))),
        *(("Q3 members apart", q3, "ly sy so lc", "sy", *rest) for rest in ((3, 6, 3), (4, 24, 3), (6, 24, 12))),
    ]
    found = [
        _bikes(f"{name} {kilometres} km {hours} h", pattern, _apart(aliases, kilometres, members), f"{hours} h", days)
        for name, pattern, aliases, members, kilometres, hours, days in bikes
    ]
    every = {
        "Q1": ("AND(A s, SEQ(E e1, C e2), G f)", "s-e1 s-e2 s-f e1-e2 e1-f e2-f", (20, 60, 120), "google 2"),
        "Q2": ("AND(D d, C c, I i, E e)", "d-c d-i d-e c-i c-e i-e", (60, 300, 600), "google"),
        "Q3": ("AND(KL(D s), B q, I l)", "s-l s-q l-q", (30, 60, 120), "google"),
        "Q3 members": ("AND(KL(D s), B q, I l)", "s-l s-q l-q s-s", (60, 120, 300), "google"),
    }
    for name, (pattern, pairs, windows, stream) in every.items():
        for seconds in windows:
            one = _google(f"{name} {seconds} s", pattern, pairs, f"{seconds} s", 6_000)
            found.append(replace(one, stream=stream))
    return [replace(case, name=f"paper {case.name}") for case in found]
