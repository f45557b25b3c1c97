"""Sequence queries as SQL, for DuckDB and for Spark.

The plain join is what one writes first: a self-join with bounds on the times. The time-bucket join is a rewrite by
hand: time is cut into buckets, the last event keeps its bucket, every earlier event is copied into the buckets in which
the last one may lie, so that the window becomes an equi-join on the bucket plus a residual check.

The ASOF join of DuckDB finds the next event that is later and has equal keys; other conditions it cannot skip by.
"""

from __future__ import annotations

import itertools
from typing import Literal

from scripts.benchmarks.peers.query import SequenceQuery

Dialect = Literal["duckdb", "spark"]


def plain_join(query: SequenceQuery) -> str:
    """One row of ids per match; the events are in the table `events`."""
    tables = ", ".join(f"events {alias}" for alias in query.aliases)
    where = [f"{alias}.type = '{type_name}'" for alias, type_name in query.positions]
    for place in range(1, len(query.aliases)):
        where += _conditions(query, query.aliases[place], query.aliases[:place])
    where += _order(query.aliases)
    first, last = query.aliases[0], query.aliases[-1]
    where.append(f"{last}.ts <= {first}.ts + {query.window_us}")
    return f"SELECT {_ids(query)} FROM {tables} WHERE {' AND '.join(where)}"


def bucket_join(query: SequenceQuery, dialect: Dialect, *, fresh_from: int | None = None) -> str:
    """The same rows by time buckets; with `fresh_from` only matches whose last event has that id or a later one."""
    bucket_us = -(-query.window_us // query.buckets_per_window)
    shifts = ", ".join(f"({shift})" for shift in range(query.buckets_per_window + 1))
    divide = "//" if dialect == "duckdb" else "DIV"
    last = query.aliases[-1]
    tables = []
    for alias, type_name in query.positions:
        columns = ", ".join(["id", "ts", *query.attributes_of(alias)])
        if alias == last:
            fresh = "" if fresh_from is None else f" AND id >= {fresh_from}"
            tables.append(
                f"{alias} AS (SELECT {columns}, ts {divide} {bucket_us} AS bucket "
                f"FROM events WHERE type = '{type_name}'{fresh})"
            )
        else:
            tables.append(
                f"{alias} AS (SELECT {columns}, ts {divide} {bucket_us} + shift AS bucket "
                f"FROM events CROSS JOIN (VALUES {shifts}) AS shifts(shift) WHERE type = '{type_name}')"
            )
    joined = [last]
    joins = []
    for alias in reversed(query.aliases[:-1]):
        on = [f"{alias}.bucket = {last}.bucket", *_order((alias, joined[0]))]
        on.append(f"{last}.ts <= {alias}.ts + {query.window_us}")
        on += [condition for other in joined for condition in _conditions(query, other, (alias,))]
        joins.append(f"JOIN {alias} ON {' AND '.join(on)}")
        joined.insert(0, alias)
    return f"WITH {', '.join(tables)} SELECT {_ids(query)} FROM {last} {' '.join(joins)}"


def asof_join(query: SequenceQuery) -> str:
    """The next event of each type, one ASOF join after the other, forward and strict."""
    types = dict(query.positions)
    first, *others = query.aliases
    names = ", ".join(query.attributes)
    columns = "id, ts" + (f", {names}" if names else "")
    found = f"(SELECT {columns} FROM events WHERE type = '{types[first]}') {first}"
    for before, alias in itertools.pairwise(query.aliases):
        on = [f"{before}.ts < {alias}.ts", *_conditions(query, alias, query.aliases[: query.aliases.index(alias)])]
        found += (
            f" ASOF JOIN (SELECT {columns} FROM events WHERE type = '{types[alias]}') {alias} ON {' AND '.join(on)}"
        )
    return f"SELECT {_ids(query)} FROM {found} WHERE {others[-1]}.ts - {first}.ts <= {query.window_us}"


def _ids(query: SequenceQuery) -> str:
    return ", ".join(f"{alias}.id AS {alias}_id" for alias in query.aliases)


def _order(aliases: tuple[str, ...]) -> list[str]:
    return [f"{before}.ts < {after}.ts" for before, after in itertools.pairwise(aliases)]


def _conditions(query: SequenceQuery, later: str, earlier: tuple[str, ...]) -> list[str]:
    """The comparisons between `later` and one of the earlier aliases."""
    return [f"{a}.{x} {operator} {b}.{y}" for a, x, operator, b, y in query.comparisons if b == later and a in earlier]
