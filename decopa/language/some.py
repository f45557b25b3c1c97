"""The queries of a text that can be read, and why the others cannot: one bad rule of a rule set should not stop the
rest."""

from __future__ import annotations

import re
from dataclasses import dataclass

from decopa.errors import QueryError
from decopa.language.text.parser import parse_workload
from decopa.query.query import Query

#: A query of a workload begins on a line of its own with QUERY and its name.
_BEGIN = re.compile(r"^[ \t]*QUERY\b[ \t]*(?P<name>\"[^\"\n]*\"|\w+)?", re.IGNORECASE | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class BadQuery:
    """A query that was left out: its name, as far as it can be told, and what is wrong with it."""

    name: str
    reason: str

    def __str__(self) -> str:
        return f"query {self.name} was left out: {self.reason}"


def readable_queries(text: str) -> tuple[tuple[Query, ...], tuple[BadQuery, ...]]:
    """The queries that parse, each with a name of its own, and those that do not. Lines in messages are those of the
    whole text."""
    begins = [match.start() for match in _BEGIN.finditer(text)]
    if not begins:
        return parse_workload(text), ()
    good: dict[str, Query] = {}
    bad = []
    head = text[: begins[0]]
    if re.sub(r"--[^\n]*", "", head).strip():
        bad.append(BadQuery("before the first QUERY", "it has no name; begin it with QUERY name"))
    for begin, end in zip(begins, [*begins[1:], len(text)], strict=True):
        match = _BEGIN.match(text, begin)
        name = (match["name"] if match is not None else None) or "?"
        try:
            # Empty lines in front keep the numbers of lines in messages right.
            (query,) = parse_workload("\n" * text.count("\n", 0, begin) + text[begin:end])
        except QueryError as err:
            bad.append(BadQuery(name, str(err)))
            continue
        if query.name in good:
            bad.append(BadQuery(query.name, "an earlier query has the same name; give each its own"))
        else:
            good[query.name] = query
    if not good:
        raise QueryError(f"none of {len(bad)} queries can be read; the first: {bad[0].reason}")
    return tuple(good.values()), tuple(bad)
