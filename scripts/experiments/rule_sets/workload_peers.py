"""Rule sets in one shared plan beside DuckDB, FlinkCEP and OpenCEP, each on one core.

DuckDB runs one statement for each rule, a join by time buckets: the last event keeps its bucket, earlier ones are
copied into the next one, too, so that the window becomes an equality. Both hand over all matches, which must be the
same, rule by rule. FlinkCEP has one operator for each rule behind one source. OpenCEP has trees by dynamic programming
on the statistics that the rules were drawn with, in one engine that shares equal sub-trees, or in one for each rule.
Both may take --limit seconds; what they found in the events that they got to is compared with ours, rule by rule.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from actors.group import Limits
from cluster.local import LocalRuntime
from costmodel.capacity import Capacity
from decopa.choices import DEFAULT_COMPARED_PER_S, DEFAULT_INGESTED_PER_S
from decopa.planning.planner import plan_workload
from decopa.query.conditions.predicate import Arithmetic, Attr, Call, Compare, Literal
from decopa.query.query import Query
from decopa.traces.rule_sets import COLUMNS, RuleSet, families
from scripts.benchmarks.peers import flink_job
from scripts.benchmarks.peers.contenders import PEERS
from scripts.benchmarks.peers.job import Outcome, answer
from shuffler.source.trace import open_trace

CAPACITY = Capacity.per_second(DEFAULT_INGESTED_PER_S, DEFAULT_COMPARED_PER_S)

#: An engine of OpenCEP for each rule cannot stop when the time is over, so that it gets fewer events.
OPENCEP_EVENTS = 10_000


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
    found = [base.sql(statement(query)).to_arrow_table() for query in queries]
    return time.process_time() - started, found


def same(query: Query, one: pa.Table, other: pa.Table) -> bool:
    """Whether both have the same matches in the same order."""
    if one.num_rows != other.num_rows:
        return False
    return all(
        one.column(alias).combine_chunks().cast(pa.int64()).equals(other.column(place).combine_chunks())
        for place, alias in enumerate(query.aliases)
    )


def conditions(query: Query) -> list[tuple[str, str, str, float]]:
    """The conditions `abs(one.column - other.column) < distance` of a rule, which has no others."""
    found = []
    for condition in query.where:
        match condition:
            case Compare(
                "<", Call("abs", (Arithmetic("-", Attr() as one, Attr() as other),)), Literal(float(distance))
            ):
                assert one.name == other.name
                found.append((one.alias, other.alias, one.name, distance))
            case _:
                raise ValueError(f"{condition}: rules of `families` have other conditions")
    return found


def flink(rules: RuleSet, trace: pa.Table, limit_s: float, folder: Path) -> Outcome:
    """FlinkCEP with one operator for each rule."""
    types = sorted(rules.rates)
    columns = [f"x{column}" for column in range(COLUMNS)]
    kinds = pc.index_in(trace.column("type"), pa.array(types))
    rows = pa.table({"ts": trace.column("ts"), "type": kinds} | {name: trace.column(name) for name in columns})
    pacsv.write_csv(rows, folder / "trace.csv", pacsv.WriteOptions(include_header=False))
    settings: dict[str, object] = {"trace": folder / "trace.csv", "patterns": len(rules.queries)}
    for number, query in enumerate(rules.queries):
        near = [(a, b, columns.index(name), d) for a, b, name, d in conditions(query)]
        settings |= {
            f"positions.{number}": ",".join(query.aliases),
            f"types.{number}": ",".join(str(types.index(query.position(alias).type)) for alias in query.aliases),
            f"comparisons.{number}": ";".join(f"{a}:{column} ~{d!r} {b}:{column}" for a, b, column, d in near),
        }
    settings |= {"window": rules.window_us, "following": "any", "key": -1, "limit": limit_s, "warm_up": 4}
    command = flink_job.command(PEERS, folder / "classes", flink_job.write_settings(settings, folder))
    return _answered(command)


def opencep(rules: RuleSet, trace: pa.Table, limit_s: float, folder: Path, checkout: Path, shared: bool) -> Outcome:
    """OpenCEP with all rules in one engine, or with one for each."""
    names = [f"x{column}" for column in range(COLUMNS)]
    job = {
        "rules": [_for_opencep(rules, query) for query in rules.queries],
        "columns": names,
        "window_us": rules.window_us,
        "events": trace.select(["ts", "type", *names]).to_pylist(),
        "limit_s": limit_s,
        "shared": shared,
    }
    (folder / "opencep.json").write_text(json.dumps(job))
    worker = Path(__file__).with_name("opencep_worker.py")
    return _answered([sys.executable, str(worker), str(checkout), str(folder / "opencep.json")])


def _for_opencep(rules: RuleSet, query: Query) -> dict[str, Any]:
    """Events of equal types have equal names in all rules: OpenCEP shares by name."""
    types = [query.position(alias).type for alias in query.aliases]
    names = dict(zip(query.aliases, (f"e_{one}" for one in types), strict=True))
    found = conditions(query)
    tied = {frozenset((one, other)) for one, other, _, _ in found}

    def share(one: str, other: str) -> float:
        pair = sorted((query.position(one).type, query.position(other).type))
        return rules.selectivities[pair[0], pair[1]] if frozenset((one, other)) in tied else 1.0

    return {
        "positions": [(names[alias], kind) for alias, kind in zip(query.aliases, types, strict=True)],
        "conditions": [(names[one], names[other], column, distance) for one, other, column, distance in found],
        "rates": [rules.rates[one] for one in types],
        "selectivities": [[share(one, other) for other in query.aliases] for one in query.aliases],
    }


def _answered(command: list[str]) -> Outcome:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{Path(command[0]).name} failed:\n{done.stderr[-3000:]}")
    return answer(done.stdout)


def agreeing(rules: RuleSet, trace: pa.Table, outcome: Outcome) -> int:
    """Rules of which as many matches were found as we find in the same events."""
    _, mine = ours(rules, trace.slice(0, outcome.events))
    return sum(table.num_rows == theirs for table, theirs in zip(mine, outcome.by_pattern, strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=200_000)
    parser.add_argument("--rules", default="10,100", help="sizes of rule sets (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the rule sets (default: %(default)s)")
    parser.add_argument(
        "--limit", type=float, default=20.0, help="seconds for FlinkCEP and OpenCEP (default: %(default)s)"
    )
    parser.add_argument(
        "--flink", action="store_true", help="with FlinkCEP, from the environment of scripts/bench_peers"
    )
    parser.add_argument("--opencep", type=Path, metavar="FOLDER", help="with OpenCEP, from a checkout of it")
    args = parser.parse_args()
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})  # processes started from here inherit it
    with tempfile.TemporaryDirectory(prefix="workload_peers") as name:
        compare(args, Path(name))


def compare(args: argparse.Namespace, folder: Path) -> None:
    if args.flink:
        compiler = flink_job.find_compiler()
        if compiler is None:
            raise SystemExit(flink_job.NO_COMPILER)
        flink_job.compile_job(compiler, PEERS, folder / "classes")
    print("| rules | engine | events | matches | rules that agree | events/s | decopa is faster by |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for size in map(int, args.rules.split(",")):
        rules = families(size, 30, max(1, size // 10), 4, 1, seed=args.seed)
        trace = rules.trace(args.events)
        took, mine = ours(rules, trace)
        ours_per_s, matches = args.events / took, sum(one.num_rows for one in mine)
        print(f"| {size} | decopa `shared` | {args.events:,} | {matches:,} | | {ours_per_s:,.0f} | |", flush=True)
        needed, peer = theirs(rules.queries, trace)
        equal = sum(same(*each) for each in zip(rules.queries, mine, peer, strict=True))
        _row(size, "DuckDB", Outcome(sum(one.num_rows for one in peer), args.events, needed), equal, ours_per_s)
        peers: dict[str, Callable[[], Outcome]] = {}
        if args.flink:
            peers["FlinkCEP"] = partial(flink, rules, trace, args.limit, folder)
        if args.opencep:
            few = trace.slice(0, OPENCEP_EVENTS)
            for name, shared in (("OpenCEP, one engine", True), ("OpenCEP, an engine for each rule", False)):
                peers[name] = partial(opencep, rules, few, args.limit, folder, args.opencep, shared)
        for engine, run in peers.items():
            outcome = run()
            _row(size, engine, outcome, agreeing(rules, trace, outcome), ours_per_s)


def _row(size: int, engine: str, outcome: Outcome, agreeing: int, ours_per_s: float) -> None:
    print(
        f"| {size} | {engine} | {outcome.events:,} | {outcome.matches:,} | {agreeing} of {size} "
        f"| {outcome.events_per_s:,.0f} | {ours_per_s / outcome.events_per_s:,.0f} |",
        flush=True,
    )


if __name__ == "__main__":
    main()
