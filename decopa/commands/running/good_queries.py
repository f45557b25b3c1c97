"""`--skip-bad-queries`: runs the queries of a workload that can be read and fit the trace, and tells of the others."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from decopa.commands.arguments.inputs import open_stored, read_queries, read_text
from decopa.commands.terminal import tell
from decopa.errors import QueryError

if TYPE_CHECKING:
    from decopa.query.query import Query


def queries_of(args: argparse.Namespace, *, live: bool) -> Sequence[Query]:
    """The queries of a command; with --skip-bad-queries those that can run, each other one told in a line."""
    if not args.skip_bad_queries:
        return read_queries(args.query, args.language)
    from decopa.language.some import BadQuery, readable_queries
    from decopa.query.binding import bind, missing_types

    is_file = Path(args.query).is_file()
    found, left_out = readable_queries(read_text(Path(args.query), QueryError) if is_file else args.query)
    bad = list(left_out)
    if not live:
        schema = open_stored(args).schema
        good = []
        for query in found:
            try:
                for branch in query.branches:
                    bind(branch, schema)
                missing = missing_types(query, schema)
                if missing:
                    raise QueryError(f"no event of type '{missing[0]}' in the trace")
                good.append(query)
            except QueryError as err:
                bad.append(BadQuery(query.name, str(err)))
        found = tuple(good)
    where = f"{args.query}: " if is_file else ""
    for one in bad:
        tell("skipped", f"{where}{one}")
    if not found:
        raise QueryError(f"{where}no query is left to run; the first: {bad[0].reason}")
    return found
