from __future__ import annotations

from dataclasses import replace

from decopa.planning.plan import QueryPlan
from shuffler.routing.partitioner import Broadcast, HashByEventIds, RoundRobin
from shuffler.routing.table import Edge, RoutingTable
from tests.support.plan_text import leaves, operator, plan_of

A, B, C = leaves("a", "b", "c")
A_DEALT_OUT = replace(A, partitioned=True)


def edge(plan: QueryPlan, source: str, target: str) -> Edge:
    (found,) = (one for one in RoutingTable(plan).edges_from(plan.operator(source)) if one.target.name == target)
    return found


def test_a_partitioned_input_is_dealt_out_and_the_other_broadcast() -> None:
    plan = plan_of("SEQ(A a, B b)", A_DEALT_OUT, B, operator("q", "a b", "a b", units=3))
    assert isinstance(edge(plan, "a", "q").partitioner(), RoundRobin)
    assert isinstance(edge(plan, "b", "q").partitioner(), Broadcast)
    assert edge(plan, "a", "q").units == edge(plan, "b", "q").units == 3


def test_edges_know_their_side() -> None:
    plan = plan_of("SEQ(A a, B b)", A, B, operator("q", "a b", "b a"))
    assert (edge(plan, "a", "q").side, edge(plan, "b", "q").side) == (1, 0)


def test_only_one_unit_works_if_no_input_is_partitioned() -> None:
    plan = plan_of("SEQ(A a, B b)", A, B, operator("q", "a b", "a b", units=3))
    assert plan.roles(plan.root).active_units == 1
    assert edge(plan, "a", "q").units == 1


def test_the_input_of_a_unary_kleene_split_is_hashed_on_everything_but_the_group() -> None:
    plan = plan_of(
        "SEQ(A a, KL(B b), C c)",
        *(A, B, C),
        operator("ac", "a c", "a c"),
        operator("strip", "a b c", "ac b", partitioned=True),
        operator("q", "a b* c", "strip", units=2),
    )
    assert edge(plan, "strip", "q").hashed == ("a.id", "c.id")
    assert isinstance(edge(plan, "strip", "q").partitioner(), HashByEventIds)


def test_a_shared_input_goes_to_each_of_its_successors() -> None:
    plan = plan_of(
        "SEQ(A a, B b, C c)",
        *(A_DEALT_OUT, B, C),
        operator("ab", "a b", "a b", units=2),
        operator("ac", "a c", "a c", units=3),
        operator("q", "a b c", "ab ac"),
    )
    targets = {one.target.name: one.units for one in RoutingTable(plan).edges_from(plan.operator("a"))}
    assert targets == {"ab": 2, "ac": 3}


def test_every_sender_deals_out_in_its_own_turn() -> None:
    plan = plan_of("SEQ(A a, B b)", A_DEALT_OUT, B, operator("q", "a b", "a b", units=2))
    assert edge(plan, "a", "q").partitioner() is not edge(plan, "a", "q").partitioner()


def test_the_senders_of_an_operator_are_its_active_units() -> None:
    plan = plan_of("SEQ(A a, B b)", A_DEALT_OUT, B, operator("q", "a b", "a b", units=2))
    routing = RoutingTable(plan)
    assert routing.senders(plan.operator("a")) == ("a/shuffler0",)
    assert routing.senders(plan.root) == ("q/0", "q/1")
