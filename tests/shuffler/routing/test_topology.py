"""Names of processes: told apart between runs, short, and stable within a run."""

from __future__ import annotations

from decopa.language.text.parser import parse_workload
from decopa.planning.plan import Plan
from decopa.planning.strategies.left_deep import left_deep
from shuffler.routing.topology import Topology


def topology(*names: str, shufflers: int = 2) -> Topology:
    text = ";".join(f"QUERY {name} PATTERN SEQ(A a, B b) WITHIN 1 s" for name in names)
    return Topology(Plan(tuple(left_deep(query) for query in parse_workload(text))), shufflers)


def test_shufflers_of_two_runs_have_different_names() -> None:
    one, other = topology("far_apart"), topology("same_bike")
    assert one.shuffler_names == ("far_apart/shuffler/0", "far_apart/shuffler/1")
    assert not set(one.shuffler_names) & set(other.shuffler_names)


def test_a_shuffler_of_many_queries_has_a_short_name() -> None:
    assert topology("p", "q", shufflers=1).shuffler_names == ("p,q/shuffler/0",)
    (name,) = topology(*(f"query_{number}" for number in range(40)), shufflers=1).shuffler_names
    assert name == "query_0,+39/shuffler/0"


def test_checkpoints_and_pins_call_shufflers_the_same_in_every_run() -> None:
    assert topology("far_apart").shuffler_keys == topology("same_bike").shuffler_keys == ("shuffler/0", "shuffler/1")


def test_channels_lead_from_shufflers_under_their_full_names() -> None:
    found = topology("q", shufflers=2)
    assert {sender for sender, _ in found.channels} == {*found.shuffler_names, "q/o3/0"}
