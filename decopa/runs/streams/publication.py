"""Publication: which matches of a stream go out with which step, so that each goes out once.

Two alternatives of an OR may find the same match at different moments: a NOT holds one of them back, or its rows are
still on their way. So matches of such queries are remembered for as long as another alternative can bring them again.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from decopa.query.query import Query
from decopa.runs.result import MatchKey, combined, match_keys, united
from shuffler.rows.columns import Ints, Place, timestamps_us


class Publication:
    """Takes the new matches of every part of a plan, step by step, and returns those to publish, as one table.

    With `steadily` a match goes out at a moment that the watermark alone decides, not the plan. Where NOTs lie inside
    each other, plans differ in when they are certain of a match, and such matches wait for the slowest plan. A stream
    that may go on with another plan needs it.
    """

    def __init__(self, queries: Sequence[Query], *, steadily: bool = False) -> None:
        self._queries = tuple(queries)
        self._memories = [_Memory(query) if len(query.branches) > 1 else None for query in self._queries]
        self._steadily = steadily
        self._held: dict[int, pa.Table] = {}

    def take(self, tables: Sequence[pa.Table], finals_us: Sequence[int]) -> pa.Table:
        """The matches to publish now.

        `tables` has the new matches of each part. No later match of part i ends before `finals_us[i]`.
        """
        found, part = [], 0
        for query, memory in zip(self._queries, self._memories, strict=True):
            parts = range(part, part + len(query.branches))
            part = parts.stop
            mine = [self._ripe(one, tables[one], finals_us[one], query.branches[one - parts.start]) for one in parts]
            table = united(query, mine)
            if memory is not None:
                table = memory.fresh(table, min(finals_us[one] for one in parts))
            found.append(table)
        return combined(found)

    def _ripe(self, part: int, table: pa.Table, final_us: int, branch: Query) -> pa.Table:
        if not self._steadily or branch.nesting_of_not < 2:
            return table
        if part in self._held:
            table = pa.concat_tables([self._held[part], table]).unify_dictionaries().combine_chunks()
        ripe = _ends_us(table) < final_us
        self._held[part] = table.filter(pa.array(~ripe))
        return table.filter(pa.array(ripe))


class _Memory:
    """The matches of one query that may come again, with their ends."""

    def __init__(self, query: Query) -> None:
        self._aliases = query.positive_aliases
        self._ends_us: dict[MatchKey, int] = {}
        self._kept = 0

    def fresh(self, table: pa.Table, final_us: int) -> pa.Table:
        """The matches that are new; then forgets what cannot come again."""
        rows = []
        for row, (key, end_us) in enumerate(zip(match_keys(table, self._aliases), _ends_us(table).tolist())):
            if key not in self._ends_us:
                self._ends_us[key] = end_us
                rows.append(row)
        if len(self._ends_us) > 2 * self._kept:  # now and then: looking at all of them costs what there are
            self._ends_us = {key: end_us for key, end_us in self._ends_us.items() if end_us >= final_us}
            self._kept = len(self._ends_us)
        return table if len(rows) == table.num_rows else table.take(pa.array(rows, type=pa.int64()))


def _ends_us(table: pa.Table) -> Ints:
    chunks = [timestamps_us(chunk, "end_ts", Place("matches")) for chunk in table.column("end_ts").chunks]
    return np.concatenate(chunks) if chunks else np.empty(0, dtype=np.int64)
