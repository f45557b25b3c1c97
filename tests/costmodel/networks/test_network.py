"""Networks as data: what they refuse, what they say about rates, and JSON both ways."""

from __future__ import annotations

import json
import math

import pytest

from costmodel.networks.network import EventSourcedNetwork, Link
from costmodel.networks.network_file import MeasuredNetwork, from_json, to_json
from costmodel.networks.transmission import ProjectionRates, naive_cost
from costmodel.statistics import Statistics
from decopa.errors import StatisticsError
from decopa.language.text.parser import parse

WINDOW_US = 60_000_000
NETWORK = EventSourcedNetwork(
    WINDOW_US,
    {"n0": {"A": 10.0, "B": 2.0}, "n1": {"A": 30.0}, "n2": {}},
    (Link("n0", "n1", cost=3.0, bytes_per_s=1e6, latency_ms=20.0),),
    {"n1": 4},
)


def test_a_network_is_read_back_from_its_json() -> None:
    measured = MeasuredNetwork(
        NETWORK, (Statistics.of(WINDOW_US, {"A": 1.0}, {("A", "B"): 0.5}),), {("A", "B"): 0.25, ("B", "A"): 1.0}
    )
    assert from_json(to_json(measured)) == measured
    assert from_json(to_json(MeasuredNetwork(NETWORK))) == MeasuredNetwork(NETWORK)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"nodes": {"n0": {"rates": {"A": -1}}}}, "the rate of 'A' at node 'n0'.*above 0.*got -1"),
        ({"links": [{"from": "n0", "to": "n9"}]}, "leads to no node: there is no 'n9'"),
        ({"links": [{"from": "n0", "to": "n0"}]}, "leads nowhere"),
        ({"links": [{"from": "n0", "to": "n1", "cost": -2}]}, "'cost' must be 0 or more, got -2"),
        ({"links": [{"from": "n0", "to": "n1", "bytes_per_s": 0}]}, "'bytes_per_s' must be positive"),
        ({"nodes": {}}, "has 0 nodes"),
        ({"nodes": {"n0": {"rates": {"A": "x"}}}}, "'A' must be a number, got a text"),
        ({"window_us": 0}, "window.*must be positive"),
        ({"partners": [{"types": ["A"], "share": 0.5}]}, "'types' must be two names"),
        ({"partners": [{"types": ["A", "B"], "share": 1.5}]}, "must be between 0 and 1"),
        ({"nodez": {}}, "unknown field 'nodez'; did you mean 'nodes'"),
    ],
)
def test_a_wrong_network_file_is_refused_in_one_line(change: dict[str, object], message: str) -> None:
    small = EventSourcedNetwork(WINDOW_US, {"n0": {"A": 1.0}, "n1": {"A": 1.0}})
    document = json.loads(to_json(MeasuredNetwork(small))) | change
    with pytest.raises(StatisticsError, match=message) as caught:
        from_json(json.dumps(document))
    assert "\n" not in str(caught.value)


def test_a_type_that_no_node_produces_is_named() -> None:
    with pytest.raises(StatisticsError, match="no node of the network produces event type 'C', which query 'q' needs"):
        NETWORK.check_fits(parse("PATTERN SEQ(A a, C c) WITHIN 1 min"))


def test_rates_are_per_window_of_the_network_whatever_the_window_of_the_query() -> None:
    """Twice the window finds twice the pairs in the same time."""
    statistics = Statistics.of(WINDOW_US, {}, {("A", "B"): 0.5})
    short, long = (
        ProjectionRates(parse(f"PATTERN SEQ(A a, B b) WITHIN {minutes} min"), NETWORK, statistics) for minutes in (1, 2)
    )
    assert long.total("ab") == pytest.approx(2 * short.total("ab"))
    assert long.total("a") == short.total("a") == 40
    again = ProjectionRates(short.query, NETWORK.rescaled(2 * WINDOW_US), statistics)
    assert again.total("ab") == pytest.approx(2 * short.total("ab"))


def test_the_rate_over_a_cover_is_the_rate_per_binding_times_its_bindings() -> None:
    query = parse("PATTERN SEQ(A a, B b) WITHIN 1 min")
    network = EventSourcedNetwork.of(WINDOW_US, {"A": "012", "B": "12"}, {"A": 5.0, "B": 2.0})
    rates = ProjectionRates(query, network, Statistics.of(WINDOW_US, {}, {("A", "B"): 0.1}))
    assert rates.per_binding("ab") == pytest.approx(1.0)
    assert rates.total("ab") == pytest.approx(6.0)
    assert rates.over("ab", {"a": "01"}) == pytest.approx(4.0)
    assert rates.over("ab", {"a": "0", "b": "1"}) == pytest.approx(1.0)


def test_rates_may_differ_between_nodes() -> None:
    query = parse("PATTERN SEQ(A a, B b) WITHIN 1 min")
    rates = ProjectionRates(query, NETWORK, Statistics.of(WINDOW_US, {}, {("A", "B"): 0.5}))
    assert rates.total("ab") == pytest.approx(0.5 * 40 * 2)
    assert rates.over("ab", {"a": ("n1",)}) == pytest.approx(0.5 * 30 * 2)


def test_implied_equalities_count_one_less_than_the_events_of_a_key() -> None:
    query = parse("PATTERN AND(A a, B b, C c) WHERE a.k = b.k AND b.k = c.k WITHIN 1 min")
    network = EventSourcedNetwork.of(WINDOW_US, dict.fromkeys("ABC", "0"), dict.fromkeys("ABC", 10.0))
    statistics = Statistics.of(WINDOW_US, {}, {("A", "B"): 0.05, ("B", "C"): 0.05})
    plain = ProjectionRates(query, network, statistics)
    implied = ProjectionRates(query, network, statistics, implied=True)
    assert plain.total("ac") == pytest.approx(200)
    assert implied.total("ac") == pytest.approx(10)
    assert plain.total("abc") == implied.total("abc") == pytest.approx(3 * 1000 * 0.0025)


def test_negated_positions_do_not_multiply_bindings_or_rates() -> None:
    query = parse("PATTERN SEQ(A a, NOT(B b), C c) WITHIN 1 min")
    network = EventSourcedNetwork.of(WINDOW_US, dict.fromkeys("ABC", "01"), dict.fromkeys("ABC", 3.0))
    rates = ProjectionRates(query, network, Statistics.of(WINDOW_US, {}, {}))
    assert rates.bindings("abc") == 4
    assert rates.total("abc") == pytest.approx(36)


def test_the_naive_node_is_the_one_that_already_has_most() -> None:
    assert naive_cost(NETWORK, "AB") == ("n0", pytest.approx(30.0))  # the way to n1 costs three times as much
    assert math.isclose(NETWORK.total_rate("A"), 40)
