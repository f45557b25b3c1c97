"""Synthetic traces: what the parameters promise, measured."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

from decopa.errors import TraceError
from decopa.language.text.parser import parse
from decopa.traces.synthetic import CHUNK_EVENTS, LABELS, PairSelectivity, SyntheticSpec, example_query

EVENTS = 100_000


def column(table: pa.Table, name: str, event_type: str) -> npt.NDArray[np.float64]:
    """The values of a column on the events of one type."""
    of_type = np.array(table["type"].to_pylist()) == event_type
    values: npt.NDArray[np.float64] = table[name].to_numpy()[of_type]
    return values


def holds(first: npt.NDArray[np.float64], second: npt.NDArray[np.float64], p: float) -> npt.NDArray[np.bool_]:
    """The condition of a pair, evaluated on all combinations."""
    distance = np.abs(first[:, None] - second[None, :])
    return np.minimum(distance, 1 - distance) < p / 2


def test_the_same_seed_gives_the_same_trace() -> None:
    spec = SyntheticSpec(1_000, seed=3)
    assert spec.table().equals(spec.table())
    assert not spec.table().equals(SyntheticSpec(1_000, seed=4).table())


def test_a_shorter_trace_is_the_beginning_of_a_longer_one() -> None:
    longer = SyntheticSpec(CHUNK_EVENTS + 100).table()
    shorter = SyntheticSpec(CHUNK_EVENTS + 10).table()
    assert shorter.equals(longer.slice(0, CHUNK_EVENTS + 10))


def test_a_selectivity_leaves_the_other_columns_alone() -> None:
    plain = SyntheticSpec(1_000).table()
    paired = SyntheticSpec(1_000, pairs=(PairSelectivity("A", "B", 0.1),)).table()
    assert paired.drop_columns(["a_b"]).equals(plain)


def test_batches_are_bounded_and_follow_the_schema() -> None:
    spec = SyntheticSpec(2 * CHUNK_EVENTS + 5, pairs=(PairSelectivity("A", "B", 0.1),))
    batches = list(spec.batches())
    assert [batch.num_rows for batch in batches] == [CHUNK_EVENTS, CHUNK_EVENTS, 5]
    assert all(batch.schema.equals(spec.schema) for batch in batches)


def test_ids_increase_and_times_never_go_back() -> None:
    table = SyntheticSpec(EVENTS).table()
    assert (np.diff(table["id"].to_numpy()) == 1).all()
    assert (np.diff(table["ts"].to_numpy()) >= 0).all()


def test_arrivals_are_poisson_at_the_given_rate() -> None:
    gaps = np.diff(SyntheticSpec(EVENTS, rate_per_s=200.0).table()["ts"].to_numpy())
    assert gaps.mean() == pytest.approx(5_000, rel=0.02)
    assert gaps.std() == pytest.approx(5_000, rel=0.02)  # an exponential's deviation is its mean


def test_types_share_the_rate_by_zipf() -> None:
    spec = SyntheticSpec(EVENTS, types=4, zipf=1.2)
    types = spec.table()["type"].to_pylist()
    for name, rate in zip(spec.type_names, spec.type_rates_per_s, strict=True):
        assert types.count(name) / EVENTS == pytest.approx(rate / spec.rate_per_s, abs=0.006)
    assert spec.type_rates_per_s[0] / spec.type_rates_per_s[1] == pytest.approx(2**1.2)
    assert math.fsum(spec.type_rates_per_s) == pytest.approx(spec.rate_per_s)


def test_attributes_are_spread_evenly() -> None:
    table = SyntheticSpec(EVENTS, keys=7).table()
    assert table["x"].to_numpy().mean() == pytest.approx(0.5, abs=0.01)
    assert table["y"].to_numpy().min() >= 0
    assert table["y"].to_numpy().max() < 1
    assert set(table["k"].to_pylist()) == set(range(7))
    assert set(table["s"].to_pylist()) == set(LABELS)


def test_times_can_be_timestamps() -> None:
    table = SyntheticSpec(10, timestamps=True).table()
    assert table.schema.field("ts").type == pa.timestamp("us", "UTC")
    assert table["ts"][0].as_py().year == 2024


def test_there_are_names_for_many_types() -> None:
    assert SyntheticSpec(0, types=28).type_names[24:] == ("Y", "Z", "AA", "AB")


# ------------------------------------------------------------------ selectivities


@pytest.mark.parametrize("p", [0.001, 0.05, 0.5, 0.9])
def test_a_pair_fulfils_its_condition_as_often_as_chosen(p: float) -> None:
    table = SyntheticSpec(20_000, types=2, pairs=(PairSelectivity("A", "B", p),)).table()
    share = holds(column(table, "a_b", "A")[:2_000], column(table, "a_b", "B")[:2_000], p).mean()
    assert share == pytest.approx(p, rel=0.05)


def test_selectivity_one_holds_for_all_pairs() -> None:
    table = SyntheticSpec(2_000, types=2, pairs=(PairSelectivity("A", "B", 1.0),)).table()
    assert holds(column(table, "a_b", "A"), column(table, "a_b", "B"), 1.0).all()


def test_every_event_finds_partners_as_often_as_any_other() -> None:
    table = SyntheticSpec(60_000, types=2, pairs=(PairSelectivity("A", "B", 0.5),)).table()
    shares = holds(column(table, "a_b", "A")[:500], column(table, "a_b", "B")[:5_000], 0.5).mean(axis=1)
    assert shares.min() > 0.45
    assert shares.max() < 0.55


def test_pairs_are_independent_of_each_other() -> None:
    pairs = (PairSelectivity("A", "B", 0.3), PairSelectivity("A", "C", 0.2), PairSelectivity("B", "C", 0.4))
    table = SyntheticSpec(5_000, types=3, zipf=0.0, pairs=pairs).table()
    ab = holds(column(table, "a_b", "A")[:300], column(table, "a_b", "B")[:300], 0.3)
    ac = holds(column(table, "a_c", "A")[:300], column(table, "a_c", "C")[:300], 0.2)
    bc = holds(column(table, "b_c", "B")[:300], column(table, "b_c", "C")[:300], 0.4)
    joint = (ab[:, :, None] & ac[:, None, :] & bc[None, :, :]).mean()
    assert joint == pytest.approx(0.3 * 0.2 * 0.4, rel=0.05)


def test_a_type_may_be_paired_with_itself() -> None:
    table = SyntheticSpec(10_000, types=2, pairs=(PairSelectivity("A", "A", 0.1),)).table()
    values = column(table, "a_a", "A")
    assert holds(values[:2_000], values[2_000:4_000], 0.1).mean() == pytest.approx(0.1, rel=0.05)


def test_events_of_other_types_have_no_value() -> None:
    table = SyntheticSpec(1_000, types=3, pairs=(PairSelectivity("A", "B", 0.1),)).table()
    missing = np.array([value is None for value in table["a_b"].to_pylist()])
    assert np.array_equal(missing, np.array(table["type"].to_pylist()) == "C")


def test_the_predicate_is_query_text() -> None:
    pair = PairSelectivity("A", "B", 0.05)
    assert pair.predicate("a", "b") == "min(abs(a.a_b - b.a_b), 1 - abs(a.a_b - b.a_b)) < 0.025"


@pytest.mark.parametrize(
    "pairs",
    [
        (),
        (PairSelectivity("A", "B", 0.05), PairSelectivity("B", "C", 1e-6)),
        (PairSelectivity("A", "A", 0.5),),
        (PairSelectivity("IN", "OR", 0.5),),
    ],
)
def test_the_example_query_parses(pairs: tuple[PairSelectivity, ...]) -> None:
    query = parse(example_query(SyntheticSpec(0, types=500, pairs=pairs), "5 min"))
    assert query.window_us == 300_000_000
    assert len(query.where) == max(1, len(pairs))


def test_the_example_query_works_for_a_single_type() -> None:
    assert parse(example_query(SyntheticSpec(0, types=1), "1 s")).event_types == ("A",)


# ------------------------------------------------------------------ refusals


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"events": -1}, "events must be at least 0"),
        ({"keys": 0}, "keys must be at least 1"),
        ({"seed": -1}, "seed must be at least 0"),
        ({"types": 0}, "types must be between 1 and"),
        ({"types": 10_001}, "types must be between 1 and"),
        ({"rate_per_s": 0.0}, "the rate must be a positive number"),
        ({"rate_per_s": math.nan}, "the rate must be a positive number"),
        ({"rate_per_s": 1e-15}, "raise the rate"),
        ({"zipf": -0.5}, "the Zipf exponent must be 0 or more"),
        ({"pairs": (PairSelectivity("A", "Q", 0.5),)}, "no event type 'Q'"),
        ({"pairs": (PairSelectivity("A", "B", 0.5), PairSelectivity("A", "B", 0.1))}, "two selectivities for"),
    ],
)
def test_impossible_traces_are_refused(spec: dict[str, object], message: str) -> None:
    with pytest.raises(TraceError, match=message):
        SyntheticSpec(**({"events": 10} | spec))  # type: ignore[arg-type]


@pytest.mark.parametrize("p", [0.0, -0.1, 1.1, math.nan])
def test_an_impossible_selectivity_is_refused(p: float) -> None:
    with pytest.raises(TraceError, match="must be above 0 and at most 1"):
        PairSelectivity("A", "B", p)
