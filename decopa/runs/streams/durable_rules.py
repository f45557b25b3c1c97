"""DurableRules: rules that come and go in a run with checkpoints, whose processes may die at any moment."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

import pyarrow as pa

from cluster.change.cut import ending_in
from cluster.change.rules.changes import RuleChanges
from cluster.change.rules.versions import BookChange, RuleBook, Version, opening_plan, version_parts
from decopa.choices import RuleSight
from decopa.errors import CheckpointError
from decopa.planning.history import uncertain_windows
from decopa.planning.plan import QueryPlan
from decopa.query.binding import bind
from decopa.query.query import Query
from decopa.runs.preparation.planning import left_deep_plan
from decopa.runs.preparation.prepare import Prepared, check_alternatives
from decopa.runs.result import combined, united
from decopa.runs.spec import Rules
from decopa.runs.streams.rules import RuleState, check_rows, moment_us, one_query

#: Of a stored trace everything is kept that fits into memory: mostly places in its files.
_ALL_US = 1 << 62


class DurableRules:
    """The rules of a run that works on its stream in another thread.

    A change returns once it is in a checkpoint, so that no loss undoes it; which may take as long as building a plan
    beside the one that runs. One that cannot be made raises RuleError, and the run continues as it was.
    """

    def __init__(self, prepared: Prepared, rules: Rules) -> None:
        self._prepared, self._schema = prepared, prepared.source.schema
        for query in prepared.queries:
            self._check(query)
        book, spec = RuleBook.of(prepared.queries), prepared.spec
        live = prepared.source.row_count is None
        self.changes = RuleChanges(
            book,
            opening_plan(prepared.plan, book).parts,
            self._parts_of,
            hosts=spec.planning.units or 1,
            waits=not live and not spec.ray.replay.is_paced,
            keep_us=rules.keep_history_us if live else _ALL_US,
            max_history_bytes=rules.max_history_bytes,
        )

    # ------------------------------------------------------------- the rules

    def add(self, query: str | Query, *, at: Any = None, sees: RuleSight = "window") -> Version:
        """A rule more. With `sees` "window" its first matches may begin before it does; with "new" it looks at events
        from its beginning on only."""
        return self.ask("add", query=query, at=at, sees=sees).result()

    def remove(self, name: str, *, at: Any = None) -> Version:
        """Ends a rule; every match that ends before is still reported."""
        return self.ask("remove", name, at=at).result()

    def replace(self, name: str, query: str | Query, *, at: Any = None, sees: RuleSight = "window") -> Version:
        """Ends a rule and begins its next version at the same moment."""
        return self.ask("replace", name, query, at=at, sees=sees).result()

    def ask(
        self,
        do: Any,
        name: str = "",
        query: str | Query | None = None,
        *,
        at: Any = None,
        sees: RuleSight = "window",
        number: int = 0,
    ) -> Future[Version]:
        """Asks for a change and returns at once; `number` is the one that it has in a folder of changes."""
        new = None
        if query is not None:
            new = one_query(query).with_every_attribute(self._schema.attributes)
            self._check(new)
        asked = BookChange(
            do, name or ("" if new is None else new.name), new, None if at is None else moment_us(at), sees
        )
        return self.changes.ask(asked, number)

    def queries(self) -> tuple[RuleState, ...]:
        """The rules that are there now, and those that were removed and are not over yet; matches are those that
        complete checkpoints have published."""
        reached_us, counts = self.changes.reached_us, self.changes.counts
        return tuple(
            RuleState(
                one.name,
                one.number,
                one.from_us,
                one.until_us,
                one.sees,
                counts.get(one.key, 0),
                one.until_us is not None,
            )
            for one in self.changes.rules.book.versions
            if not one.is_over(reached_us)
        )

    @property
    def events(self) -> int:
        """Events that were fed so far."""
        return self.changes.events

    @property
    def reached_us(self) -> int | None:
        """The time of the last event that was fed; None before the first one."""
        return self.changes.reached_us

    # ------------------------------------------------------------- for the runtime

    @property
    def attributes(self) -> tuple[str, ...]:
        """Rules that come later may need any column."""
        return tuple(self._schema.attributes)

    def merge(self, found: Mapping[str, pa.Table]) -> pa.Table:
        """The matches that versions report: those that end within their lives."""
        tables = []
        for version in self.changes.rules.book.versions:
            mine = [found[key] for key in version.keys if key in found]
            if not any(table.num_rows for table in mine):
                continue
            table = united(version.query, [ending_in(one, version.from_us, version.until_us) for one in mine])
            if table.num_rows:  # else a part would have the columns of every rule
                numbers = pa.array([version.number] * table.num_rows, type=pa.int32())
                tables.append(table.add_column(1, "version", numbers))
        return combined(tables) if tables else pa.table({"query": [], "version": []})

    def _parts_of(self, version: Version) -> tuple[QueryPlan, ...]:
        return version_parts(version, left_deep_plan([version.query]))

    def _check(self, query: Query) -> None:
        """Refuses what cannot be a rule of a run with checkpoints on this stream."""
        check_rows([query])
        check_alternatives([query], self._prepared.way)
        for branch in query.branches:
            bind(branch, self._schema)
            if uncertain_windows(branch):
                raise CheckpointError(
                    f"query {query.name} has NOT inside NOT, or NEXT and a NOT that is open at its end: matches would "
                    "have to be held back across checkpoints, so it cannot be a rule of a run that has them"
                )
