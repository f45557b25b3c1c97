"""DuckDB, mostly on one thread: the same queries in SQL, with the window rewritten to time buckets.

Time is cut into buckets of one window. The last event of a pattern, the rarest, keeps its own bucket; every earlier
event is copied into the buckets in which such an event may lie (its own and the next; for AND also the one before), so
that the window becomes an equi-join on the bucket plus a residual check. Each choice below is the faster of those
tried: copying the earlier events, not the later ones; half-window buckets for (c) only; window checks as comparisons,
which DuckDB evaluates inside the hash join, not abs(); Kleene ids collected unsorted, as a match is a set. The events
are loaded before the clock starts, so DuckDB pays no conversion from Arrow.
"""

import time
from dataclasses import dataclass
from pathlib import Path

import duckdb

from scripts.benchmarks.single_core.workload import CLOSENESS, Family, Workload

LATER_BUCKETS = "(0), (1)"
LATER_HALF_BUCKETS = "(0), (1), (2)"
NEIGHBOUR_BUCKETS = "(-1), (0), (1)"


@dataclass(frozen=True)
class DuckDBResult:
    """Number of matches in the temporary table and the seconds that filling it took."""

    matches: int
    seconds: float


class DuckDBPeer:
    """One in-memory database with the workload's events in it."""

    def __init__(self, workload: Workload, *, threads: int = 1) -> None:
        self._workload = workload
        self._sql = match_query(workload.family, workload.window_us)
        self._connection = duckdb.connect()
        self._connection.execute(f"SET threads = {threads}")
        self._connection.execute("SET preserve_insertion_order = false")
        self._connection.register("trace", workload.events)
        self._connection.execute("CREATE TABLE events AS SELECT * FROM trace")
        self._connection.unregister("trace")

    def __enter__(self) -> "DuckDBPeer":
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def run(self) -> DuckDBResult:
        """Materialises every match as a row of ids in the temporary table `matches`."""
        self._connection.execute("DROP TABLE IF EXISTS matches")
        began = time.perf_counter()
        self._connection.execute(f"CREATE TEMP TABLE matches AS {self._sql}")
        seconds = time.perf_counter() - began
        counted = self._connection.execute("SELECT count(*) FROM matches").fetchone()
        assert counted is not None
        return DuckDBResult(int(counted[0]), seconds)

    def rows(self, sql: str) -> int:
        """Every match as a row of an Arrow table in memory."""
        table = self._connection.sql(sql).to_arrow_table()
        return int(table.num_rows)

    def copied(self, sql: str, path: Path) -> int:
        """Every match as a row of a Parquet file, in DuckDB's default form."""
        ((count,),) = self._connection.execute(f"COPY ({sql}) TO '{path}' (FORMAT parquet)").fetchall()
        return int(count)

    def counted(self, sql: str) -> int:
        ((count,),) = self._connection.execute(f"SELECT count(*) FROM ({sql})").fetchall()
        return int(count)

    def match_rows(self) -> list[tuple[object, ...]]:
        """Matches of the last run as sorted tuples of ids, a sorted tuple of ids for the Kleene alias."""
        rows = self._connection.execute(f"SELECT {', '.join(self._workload.aliases)} FROM matches").fetchall()
        return sorted(tuple(tuple(sorted(cell)) if isinstance(cell, list) else cell for cell in row) for row in rows)


def match_query(family: Family, window_us: int) -> str:
    """The SQL that selects one row per match, one column per alias."""
    return {"seq2": _seq2, "seq3": _seq3, "and3": _and3, "key4": _key4, "kleene": _kleene}[family](window_us)


def _last(alias: str, attributes: str, bucket_us: int) -> str:
    """Common table expression of the event that keeps its bucket."""
    columns = ", ".join(["id", "ts", *attributes])
    return f"{alias} AS (SELECT {columns}, ts // {bucket_us} AS bucket FROM events WHERE type = '{alias.upper()}')"


def _copied(alias: str, attributes: str, bucket_us: int, buckets: str = LATER_BUCKETS) -> str:
    """Common table expression of an event that is copied into the buckets where its partners may lie."""
    columns = ", ".join(["id", "ts", *attributes])
    return (
        f"{alias} AS (SELECT {columns}, ts // {bucket_us} + shift AS bucket "
        f"FROM events, (VALUES {buckets}) AS shifts(shift) WHERE type = '{alias.upper()}')"
    )


def _seq2(window_us: int) -> str:
    return f"""
        WITH {_copied("a", "x", window_us)}, {_last("b", "x", window_us)}
        SELECT a.id AS a, b.id AS b
        FROM b JOIN a ON a.bucket = b.bucket AND a.ts < b.ts AND b.ts <= a.ts + {window_us} AND a.x < b.x"""


def _seq3(window_us: int) -> str:
    return f"""
        WITH {_copied("a", "xy", window_us)}, {_copied("b", "x", window_us)}, {_last("c", "xy", window_us)}
        SELECT a.id AS a, b.id AS b, c.id AS c
        FROM c
        JOIN b ON b.bucket = c.bucket AND b.ts < c.ts AND c.ts <= b.ts + {window_us} AND b.x < c.x
        JOIN a ON a.bucket = c.bucket AND a.ts < b.ts AND c.ts <= a.ts + {window_us} AND a.x < b.x AND a.y < c.y"""


def _and3(window_us: int) -> str:
    def close(left: str, right: str) -> str:
        return (
            f"{left}.ts >= {right}.ts - {window_us} AND {left}.ts <= {right}.ts + {window_us} "
            f"AND abs({left}.x - {right}.x) < CAST('{CLOSENESS!r}' AS DOUBLE)"
        )

    return f"""
        WITH {_copied("a", "x", window_us, NEIGHBOUR_BUCKETS)},
             {_copied("b", "x", window_us, NEIGHBOUR_BUCKETS)}, {_last("c", "x", window_us)}
        SELECT a.id AS a, b.id AS b, c.id AS c
        FROM c
        JOIN b ON b.bucket = c.bucket AND {close("b", "c")}
        JOIN a ON a.bucket = c.bucket AND {close("a", "b")} AND {close("a", "c")}"""


def _key4(window_us: int) -> str:
    half_us = (window_us + 1) // 2
    return f"""
        WITH {_copied("a", "k", half_us, LATER_HALF_BUCKETS)}, {_copied("b", "k", half_us, LATER_HALF_BUCKETS)},
             {_copied("c", "k", half_us, LATER_HALF_BUCKETS)}, {_last("d", "k", half_us)}
        SELECT a.id AS a, b.id AS b, c.id AS c, d.id AS d
        FROM d
        JOIN c ON c.k = d.k AND c.bucket = d.bucket AND c.ts < d.ts AND d.ts <= c.ts + {window_us}
        JOIN b ON b.k = d.k AND b.bucket = d.bucket AND b.ts < c.ts AND d.ts <= b.ts + {window_us}
        JOIN a ON a.k = d.k AND a.bucket = d.bucket AND a.ts < b.ts AND d.ts <= a.ts + {window_us}"""


def _kleene(window_us: int) -> str:
    return f"""
        WITH {_copied("a", "x", window_us)}, {_copied("b", "x", window_us)}, {_last("c", "x", window_us)},
        pairs AS (
            SELECT a.id AS a, c.id AS c, list(b.id) AS members
            FROM c
            JOIN a ON a.bucket = c.bucket AND a.ts < c.ts AND c.ts <= a.ts + {window_us}
            JOIN b ON b.bucket = c.bucket AND a.ts < b.ts AND b.ts < c.ts AND a.x < b.x AND b.x < c.x
            GROUP BY a.id, c.id),
        subsets AS (SELECT a, c, members, unnest(range(1, 1 << len(members))) AS mask FROM pairs)
        SELECT a, list_filter(members, lambda member, place: (mask >> (place - 1)) & 1 = 1) AS b, c FROM subsets"""
