"""Who hears of what: parts of large workloads that have nothing to do are left alone."""

from __future__ import annotations

from decopa.language.text.parser import parse_workload
from decopa.planning.plan import Plan
from decopa.planning.strategies.left_deep import left_deep
from decopa.query.binding import bind
from shuffler.routing.feeder import FEW_PARTS, WorkloadFeeder
from shuffler.routing.topology import Topology
from shuffler.source.trace import open_trace
from tests.support.small_traces import trace


def test_a_part_that_keeps_nothing_any_more_hears_of_no_watermark() -> None:
    queries = parse_workload(
        "\n".join(f"QUERY q{n} PATTERN SEQ(A{n} a, B{n} b) WITHIN 3 us" for n in range(FEW_PARTS + 1))
    )
    plan = Plan(tuple(map(left_deep, queries)))
    source = open_trace(trace(type=["A0", "B0", *["A1"] * 10, "A0"]))
    feeder = WorkloadFeeder(Topology(plan).routing, [bind(query, source.schema) for query in queries], source.strings)
    heard = [{part for part, _, _ in feeder.feed(batch)} for batch in source.batches([], 1)]
    assert heard[0] == set(range(len(queries)))  # nobody has heard of anything before
    assert all(1 in parts for parts in heard[2:-1])
    idle = [place for place, parts in enumerate(heard[2:-1], start=2) if 0 in parts]
    assert 1 <= len(idle) <= 2 and max(idle) <= 8  # until its window has passed, then it rests
    assert 0 in heard[-1] and len({part for parts in heard[9:-1] for part in parts}) == 1
