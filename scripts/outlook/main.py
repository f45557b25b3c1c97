"""`scripts/scale_outlook`: what a query would take on 10 to 4,000 units, counted from plans, and simulated."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from cluster.edges import flows_between
from costmodel.capacity import Capacity
from decopa.choices import Objective
from decopa.language.text.parser import parse_workload
from decopa.planning.planner import plan_workload
from decopa.planning.predict import predict
from decopa.query.binding import bind
from decopa.runs.measure import measure
from decopa.runs.model_check import predicted_rate
from scripts.outlook.simulation import simulate
from shuffler.routing.topology import Topology
from shuffler.source.trace import open_trace

_TITLES = ("units", "planned in", "events/s, predicted", "simulated", "channels", "MB/s from shufflers", "messages/s")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="scripts/scale_outlook", description=__doc__)
    parser.add_argument("query", type=Path, help="a file with one query")
    parser.add_argument("--trace", type=Path, required=True, help="events to measure rates and selectivities in")
    parser.add_argument("--units", default="1,2,4,8,16,64,256,1024,4000", help="numbers of units")
    parser.add_argument("--iota", type=float, required=True, help="events a unit takes in per second")
    parser.add_argument("--kappa", type=float, required=True, help="comparisons a unit makes per second")
    parser.add_argument("--shufflers-per", type=int, default=16, help="units that one shuffler serves (default: 16)")
    chosen = parser.parse_args(arguments)
    queries, source = parse_workload(chosen.query.read_text()), open_trace(chosen.trace)
    statistics = [one.statistics for one in measure(queries, source)]
    capacity = replace(Capacity.per_second(chosen.iota, chosen.kappa), objective=Objective.BUSY)
    events = source.row_count or 0
    print("| " + " | ".join(_TITLES) + " |\n|" + " ---: |" * len(_TITLES))
    for units in map(int, chosen.units.split(",")):
        began = time.perf_counter()
        plan = plan_workload(queries, statistics, capacity, units=units).plan
        planned_s = time.perf_counter() - began
        known = [one for query, one in zip(queries, statistics, strict=True) for _ in query.branches]
        rate, _ = predicted_rate(plan, known, source.span_us, events, capacity)
        shufflers = max(1, units // chosen.shufflers_per)
        topology = Topology(plan, shufflers)
        expected = [predict(part, one, source.span_us) for part, one in zip(plan.parts, known, strict=True)]
        emitted = [{name: one.emitted.value for name, one in part.items()} for part in expected]
        flows = flows_between(topology, [bind(part.query, source.schema) for part in plan.parts], emitted)
        dealt = sum(size for (sender, _), size in flows.items() if sender in topology.shuffler_names)
        batches = max(40, 4 * shufflers)
        found = simulate(plan, expected, events, capacity, shufflers=shufflers, batches=batches)
        per_event = found.messages / (batches * 32_768)
        cells = (
            f"{units:,}",
            f"{planned_s:.2f} s",
            f"{rate:,.0f}",
            f"{found.events_per_s:,.0f}",
            f"{len(topology.channels):,}",
            f"{dealt / events * rate / 1e6:,.0f}",
            f"{per_event * found.events_per_s:,.0f}",
        )
        print("| " + " | ".join(cells) + " |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
