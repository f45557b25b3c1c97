"""Event dicts -> the engine's table, and its result table -> matches that compare with the referee's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from decopa.query.query import Query
from tests.support.brute_force import Match
from tests.support.evaluate import Event

_TYPES = {bool: pa.bool_(), int: pa.int64(), float: pa.float64(), str: pa.string()}


def table_of(events: Sequence[Event], attributes: dict[str, type] | None = None) -> pa.Table:
    """The events as a trace. `attributes` gives columns that must exist even if no event has a value for them."""
    kinds = {"id": int, "ts": int, "type": str, **(attributes or {})}
    for event in events:
        for name, value in event.items():
            if value is not None and kinds.get(name) is not float:  # whole numbers among others are numbers, too
                kinds[name] = type(value)
    columns = {name: pa.array([event.get(name) for event in events], type=_TYPES[kind]) for name, kind in kinds.items()}
    return pa.table(columns)


def matches_of(query: Query, result: pa.Table) -> list[Match]:
    """The rows as alias -> ids; an alias that the row's alternative does not bind is left out."""
    rows = result.select(list(query.positive_aliases)).to_pylist()
    return [{alias: _group(value) for alias, value in row.items() if value is not None} for row in rows]


def _group(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, list) else (value,)


def expected_rows(query: Query, events: Sequence[Event], matches: Sequence[Match]) -> list[dict[str, Any]]:
    """The rows that the engine should report for these matches, RETURN columns included."""
    by_id = {event["id"]: event for event in events}
    rows = []
    for match in matches:
        bound = [by_id[event_id] for group in match.values() for event_id in group]
        begin, end = min(event["ts"] for event in bound), max(event.get("end", event["ts"]) for event in bound)
        row: dict[str, Any] = {"query": query.name, "start_ts": begin, "end_ts": end}
        for alias in query.positive_aliases:
            row[alias] = _cell(query, alias, match, list(match.get(alias, ())))
        for attr in query.returns:
            values = [by_id[event_id].get(attr.name) for event_id in match.get(attr.alias, ())]
            row[str(attr)] = _cell(query, attr.alias, match, values)
        rows.append(row)
    return rows


def _cell(query: Query, alias: str, match: Match, values: list[Any]) -> Any:
    if alias not in match:
        return None
    return values if alias in query.kleene_aliases else values[0]


def sortable(row: dict[str, Any]) -> str:
    """A key that orders rows with missing and list values."""
    return repr(sorted(row.items()))
