"""Worked examples of the thesis on adaptivity: rates, costs, inequality, alarm, repair, inflation, tables."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

import cluster.change.local
from actors.columnar.jit import interpreted
from cluster.change.history import BlockRing
from cluster.change.local import ChangingPipeline
from costmodel.drift.alarm import Alarm, PrintedAlarm
from costmodel.drift.forwarding import central_forwarding_cost, forwarding_edges, hops_to, tree_edges
from costmodel.drift.inequality import Inequality, global_rate, thesis_match_rate
from costmodel.drift.inflation import FACTORS, Inflation, inflated, saving
from costmodel.drift.sliding import SlidingCount
from decopa.planning.change.repair import SinkNode, fallback_nodes, on_one_unit, repaired_graph, repaired_tables
from decopa.planning.change.thesis import ThesisRules
from decopa.planning.plan import Plan
from shuffler.rows.events import EventBatch
from shuffler.source.trace import open_trace
from tests.support.plan_text import operator, plan_of
from tests.support.shared import adaptivity_entries, needs_golden
from tests.support.small_traces import trace

pytestmark = needs_golden
SECOND_US = 1_000_000
#: Entries whose arithmetic is done here from forwarding graphs and rates.
COSTS_OF_FIGURES = {
    "adaptivity-fig2-dist-cost", "adaptivity-fig2-repair-cost", "adaptivity-fig2-inflated-multi",
    "adaptivity-fig2-inflated-single", "adaptivity-fig5-before", "adaptivity-fig5-after",
}  # fmt: skip
#: The largest saving of each operator's networks.
SPOKEN = {"seq": "adaptivity-saving-max-seq", "and": "adaptivity-saving-max-and"}


def examples(function: str) -> Any:
    return pytest.mark.parametrize("entry", adaptivity_entries(function), ids=lambda entry: entry["id"])


def entry_of(entry_id: str) -> dict[str, Any]:
    return next(entry for entry in adaptivity_entries() if entry["id"] == entry_id)


def pairs(edges: list[list[int]]) -> list[tuple[int, int]]:
    return [(one, other) for one, other in edges]


def close(entry: dict[str, Any]) -> Any:
    tolerance = entry["tolerance"]
    return pytest.approx(entry["expected"], rel=tolerance.get("rel"), abs=tolerance.get("abs"))


# ---------------------------------------------------------------- cost model
@examples("adapt_global_rate")
def test_global_rates_count_every_producer(entry: dict[str, Any]) -> None:
    assert global_rate(entry["inputs"]["rate"], len(entry["inputs"]["sources"])) == close(entry)


@examples("adapt_match_rate")
def test_match_rates_of_seq_and_and(entry: dict[str, Any]) -> None:
    inputs = entry["inputs"]
    assert thesis_match_rate(inputs["op"], inputs["rates"], inputs["sigma"]) == close(entry)


@examples("adapt_hop_coefficients")
def test_hops_to_one_node_add_up_by_type(entry: dict[str, Any]) -> None:
    inputs = entry["inputs"]
    assert hops_to(pairs(inputs["edges"]), inputs["sink"], inputs["sources"]) == entry["expected"]


@examples("adapt_central_cost")
def test_gathering_everything_costs_rates_times_hops(entry: dict[str, Any]) -> None:
    inputs = entry["inputs"]
    found = central_forwarding_cost(pairs(inputs["edges"]), inputs["sink"], inputs["sources"], inputs["rates"])
    assert found == close(entry)


@examples("adapt_forwarding")
def test_forwarding_graphs_are_smallest_trees(entry: dict[str, Any]) -> None:
    inputs = entry["inputs"]
    assert forwarding_edges(pairs(inputs["edges"]), inputs["origins"], inputs["sinks"]) == entry["expected"]


@examples("adapt_steiner")
def test_smallest_trees_span_the_sinks(entry: dict[str, Any]) -> None:
    assert tree_edges(pairs(entry["inputs"]["edges"]), entry["inputs"]["terminals"]) == entry["expected"]


def test_the_plans_of_figure_2_cost_what_the_thesis_says() -> None:
    """The costs that golden gives as arithmetic, from forwarding graphs and match rates."""
    edges = pairs(entry_of("adaptivity-fig2-dist-a")["inputs"]["edges"])
    projection_sinks, query_sinks = (2, 6, 7), (2, 5, 8)

    def costs(a_rate: float, e_rate: float) -> tuple[float, float]:
        matches = thesis_match_rate("AND", [e_rate, a_rate], 0.1)
        (a_edges,) = forwarding_edges(edges, [1], projection_sinks)
        multi = a_rate * a_edges + matches * sum(forwarding_edges(edges, projection_sinks, query_sinks))
        to_fallback = hops_to(edges, 2, {"A": [1], "E": [2, 6, 7]})
        (out,) = forwarding_edges(edges, [2], query_sinks)
        single = a_rate * to_fallback["A"] + e_rate * to_fallback["E"] + out * global_rate(matches, 3)
        return multi, single

    assert costs(1, 10) == (
        close(entry_of("adaptivity-fig2-dist-cost")),
        close(entry_of("adaptivity-fig2-repair-cost")),
    )
    assert costs(20, 10) == (
        close(entry_of("adaptivity-fig2-inflated-multi")),
        close(entry_of("adaptivity-fig2-inflated-single")),
    )
    multi, single = costs(10 / 3, 10)
    assert multi == pytest.approx(single)


def test_the_plans_of_figure_5_cost_what_the_thesis_says() -> None:
    edges = pairs(entry_of("adaptivity-steiner-triangle")["inputs"]["edges"])
    (a_edges,) = forwarding_edges(edges, [1], [2, 3])
    assert 2 * a_edges == close(entry_of("adaptivity-fig5-before"))
    to_fallback = hops_to(edges, 2, {"A": [1], "C": [2, 3]})
    assert 2 * to_fallback["A"] + 100 * to_fallback["C"] == close(entry_of("adaptivity-fig5-after"))


# ------------------------------------------------------ inequality and alarm
@examples("adapt_inequality")
def test_inequality_2(entry: dict[str, Any]) -> None:
    inputs, expected = entry["inputs"], entry["expected"]
    found = Inequality(inputs["r_part"], inputs["steiner"], tuple(inputs["r_nonpart"]), inputs["r_match"])
    bracketed = inputs.get("grouping") == "bracket"
    assert (found.bracketed_right if bracketed else found.right) == pytest.approx(expected["rhs"])
    assert found.partitioning == expected["lhs"]
    assert found.holds is expected["holds"]


@examples("adapt_monitor")
def test_the_alarm_comes_with_the_fifth_violation_in_a_row(entry: dict[str, Any]) -> None:
    patience = entry_of("adaptivity-monitor-params")["expected"]["violations"]
    printed = entry["inputs"].get("variant") == "printed"
    alarm: Alarm | PrintedAlarm = PrintedAlarm(patience) if printed else Alarm(patience)
    raised = None
    for check, violated in enumerate(entry["inputs"]["violations"], 1):
        alarm = alarm.after(violated=violated)
        if alarm.raised and raised is None:
            raised = check
    assert raised == entry["expected"]


@examples("adapt_window_counts")
def test_the_monitor_counts_both_ends_of_its_ten_seconds(entry: dict[str, Any]) -> None:
    settings = entry_of("adaptivity-monitor-params")["expected"]
    count = SlidingCount(settings["window_s"])
    count.add(entry["inputs"]["timestamps"])
    assert count.at(entry["inputs"]["now"]) == entry["expected"]
    rules = ThesisRules()
    assert (rules.counted_s, rules.every_s, rules.violations) == tuple(settings.values())


# --------------------------------------------------------------------- repair
@examples("adapt_fallback")
def test_the_fallback_node_is_near_and_has_the_largest_table(entry: dict[str, Any]) -> None:
    sinks = [
        SinkNode(name, node["complex_child"], node["parent"], node["table"])
        for name, node in entry["inputs"]["nodes"].items()
    ]
    assert fallback_nodes(sinks) == entry["expected"]


@examples("adapt_repair_tables")
def test_after_the_repair_every_input_reaches_the_fallback_node(entry: dict[str, Any]) -> None:
    inputs = entry["inputs"]
    tables = repaired_tables(pairs(inputs["edges"]), inputs["producers"], inputs["fallback"])
    assert {str(node): table for node, table in tables.items()} == entry["expected"]


@examples("adapt_edit")
def test_the_repair_of_the_graph_leads_inputs_to_the_fallback_vertex(entry: dict[str, Any]) -> None:
    before = set(pairs(entry["inputs"]["before"]))
    after = repaired_graph(before, {9, 10}, 8)
    assert sorted(after) == pairs(entry["expected"])
    assert before - after == set(pairs(entry["inputs"]["removed"]))
    assert after - before == set(pairs(entry["inputs"]["added"]))


# ----------------------------------------------------------------- transition
class Buffered(BlockRing[EventBatch]):
    """What the thesis' fallback node knows at the cut: all As, the Cs of its own, and of the other node those that were
    buffered, from a time on or none. One event a block."""

    def __init__(self, nodes: list[int], fallback: int, from_us: float) -> None:
        super().__init__(60 * SECOND_US)
        self._nodes, self._fallback, self._buffered_from_us = nodes, fallback, from_us

    def since(self, from_us: int) -> Iterator[EventBatch]:
        for block in super().since(from_us):
            is_c = block.type_names[int(block.type_codes[0])] == "C"
            elsewhere = is_c and self._nodes[block.first_ordinal] != self._fallback
            if not elsewhere or int(block.ts[0]) >= self._buffered_from_us:
                yield block


@examples("adapt_transition")
def test_the_switch_finds_what_its_history_holds(entry: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """From two units to one at t1, through the real switch: with what is buffered between t0 and t1 only, it loses the
    matches that the thesis' transition loses; with a window of history, which is what a run keeps, none.

    The thesis' nodes hand over no state. Ours would, since the operators stay; so the switch is one that knows of no
    part that stays, as between plans that split a query differently."""
    monkeypatch.setattr(cluster.change.local, "staying_parts", lambda old, new: (frozenset(), frozenset()))
    inputs = entry["inputs"]
    events = sorted(inputs["events"], key=lambda event: event[3])
    leaves = (operator("c", "c", partitioned=True), operator("a", "a"))
    spread = plan_of("SEQ(C c, A a)", *leaves, operator("o", "c a", "c a", units=2))
    query = replace(spread.query, window_us=round(inputs["window"] * SECOND_US))
    plan = Plan((replace(spread, query=query),))
    buffered_from = inputs.get("buffer_from", inputs["t0"]) if inputs["buffering"] else math.inf

    def matches(history: BlockRing[EventBatch]) -> list[list[str]]:
        times = [round(event[3] * SECOND_US) for event in events]
        source = open_trace(trace(id=[event[0] for event in events], ts=times, type=[event[1] for event in events]))
        with interpreted():
            pipeline = ChangingPipeline(plan, source.format, source.strings, history)
            for number, batch in enumerate(source.batches(["id"], 1)):
                if times[number] >= inputs["t1"] * SECOND_US and pipeline.plan == plan.with_keys:
                    pipeline.switch(on_one_unit(plan))
                pipeline.feed(batch)
            pipeline.finish()
            (found,) = pipeline.take().values()
        return sorted([row["c"], row["a"]] for row in found.to_pylist())

    nodes = [event[2] for event in events]
    assert matches(Buffered(nodes, inputs["fallback"], buffered_from * SECOND_US)) == entry["expected"]
    pairs_in_window = [
        [c[0], a[0]]
        for c in events
        for a in events
        if (c[1], a[1]) == ("C", "A") and c[3] < a[3] <= c[3] + inputs["window"]
    ]
    assert matches(BlockRing(60 * SECOND_US)) == sorted(pairs_in_window)


# ----------------------------------------------------- experiment and tables
@examples("adapt_scale")
def test_inflation_scales_what_is_not_partitioning(entry: dict[str, Any]) -> None:
    inputs = entry["inputs"]
    found = inflated(inputs["ratios"], inputs["alpha"], Inflation(inputs.get("variant", "sum")))
    assert found == close(entry)


def test_the_factors_are_those_of_the_tables() -> None:
    assert list(FACTORS) == entry_of("adaptivity-scale-alphas")["expected"]


@examples("adapt_savings")
def test_savings_follow_from_the_two_columns(entry: dict[str, Any]) -> None:
    found = [saving(static, adaptive) for _, static, adaptive in entry["inputs"]["rows"]]
    rounded = [round(value, 1) if value > 0 else None for value in found]
    for mine, theirs in zip(rounded, entry["expected"], strict=True):
        assert mine == (None if theirs is None else pytest.approx(theirs, abs=entry["tolerance"]["abs"]))


@examples("adapt_saving")
def test_a_saving_is_what_the_repair_does_not_send(entry: dict[str, Any]) -> None:
    assert saving(entry["inputs"]["first"], entry["inputs"]["second"]) == close(entry)


def test_the_largest_savings_are_those_that_the_text_names() -> None:
    tables = {
        entry["id"].removeprefix("adaptivity-table-"): [saving(one, other) for _, one, other in entry["inputs"]["rows"]]
        for entry in adaptivity_entries("adapt_savings")
    }
    for kind, entry_id in SPOKEN.items():
        best = max(max(one) for name, one in tables.items() if name.startswith(kind))
        assert best == close(entry_of(entry_id))
    assert max(tables["seq-7"]) == close(entry_of("adaptivity-table-bold"))
    assert sum(any(saved > 0 for saved in one[1:2]) for one in tables.values()) == 8  # adaptivity-claim-half


def test_every_entry_that_has_a_function_is_tested_here() -> None:
    tested = {
        mark.args[1][0]["function"]
        for value in globals().values()
        for mark in getattr(value, "pytestmark", ())
        if mark.name == "parametrize" and mark.args[1]
    }
    entries = [entry for entry in adaptivity_entries() if "function" in entry]
    assert {entry["function"] for entry in entries} - tested == {"arithmetic"}
    by_hand = {entry["id"] for entry in entries if entry["function"] == "arithmetic"}
    assert by_hand - COSTS_OF_FIGURES - {*SPOKEN.values(), "adaptivity-table-bold"} == {
        "adaptivity-networks",  # 6 + 5 - 2
        "adaptivity-rate-83",  # 2500 / 30
    }
