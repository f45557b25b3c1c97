"""Rule sets in one shared plan beside DuckDB, which runs one statement for each rule, on one core.

A statement is a join by time buckets: the last event keeps its bucket, earlier ones are copied into the next one, too,
so that the window becomes an equality. Both hand over all matches, and these must be the same, rule by rule.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Sequence

import duckdb
import pyarrow as pa

from actors.group import Limits
from cluster.local import LocalRuntime
from costmodel.capacity import Capacity
from decopa.choices import DEFAULT_COMPARED_PER_S, DEFAULT_INGESTED_PER_S
from decopa.planning.planner import plan_workload
from decopa.query.query import Query
from decopa.traces.rule_sets import RuleSet, families
from shuffler.source.trace import open_trace

CAPACITY = Capacity.per_second(DEFAULT_INGESTED_PER_S, DEFAULT_COMPARED_PER_S)


def statement(query: Query) -> str:
    """A SEQ of single events as SQL over the table `events`; a row of ids per match, in canonical order."""
    *earlier, last = query.aliases
    tables = []
    for alias in query.aliases:
        of_type = f"FROM events WHERE type = '{query.position(alias).type}'"
        bucket = f"ts // {query.window_us}"
        copies = f"UNION ALL SELECT *, {bucket} + 1 AS bucket {of_type}" if alias != last else ""
        tables.append(f"{alias} AS (SELECT *, {bucket} AS bucket {of_type} {copies})")
    where = [f"{alias}.bucket = {last}.bucket" for alias in earlier]
    where += [f"{one}.ts < {other}.ts" for one, other in itertools.pairwise(query.aliases)]
    where += [f"{last}.ts <= {query.aliases[0]}.ts + {query.window_us}", *map(str, query.where)]
    ids = ", ".join(f"{alias}.id" for alias in query.aliases)
    times = f"{last}.ts, {query.aliases[0]}.ts, {ids}"
    found = f"SELECT {ids} FROM {', '.join(query.aliases)} WHERE {' AND '.join(where)} ORDER BY {times}"
    return f"WITH {', '.join(tables)} {found}"


def ours(rules: RuleSet, trace: pa.Table) -> tuple[float, list[pa.Table]]:
    """Seconds for all rules in one pass, compiled loops loaded before, and the matches of each."""
    plan = plan_workload(rules.queries, rules.statistics, CAPACITY, units=1, strategy="shared").plan
    runtime = LocalRuntime(plan, open_trace(trace), limits=Limits(max_matches=10**9))
    runtime.warm_up()
    started = time.process_time()
    runtime.run()
    found = runtime.outcomes
    took = time.process_time() - started
    order = [plan.parts[part].query.name for part in plan.reported]
    tables = dict(zip(order, found, strict=True))
    return took, [tables[query.name] for query in rules.queries]  # type: ignore[misc]


def theirs(queries: Sequence[Query], trace: pa.Table) -> tuple[float, list[pa.Table]]:
    """Seconds for all statements, one after the other, and the matches of each; loading the events is not counted."""
    base = duckdb.connect()
    base.execute("SET threads = 1")
    base.register("given", trace)
    base.execute("CREATE TABLE events AS SELECT * FROM given")
    started = time.process_time()
    found = [base.execute(statement(query)).to_arrow_table() for query in queries]
    return time.process_time() - started, found


def same(query: Query, one: pa.Table, other: pa.Table) -> bool:
    """Whether both have the same matches in the same order."""
    if one.num_rows != other.num_rows:
        return False
    return all(
        one.column(alias).combine_chunks().cast(pa.int64()).equals(other.column(place).combine_chunks())
        for place, alias in enumerate(query.aliases)
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=200_000)
    parser.add_argument("--rules", default="10,100", help="sizes of rule sets (default: %(default)s)")
    args = parser.parse_args()
    print(
        "| rules | matches | equal | decopa, events/s | DuckDB, events/s | factor |\n"
        "| --- | --- | --- | --- | --- | --- |"
    )
    for size in map(int, args.rules.split(",")):
        rules = families(size, 30, max(1, size // 10), 4, 1, seed=0)
        trace = rules.trace(args.events)
        took, mine = ours(rules, trace)
        needed, peer = theirs(rules.queries, trace)
        equal = sum(same(*each) for each in zip(rules.queries, mine, peer, strict=True))
        print(
            f"| {size} | {sum(one.num_rows for one in mine):,} | {equal} of {size} | {args.events / took:,.0f} "
            f"| {args.events / needed:,.0f} | {needed / took:.0f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
