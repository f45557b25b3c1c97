"""What rules are asked for with, and what they look like, whatever works on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa

from cluster.change.rules.versions import RuleError
from decopa.choices import RuleSight
from decopa.language.front import read_queries
from decopa.query.query import Query
from shuffler.rows.columns import Place, timestamps_us


@dataclass(frozen=True, slots=True)
class RuleState:
    """A rule while the run goes on: its version and that one's life in event time, and how many matches it reported.

    `ending` says that it was removed, and still waits for events that may decide matches from before its end.
    """

    name: str
    version: int
    from_us: int | None
    until_us: int | None
    sees: RuleSight
    matches: int
    ending: bool


def one_query(query: str | Query) -> Query:
    found = read_queries(query) if isinstance(query, str) else (query,)
    if len(found) != 1:
        raise RuleError(f"a rule is one query, and the text has {len(found)}; add them one by one")
    return found[0]


def check_rows(queries: Sequence[Query]) -> None:
    for query in queries:
        if query.summary is not None or query.ranking is not None:
            raise RuleError(
                f"query {query.name} has aggregates, ORDER BY or LIMIT, which are about a whole result, but rules "
                "report matches as they come; leave them out"
            )


def moment_us(at: Any) -> int:
    """A time of the stream in microseconds: a whole number of them, a datetime, or text in ISO 8601."""
    if isinstance(at, bool) or not isinstance(at, int | str | datetime):
        raise RuleError(f"{at!r} is no time; give microseconds, a datetime, or text such as 2024-05-01T10:00:00")
    if isinstance(at, int):
        return at
    text = at if isinstance(at, str) else at.isoformat()
    if text.lstrip("-").isdigit():
        return int(text)
    return int(timestamps_us(pa.array([text]), "at", Place("the change"))[0])
