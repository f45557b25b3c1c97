"""Result tables of several OR-free queries -> one table for the workload."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from actors.sink import bound_aliases
from decopa.query.query import Query


def result_table(queries: Sequence[Query], matches: Sequence[pa.Table]) -> pa.Table:
    """The matches of every query, in the workload's order; alternatives of OR are united without duplicates.

    `matches` has a table for each branch of each query.
    """
    remaining = iter(matches)
    tables = [_united(query, [next(remaining) for _ in query.branches]) for query in queries]
    if len(tables) == 1:
        return tables[0]
    lists = {name for table in tables for name in table.column_names if _is_list(table, name)}
    alike = [_with_lists(table, lists) for table in tables]
    return pa.concat_tables(alike, promote_options="default").unify_dictionaries()


def _is_list(table: pa.Table, name: str) -> bool:
    return bool(pa.types.is_list(table.schema.field(name).type))


def _with_lists(table: pa.Table, lists: Collection[str]) -> pa.Table:
    """An alias that is a KL one in another query holds lists here, too: one column has one type."""
    for place, name in enumerate(table.column_names):
        if name in lists and not _is_list(table, name):
            values = table.column(name).combine_chunks()
            offsets = pa.array(range(len(values) + 1), type=pa.int32())
            table = table.set_column(place, name, pa.ListArray.from_arrays(offsets, values))
    return table


def _united(query: Query, tables: Sequence[pa.Table]) -> pa.Table:
    if len(tables) == 1:
        return tables[0]
    alike: dict[tuple[str, ...], list[pa.Table]] = {}
    for branch, table in zip(query.branches, tables, strict=True):
        alike.setdefault(tuple(sorted(bound_aliases(branch))), []).append(table)
    # Two alternatives can find the same match only if they bind the same aliases.
    distinct = [group[0] if len(group) == 1 else _without_repeats(group, list(names)) for names, group in alike.items()]
    whole = pa.concat_tables(distinct, promote_options="default").unify_dictionaries().combine_chunks()
    returned = [f"{attr.alias}.{attr.name}" for attr in query.returns]
    wanted = ["query", "start_ts", "end_ts", *query.positive_aliases, *dict.fromkeys(returned)]
    return whole.select(wanted).take(pc.sort_indices(whole, sort_keys=_sort_keys(whole, query)))


def _sort_keys(table: pa.Table, query: Query) -> list[tuple[str, str]]:
    plain = [alias for alias in query.positive_aliases if not pa.types.is_nested(table.schema.field(alias).type)]
    return [(name, "ascending") for name in ("end_ts", "start_ts", *plain)]


def _without_repeats(tables: list[pa.Table], aliases: list[str]) -> pa.Table:
    whole = pa.concat_tables(tables, promote_options="default").unify_dictionaries().combine_chunks()
    keys = [whole.column(alias).to_pylist() for alias in aliases]
    seen: set[object] = set()
    kept = []
    for row, values in enumerate(zip(*keys, strict=True)):
        key = tuple(tuple(value) if isinstance(value, list) else value for value in values)
        if key not in seen:
            seen.add(key)
            kept.append(row)
    return whole.take(pa.array(kept, type=pa.int64()))
