"""Joins whose conditions have one form share one loop, and each hands it its own columns and constants."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
import pytest

from actors.columnar.jit import interpreted
from actors.columnar.pair_writer import Side
from actors.columnar.probe_loops import Form
from actors.columnar.probe_source import probe_source
from actors.operators.pairing import Pairing, write_pairing
from cluster.local import LocalRuntime
from costmodel.capacity import Capacity
from costmodel.statistics import Statistics
from decopa.language.text.parser import parse_workload
from decopa.planning.planner import plan_workload
from decopa.planning.subquery import SubQuery
from decopa.query.binding import bind
from shuffler.routing.feeder import FEW_PARTS
from shuffler.source.trace import open_trace

CAPACITY = Capacity.per_second(1e6, 1e8)
EVENTS = 120


def trace() -> pa.Table:
    rng = np.random.default_rng(5)
    return pa.table(
        {
            "id": np.arange(EVENTS),
            "ts": np.arange(EVENTS) * 1_000,
            "type": pa.array(np.array(["A", "B", "C"])[rng.integers(0, 3, EVENTS)]),
            **{name: rng.random(EVENTS) for name in "xyz"},
            "n": rng.integers(0, 5, EVENTS),
        }
    )


def source(pattern: str, where: str, left: str = "a", *, window: str = "20 ms", by_form: bool = True) -> str:
    """The loop in which rows of the left input, by its aliases, probe those of the other one."""
    (query,) = parse_workload(f"PATTERN {pattern} WHERE {where} WITHIN {window}")
    bound = bind(query, open_trace(trace()).schema)
    mine = frozenset(left.split())
    others = frozenset(bound.query.aliases) - mine
    pairing = Pairing(bound, Side.of(bound, SubQuery(mine)), Side.of(bound, SubQuery(others)))
    writer, _ = write_pairing(bound, pairing, by_form=by_form)
    return probe_source(writer, Form.COUNT, hashed=False)


@pytest.mark.parametrize(
    ("pattern", "where"),
    [
        ("SEQ(A a, B b)", "a.y < b.z AND abs(a.x - b.x) < 0.4"),  # other columns, another constant
        ("SEQ(A a, B b)", "abs(a.x - b.x) < 0.2 AND a.x < b.y"),  # another order
        ("SEQ(A a, B b)", "b.y > a.x AND abs(b.x - a.x) < 0.2"),  # sides exchanged
        ("SEQ(A a, B b)", "a.x < b.x AND abs(a.x - b.x) < 0.2"),  # columns that both conditions read
        ("SEQ(B b, A a)", "a.x < b.y AND abs(a.x - b.x) < 0.2"),  # the bound is on the other side
    ],
)
def test_joins_of_one_form_share_a_loop(pattern: str, where: str) -> None:
    assert source(pattern, where) == source("SEQ(A a, B b)", "a.x < b.y AND abs(a.x - b.x) < 0.2")


@pytest.mark.parametrize(
    "where", ["a.x > b.y AND abs(a.x - b.x) < 0.2", "a.x < b.y AND abs(a.x + b.x) < 0.2", "a.x < b.y"]
)
def test_joins_of_another_form_have_a_loop_of_their_own(where: str) -> None:
    assert source("SEQ(A a, B b)", where) != source("SEQ(A a, B b)", "a.x < b.y AND abs(a.x - b.x) < 0.2")


def test_whole_numbers_and_fractions_are_never_mixed_up_in_one_place() -> None:
    one = source("AND(A a, B b)", "a.n < b.n AND a.x < b.x")
    assert one == source("AND(A a, B b)", "a.x < b.x AND a.n < b.n")


def test_where_an_event_stands_among_those_of_the_other_input_does_not_matter() -> None:
    between = source("SEQ(A a, B b, C c)", "abs(a.x - b.x) < 0.2", left="b")
    assert between == source("SEQ(A a, B b, C c)", "abs(b.y - c.z) < 0.3", left="b", window="7 ms")


def test_the_loop_of_a_single_query_reads_a_column_once() -> None:
    where = "a.x < b.x AND abs(a.x - b.x) < 0.2"
    assert source("SEQ(A a, B b)", where, by_form=False).count("= P") == 2, "its time and x"
    assert source("SEQ(A a, B b)", where).count("= P") == 6


def test_each_join_hands_its_own_columns_and_constants_to_the_loop_they_share() -> None:
    wheres = [
        f"abs(a.{one} - b.{other}) < 0.{3 + number % 5} AND a.{two} < b.{three}"
        for number, (one, other, two, three) in enumerate(itertools.product("xy", "xyz", "xz", "yz"))
    ]
    wheres += [
        "a.x < b.y AND a.y < b.x",
        "a.y < b.x AND a.x < b.y",
        "a.x < b.x AND a.y < b.y",
        "b.x > a.y AND b.z > a.x",
    ]
    texts = [
        f"QUERY q{number} PATTERN SEQ(A a, B b, C c) WHERE {where} AND b.n < c.n AND abs(c.x - a.z) < 0.3 WITHIN 15 ms"
        for number, where in enumerate(wheres)
    ]
    events, known = trace(), Statistics(15_000, dict.fromkeys("ABC", 5.0), (), default_selectivity=0.3)
    queries = parse_workload("\n".join(texts))
    assert len(queries) > FEW_PARTS, "fewer queries would have loops of their own"

    def found(chosen: tuple[int, ...]) -> list[pa.Table]:
        wanted = [queries[number] for number in chosen]
        strategy = "reordering-only" if len(wanted) > 1 else "decopa"
        plan = plan_workload(wanted, known, CAPACITY, units=1, strategy=strategy).plan
        runtime = LocalRuntime(plan, open_trace(events), batch_size=50)
        runtime.run()
        return [one for one in runtime.outcomes if isinstance(one, pa.Table)]

    with interpreted():
        together = found(tuple(range(len(queries))))
        alone = [found((number,))[0] for number in range(len(queries))]
    assert [one.to_pylist() for one in together] == [one.to_pylist() for one in alone]
    assert sum(one.num_rows for one in together) > 100
