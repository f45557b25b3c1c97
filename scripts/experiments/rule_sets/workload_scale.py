"""A thousand queries at once: what they cost beside one, what a batch costs that few of them want, and whether each
finds what it finds alone.

`template`: rules that differ in constants, against the one rule with the weakest. `overhead`: small batches of which
few queries get anything. `exact`: a rule set over one pass, compared by a hash of each rule's matches with a plan that
shares nothing, and with runs of rules alone. Times are of the processor.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import resource
import time
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from actors.group import Limits
from actors.sinks.outlet import OutletSpec
from cluster.local import LocalRuntime
from costmodel.capacity import Capacity
from costmodel.statistics import PairSelectivity, Statistics
from decopa.choices import DEFAULT_COMPARED_PER_S, DEFAULT_INGESTED_PER_S
from decopa.language.text.parser import parse_workload
from decopa.planning.plan import Plan
from decopa.planning.planner import plan_workload
from decopa.query.query import Query
from decopa.traces.rule_sets import families
from shuffler.source.trace import open_trace

CAPACITY = Capacity.per_second(DEFAULT_INGESTED_PER_S, DEFAULT_COMPARED_PER_S)
NO_LIMITS = Limits(max_matches=10**9)


def planned(queries: Sequence[Query], statistics: Statistics) -> Plan:
    strategy = "shared" if len(queries) > 1 else "decopa"
    return plan_workload(queries, statistics, CAPACITY, units=1, strategy=strategy).plan


def counted(plan: Plan, trace: pa.Table, batch_size: int | None = None) -> tuple[float, LocalRuntime]:
    """The processor time of a run that counts matches, and the run."""
    runtime = LocalRuntime(
        plan, open_trace(trace), limits=NO_LIMITS, outlet=OutletSpec(count=True), batch_size=batch_size
    )
    runtime.warm_up()
    started = time.process_time()
    runtime.run()
    return time.process_time() - started, runtime


def template(rules: int, events: int) -> None:
    """Rules of three events and three constants each, beside the rule with the weakest constants."""
    draw, rng = random.Random(0), np.random.default_rng(0)

    def rule(name: str, first: float, second: float, third: float) -> str:
        return (
            f"QUERY {name} PATTERN SEQ(A a, B b, C c) WHERE abs(a.x - b.x) < {first} AND abs(b.y - c.y) < {second} "
            f"AND c.z < {third} WITHIN 20 ms"
        )

    texts = [
        rule(f"r{number}", *(round(draw.uniform(0.02, 0.1), 4) for _ in range(2)), round(draw.uniform(0.1, 1), 3))
        for number in range(rules)
    ]
    trace = pa.table(
        {
            "id": np.arange(events),
            "ts": np.cumsum(rng.exponential(1_000, events)).astype(np.int64),
            "type": pa.array(np.array(["A", "B", "C"])[rng.integers(0, 3, events)]),
            **{name: rng.random(events) for name in "xyz"},
        }
    )
    known = Statistics(
        20_000, dict.fromkeys("ABC", 20 / 3), (PairSelectivity("A", "B", 0.19), PairSelectivity("B", "C", 0.19))
    )
    weakest = parse_workload(rule("weakest", 0.1, 0.1, 1.0))
    plan = planned(parse_workload("\n".join(texts)), known)
    alone = planned(weakest, known)
    one = min(counted(alone, trace)[0] for _ in range(3))
    runs = [counted(plan, trace) for _ in range(3)]
    all_of_them = min(took for took, _ in runs)
    print(f"{rules:,} rules: {all_of_them:.3f} s, {runs[0][1].matches:,} matches; the weakest alone: {one:.3f} s, "
          f"{counted(alone, trace)[1].matches:,} matches; ratio {all_of_them / one:.1f}")  # fmt: skip


def overhead(rules: int, batches: int, per_batch: int, wanted: int) -> None:
    """Every query has three types of its own; each batch has events of `wanted` queries."""
    text = "\n".join(
        f"QUERY q{n} PATTERN SEQ(A{n} a, B{n} b, C{n} c) WHERE abs(a.x - b.x) < 0.01 AND b.y < c.y WITHIN 10 ms"
        for n in range(rules)
    )
    queries, rng = parse_workload(text), np.random.default_rng(0)
    first = np.repeat(rng.integers(0, rules - wanted, batches), per_batch)
    numbers = first + rng.integers(0, wanted, batches * per_batch)
    letters = rng.integers(0, 3, batches * per_batch)
    names = [f"{'ABC'[letter]}{number}" for letter, number in zip(letters.tolist(), numbers.tolist(), strict=True)]
    events = batches * per_batch
    trace = pa.table(
        {
            "id": np.arange(events),
            "ts": np.arange(events) * 100,
            "type": names,
            "x": rng.random(events),
            "y": rng.random(events),
        }
    )
    pairs = [PairSelectivity(f"A{n}", f"B{n}", 0.02) for n in range(rules)]
    pairs += [PairSelectivity(f"B{n}", f"C{n}", 0.5) for n in range(rules)]
    known = Statistics(10_000, {one: 0.1 for query in queries for one in query.event_types}, tuple(pairs))
    started = time.process_time()
    plan = planned(queries, known)
    print(f"planned in {time.process_time() - started:.1f} s, {len(plan.parts):,} parts")
    took, runtime = counted(plan, trace, per_batch)
    print(f"{rules:,} queries, batches of {per_batch:,} events for {wanted} of them: {1_000 * took / batches:.2f} ms a "
          f"batch, {events / took:,.0f} events/s, {runtime.matches:,} matches")  # fmt: skip
    took, _ = counted(plan, trace)
    print(f"in batches of the default size: {events / took:,.0f} events/s")


def exact(rules: int, events: int, types: int, cores: int, checked: int) -> None:
    """Every rule's matches in one shared plan, and alone."""
    made = families(rules, types, cores, 4, 1, seed=0)
    trace = made.trace(events)
    started = time.process_time()
    plan = planned(made.queries, made.statistics)
    print(f"{rules:,} queries planned in {time.process_time() - started:.1f} s: {len(plan.parts):,} parts", flush=True)
    started = time.process_time()
    runtime = LocalRuntime(plan, open_trace(trace), limits=NO_LIMITS)
    runtime.warm_up()
    ready = time.process_time() - started
    started = time.process_time()
    runtime.run()
    took = time.process_time() - started
    matches, shared = runtime.matches, _digests(plan, runtime)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"ready in {ready:.1f} s, {events:,} events in {took:.1f} s ({events / took:,.0f}/s), {matches:,} matches, "
          f"{memory:.2f} GiB at most", flush=True)  # fmt: skip
    runtime.close()
    apart = plan_workload(made.queries, made.statistics, CAPACITY, units=1, strategy="reordering-only").plan
    runtime = LocalRuntime(apart, open_trace(trace), limits=NO_LIMITS)
    runtime.run()
    unshared = _digests(apart, runtime)
    different = [name for name, digest in shared.items() if unshared[name] != digest]
    print(
        f"{rules:,} queries in a plan that shares nothing: {len(different)} differ {' '.join(different[:10])}",
        flush=True,
    )
    runtime.close()
    different = []
    for query in made.queries[:checked]:
        lone = LocalRuntime(planned([query], made.statistics), open_trace(trace), limits=NO_LIMITS)
        lone.run()
        if _digest(lone.outcomes[0]) != shared[query.name]:
            different.append(query.name)
    print(f"{min(checked, rules):,} queries run alone: {len(different)} differ {' '.join(different[:10])}")


def _digests(plan: Plan, runtime: LocalRuntime) -> dict[str, str]:
    """A hash of the matches of each query."""
    names = [plan.parts[part].query.name for part in plan.reported]
    return {name: _digest(table) for name, table in zip(names, runtime.outcomes, strict=True)}


def _digest(table: object) -> str:
    assert isinstance(table, pa.Table)
    found = hashlib.sha256()
    for name in table.column_names[1:]:
        found.update(table.column(name).combine_chunks().to_numpy(zero_copy_only=False).tobytes())
    return f"{table.num_rows}:{found.hexdigest()}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("template", "overhead", "exact"))
    parser.add_argument("--rules", type=int, default=1_000)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--types", type=int, default=100, help="event types of a rule set (exact)")
    parser.add_argument("--cores", type=int, default=100, help="cores of a rule set (exact)")
    parser.add_argument("--checked", type=int, default=1_000, help="rules that are run alone (exact)")
    parser.add_argument("--batches", type=int, default=200, help="batches of 1,000 events (overhead)")
    args = parser.parse_args()
    if args.what == "template":
        template(args.rules, args.events)
    elif args.what == "overhead":
        overhead(args.rules, args.batches, 1_000, 10)
    else:
        exact(args.rules, args.events, args.types, args.cores, args.checked)


if __name__ == "__main__":
    main()
