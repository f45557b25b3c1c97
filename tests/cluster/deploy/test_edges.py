"""Which process lives where, by what flows between them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.deploy.edges import Work, bytes_by_node, flows_between, place_by_edges
from decopa.errors import DeployError
from decopa.language.text.parser import parse
from decopa.planning.plan import Plan
from decopa.planning.spread import spread_units
from decopa.planning.strategies.left_deep import left_deep
from decopa.query.binding import bind
from decopa.query.schema import Column, Kind, Schema
from shuffler.routing.topology import Topology

SIZES = st.floats(0, 1e6, allow_nan=False)


def crossing(flows: dict[tuple[str, str], float], homes: dict[str, str]) -> float:
    return sum(bytes_by_node(flows, homes).values())


def test_processes_that_exchange_much_share_a_node() -> None:
    flows = {("a", "b"): 100.0, ("b", "c"): 1.0, ("c", "d"): 100.0}
    homes = place_by_edges(["a", "b", "c", "d"], flows, {"n1": 2, "n2": 2}, {})
    assert homes["a"] == homes["b"] != homes["c"] == homes["d"]
    assert crossing(flows, homes) == 1.0


def test_a_pinned_process_stays_and_draws_others() -> None:
    homes = place_by_edges(["a", "b", "c"], {("a", "b"): 9.0, ("a", "c"): 1.0}, {"n1": 2, "n2": 2}, {"a": "n2"})
    assert homes == {"a": "n2", "b": "n2", "c": "n1"}


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(DeployError, match="3 processes do not fit"):
        place_by_edges(["a", "b", "c"], {}, {"n1": 2}, {})


@given(st.lists(SIZES, min_size=10, max_size=10), st.integers(2, 3))
def test_no_single_move_or_exchange_saves_bytes(sizes: list[float], room: int) -> None:
    names = ["a", "b", "c", "d", "e"]
    flows = dict(zip(itertools.combinations(names, 2), sizes, strict=True))
    nodes = {"n1": room, "n2": room, "n3": room}
    homes = place_by_edges(names, flows, nodes, {})
    assert all(list(homes.values()).count(node) <= room for node in nodes)
    found = crossing(flows, homes)
    for one, other in itertools.combinations(names, 2):
        exchanged = homes | {one: homes[other], other: homes[one]}
        assert crossing(flows, exchanged) >= found * (1 - 1e-6) - 1e-6
    for name, node in itertools.product(names, nodes):
        if list(homes.values()).count(node) < room:
            assert crossing(flows, homes | {name: node}) >= found * (1 - 1e-6) - 1e-6


def test_the_heaviest_processes_get_the_fastest_nodes() -> None:
    work = Work({"a": 9.0, "b": 3.0, "c": 1.0}, {"fast": 3.0, "slow": 1.0})
    homes = place_by_edges(["a", "b", "c"], {("a", "c"): 100.0}, {"slow": 2, "fast": 1}, {}, work)
    assert homes == {"a": "fast", "b": "slow", "c": "slow"}


def test_a_slow_node_is_left_out_while_others_have_room() -> None:
    work = Work({"a": 1.0, "b": 1.0}, {"old": 0.5})
    assert "old" not in place_by_edges(["a", "b"], {}, {"old": 4, "n1": 1, "n2": 1}, {}, work).values()


LOADS = st.lists(st.floats(0, 10), min_size=5, max_size=5)


@given(LOADS, st.lists(st.floats(0.1, 4), min_size=3, max_size=3), st.lists(SIZES, min_size=10, max_size=10))
def test_no_placement_lets_the_slowest_process_take_less_time(
    loads: list[float], speeds: list[float], sizes: list[float]
) -> None:
    names, nodes = ["a", "b", "c", "d", "e"], {"n1": 2, "n2": 2, "n3": 2}
    work = Work(dict(zip(names, loads, strict=True)), dict(zip(nodes, speeds, strict=True)))
    flows = dict(zip(itertools.combinations(names, 2), sizes, strict=True))
    homes = place_by_edges(names, flows, nodes, {}, work)
    assert all(list(homes.values()).count(node) <= room for node, room in nodes.items())

    def slowest(places: Iterable[str]) -> float:
        return max(work.seconds(name, node) for name, node in zip(names, places, strict=True))

    every = [one for one in itertools.product(nodes, repeat=5) if all(one.count(node) <= 2 for node in nodes)]
    assert slowest(homes[name] for name in names) <= min(map(slowest, every)) * (1 + 1e-6)


def test_flows_follow_rows_and_widths() -> None:
    query = parse("QUERY q PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 1 s")
    plan = spread_units(left_deep(query), 2)
    topology = Topology(Plan((plan,)))
    kinds = {"id": Kind.INT, "ts": Kind.INT, "type": Kind.STRING, "x": Kind.FLOAT}
    schema = Schema({name: Column(kind) for name, kind in kinds.items()})
    emitted = {operator.name: 1000.0 if not operator.inputs else 10.0 for operator in plan.operators}
    flows = flows_between(topology, [bind(query, schema)], [emitted])
    units = [process.name for process in topology.units]
    (shuffler,) = topology.shuffler_names
    assert {ends for ends in flows if ends[0] == shuffler} == {(shuffler, name) for name in units}
    # One input is dealt out to two units, the other goes to both: 500 + 1000 rows of at least id, ts and x.
    for name in units:
        assert flows[shuffler, name] >= 1500 * 3 * 8
        assert flows[name, "q/sink"] > 0
    assert flows[shuffler, units[0]] == flows[shuffler, units[1]]
