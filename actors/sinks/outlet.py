"""What becomes of matches that leave a root unit: rows of a table, figures, a number, or files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa

from actors.group import Limits
from actors.sinks.parts import FolderSpec, PartSink, StagedPart
from actors.sinks.sink import MatchSink
from actors.sinks.summary import Groups, SummarySink, merged
from decopa.choices import Order
from decopa.errors import QueryError
from decopa.planning.plan import Plan, QueryPlan
from decopa.query.binding import BoundQuery
from decopa.query.query import Query
from decopa.query.summary import Aggregate, Summary
from shuffler.rows.events import EventFormat
from shuffler.rows.layout import layout_of
from shuffler.rows.strings import StringPool

#: `count(*)` for a query that returns rows.
COUNT = Summary((Aggregate("count"),))


@dataclass(frozen=True)
class OutletSpec:
    """What a run makes of its matches: a table in `order`, files in `folder`, or with `count` their number only.

    A query with aggregates gives figures in any case.
    """

    order: Order = Order.CANONICAL
    count: bool = False
    folder: FolderSpec | None = None

    def summary(self, query: Query) -> Summary | None:
        """The figures that are computed over the matches of a query; None if matches are wanted."""
        return query.summary or (COUNT if self.count else None)

    def counts_only(self, query: Query) -> bool:
        """Whether nobody looks at matches, so that roots need not make them."""
        summary = self.summary(query)
        return summary is not None and summary.counts_only and not query.having

    def at_units(self, query: Query) -> bool:
        """Whether root units keep what they find, instead of sending it to a sink."""
        return self.summary(query) is not None or self.folder is not None


#: Takes matches; `settle` says that no later match ends before the watermark.
MatchTaker: TypeAlias = MatchSink | SummarySink | PartSink
#: What a taker has in the end: matches, figures, or files.
Outcome: TypeAlias = pa.Table | Groups | list[StagedPart]


def taker_of(
    spec: OutletSpec,
    plan: QueryPlan,
    bound: BoundQuery,
    form: EventFormat,
    strings: StringPool,
    limits: Limits,
    writer: str,
) -> MatchTaker:
    """Who takes the matches of a plan's root; `writer` names the process in the names of its files."""
    layout, summary = layout_of(bound, plan.root.sub_query), spec.summary(bound.query)
    if summary is not None:
        return SummarySink(bound, layout, strings, summary, max_groups=limits.max_matches)
    if spec.folder is None:
        return MatchSink(bound, layout, form, strings, spec.order)
    # All matches of one end may not be in one part, so of the order only that of the ends is worth keeping.
    order = Order.ANY if spec.order is Order.ANY else Order.END
    return PartSink(MatchSink(bound, layout, form, strings, order), spec.folder, writer)


def check_rows_only(plan: Plan, what: str) -> None:
    """Refuses aggregates where matches are handed over while the run goes on."""
    for part in plan.parts:
        if part.query.summary is not None:
            raise QueryError(
                f"query {part.query.name} has aggregates, which are known at the end of a run only, but {what} hands "
                "over matches as it goes on; leave out the aggregates"
            )


def joined(outcomes: Sequence[Outcome]) -> Outcome:
    """What several processes have of the matches of one query, together; only one of them has a table."""
    tables = [one for one in outcomes if isinstance(one, pa.Table)]
    if tables:
        return tables[0]
    groups = [one for one in outcomes if isinstance(one, dict)]
    return merged(groups) if groups else [part for one in outcomes if isinstance(one, list) for part in one]


def outcome_of(taker: MatchTaker) -> Outcome:
    """What a taker has in the end; a table is handed over and not kept."""
    if isinstance(taker, SummarySink):
        return taker.groups
    return taker.parts if isinstance(taker, PartSink) else taker.take()
