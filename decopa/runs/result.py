"""RunResult: what a run found and what it took; and tables of several OR-free queries united to one."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from actors.latency import LatencySummary
from actors.reports import OperatorReport
from actors.sinks.outlet import OutletSpec
from actors.sinks.sink import bound_aliases
from actors.sinks.summary import Groups, merged, summary_table
from cluster.change.switches import PlanSwitch
from costmodel.statistics import Statistics
from decopa.errors import DecoPaError, DecoPaWarning
from decopa.planning.plan import Plan
from decopa.query.names import RESULT_COLUMNS
from decopa.query.query import Query
from decopa.runs.folder import MatchFolder
from decopa.runs.why.parts import Why
from shuffler.rows.events import EventFormat

MatchKey = tuple[object, ...]
#: One table has at most this many columns: every match has a place in each of them, mostly empty.
MOST_COLUMNS = 1_024


@dataclass(frozen=True)
class RunResult:
    """The matches of a run and what it took to find them.

    `seconds` are those of the run itself; `start_s` is the time before its first event, for opening, measuring,
    planning and starting; `began_at` is what the process's clock said then. `statistics` has one entry for each query,
    None where there are none. Latency is measured on Ray only. `span_us` is the time from the first to the last event.
    `bad_rows` were left out (see `BadRows`).
    `warnings` are the notices that a user should act on. `published` counts the matches of a run with checkpoints,
    which are in the parts of its folder and not in the table, as are those of a run that wrote a `folder`. `counted` is
    their number if only that, or figures, were asked for. `by_query` has the matches, or figures, of each query by
    its name, in columns of its own; where all of them together have more than `MOST_COLUMNS`, `matches` says of each
    only which query it is of, and when it began and ended. Where the plan followed the stream, `switches` are the
    changes, `plan` and `operators` those of the last plan, and `earlier_operators` those of the plans before.
    """

    matches: pa.Table
    events: int
    seconds: float
    operators: tuple[OperatorReport, ...]
    plan: Plan
    notices: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    statistics: tuple[Statistics | None, ...] = ()
    strategy: str = "left-deep"
    latency: LatencySummary = field(default_factory=LatencySummary)
    dashboard: str | None = None
    span_us: int = 0
    bad_rows: int = 0
    start_s: float = 0.0
    began_at: float = field(default=0.0, repr=False, compare=False)
    published: int | None = None
    folder: MatchFolder | None = None
    counted: int | None = None
    by_query: Mapping[str, pa.Table] = field(default_factory=dict, repr=False)
    switches: tuple[PlanSwitch, ...] = ()
    earlier_operators: tuple[OperatorReport, ...] = ()
    explain: Callable[[], tuple[Why, ...]] | None = field(default=None, repr=False, compare=False)

    def why(self) -> tuple[Why, ...]:
        """Why each query has the matches that it has, from the run's own events; reads them again."""
        if self.explain is None:
            raise DecoPaError("the events of this run cannot be read again; use `decopa why` on a stored trace")
        return self.explain()

    def __repr__(self) -> str:
        return (
            f"RunResult({self.match_count:,} matches in {self.events:,} events, {self.seconds:.3g} s, "
            f"strategy {self.strategy}, {self.comparisons:,} comparisons)"
        )

    @property
    def match_count(self) -> int:
        """All matches, whether they are in the table, were counted or are in the files of a folder."""
        if self.counted is not None:
            return self.counted
        if self.folder is not None:
            return self.folder.rows
        return self.matches.num_rows if self.published is None else self.published

    @property
    def comparisons(self) -> int:
        """Pairs of events or partial matches that were compared."""
        return sum(report.comparisons for report in (*self.earlier_operators, *self.operators))

    def warn(self, stacklevel: int = 3) -> None:
        """Shows what a user should act on as Python warnings."""
        for line in self.warnings:
            warnings.warn(line, DecoPaWarning, stacklevel=stacklevel)


def result_table(
    queries: Sequence[Query],
    found: Sequence[pa.Table | Groups],
    form: EventFormat | None = None,
    *,
    count: bool = False,
) -> pa.Table:
    """The matches of every query in one table, in the workload's order; see `query_tables`."""
    return combined(query_tables(queries, found, form, count=count))


def query_tables(
    queries: Sequence[Query],
    found: Sequence[pa.Table | Groups],
    form: EventFormat | None = None,
    *,
    count: bool = False,
) -> list[pa.Table]:
    """The matches of each query; alternatives of OR are united without duplicates.

    `found` has a table for each branch of each query, or its figures where the query has aggregates or all are
    counted; `form` says what these look like.
    """
    remaining = iter(found)
    tables = []
    for query in queries:
        parts = [next(remaining) for _ in query.branches]
        summary = OutletSpec(count=count).summary(query)
        if summary is None:
            tables.append(ranked(query, united(query, [part for part in parts if isinstance(part, pa.Table)])))
        else:
            assert form is not None
            groups = merged(part for part in parts if isinstance(part, dict))
            tables.append(summary_table(query.name, form, summary, groups))
    return tables


def combined(tables: Sequence[pa.Table]) -> pa.Table:
    """The tables of the queries of a workload, one below the other."""
    if len(tables) == 1:
        return tables[0]
    if len({name for table in tables for name in table.column_names}) > MOST_COLUMNS:
        tables = [table.select([name for name in RESULT_COLUMNS if name in table.column_names]) for table in tables]
    lists = {name for table in tables for name in table.column_names if _is_list(table, name)}
    alike = [_with_lists(table, lists) for table in tables]
    return pa.concat_tables(alike, promote_options="default").unify_dictionaries()


def _is_list(table: pa.Table, name: str) -> bool:
    return bool(pa.types.is_list(table.schema.field(name).type))


def _with_lists(table: pa.Table, lists: Collection[str]) -> pa.Table:
    """An alias that is a KL one in another query holds lists here, too: one column has one type.

    What is missing stays missing: an alias that an alternative of OR does not bind is no list with a hole.
    """
    for place, name in enumerate(table.column_names):
        if name in lists and not _is_list(table, name):
            values = table.column(name).combine_chunks()
            offsets = pa.array(np.arange(len(values) + 1, dtype=np.int32))
            mask = values.is_null() if values.null_count else None
            table = table.set_column(place, name, pa.ListArray.from_arrays(offsets, values, mask=mask))
    return table


def united(query: Query, tables: Sequence[pa.Table]) -> pa.Table:
    """The matches of the branches of one query, without repeats, in canonical order."""
    if len(tables) == 1:
        return tables[0]
    alike: dict[tuple[str, ...], list[pa.Table]] = {}
    for branch, table in zip(query.branches, tables, strict=True):
        alike.setdefault(tuple(sorted(bound_aliases(branch))), []).append(table)
    # Two alternatives can find the same match only if they bind the same aliases.
    distinct = [group[0] if len(group) == 1 else _without_repeats(group, list(names)) for names, group in alike.items()]
    whole = pa.concat_tables(distinct, promote_options="default").unify_dictionaries().combine_chunks()
    wanted = [*RESULT_COLUMNS, *query.positive_aliases, *query.columns]
    return whole.select(wanted).take(pc.sort_indices(whole, sort_keys=_sort_keys(whole, query)))


def ranked(query: Query, table: pa.Table) -> pa.Table:
    """The matches that ORDER BY and LIMIT keep, missing values last; ties stay in the order they are in."""
    ranking = query.ranking
    if ranking is None:
        return table
    if ranking.keys:
        keys = [(name, "descending" if descending else "ascending") for name, descending in ranking.keys]
        table = table.take(pc.sort_indices(table, sort_keys=keys))
    return table if ranking.limit is None else table.slice(0, ranking.limit)


def _sort_keys(table: pa.Table, query: Query) -> list[tuple[str, str]]:
    plain = [alias for alias in query.positive_aliases if not pa.types.is_nested(table.schema.field(alias).type)]
    return [(name, "ascending") for name in ("end_ts", "start_ts", *plain)]


def _without_repeats(tables: list[pa.Table], aliases: list[str]) -> pa.Table:
    whole = pa.concat_tables(tables, promote_options="default").unify_dictionaries().combine_chunks()
    first: dict[MatchKey, int] = {}
    for row, key in enumerate(match_keys(whole, aliases)):
        first.setdefault(key, row)
    return whole.take(pa.array(first.values(), type=pa.int64()))


def match_keys(table: pa.Table, aliases: Sequence[str]) -> Iterator[MatchKey]:
    """What tells matches apart: the event ids that each of them binds to the aliases."""
    for values in zip(*(table.column(alias).to_pylist() for alias in aliases), strict=True):
        yield tuple(tuple(value) if isinstance(value, list) else value for value in values)
