"""Conditions between two members of a KL group: which they are, and what they mean."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import decopa
from decopa.language.text.parser import parse
from decopa.query.conditions.members import between_members
from tests.support.brute_force import brute_force

POINT = "b.lat, b.lon"


def condition(text: str) -> Any:
    return parse(f"PATTERN SEQ(A a, KL(B b)) WHERE {text} WITHIN 10 us").where[0]


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("b.x < b.x", "earlier.x < later.x"),
        ("b.x + 1 < b.y", "(earlier.x + 1) < later.y"),
        ("b.x - b.x < 3", "(earlier.x - later.x) < 3"),
        ("2 > abs(b.x - b.x)", "2 > abs((earlier.x - later.x))"),
        ("b.x / b.x < 3", "(earlier.x / later.x) < 3"),
        ("b.x - b.x < b.y - b.y", "(earlier.x - later.x) < (earlier.y - later.y)"),
        (f"dist_km({POINT}, {POINT}) >= 4", "dist_km(earlier.lat, earlier.lon, later.lat, later.lon) >= 4"),
    ],
)
def test_an_alias_on_both_sides_or_taken_from_itself_compares_two_members(text: str, meant: str) -> None:
    assert str(between_members(condition(text), "b")) == meant


@pytest.mark.parametrize(
    "text", ["b.x - b.y < 3", "b.x * b.x < 9", "b.x + b.x < 9", "dist_km(b.lat, b.lon, b.lat, b.x) > 1", "b.x < 3"]
)
def test_other_conditions_are_about_each_member_alone(text: str) -> None:
    assert between_members(condition(text), "b") is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"dist_km({POINT}, {POINT}) < b.radius", "it is not clear whose value"),
        ("(b.x - b.x) * b.y > 1", "it is not clear whose value"),
        ("b.x - b.x < a.x", "condition of its own with no other event"),
        (f"NOT dist_km({POINT}, {POINT}) < 4", "condition of its own with no other event"),
        ("b.x - b.x IN (1, 2)", "condition of its own with no other event"),
    ],
)
def test_a_mixed_condition_is_refused(text: str, message: str) -> None:
    with pytest.raises(decopa.QueryError, match=message):
        condition(text)


def test_a_distance_within_a_group_holds_for_every_two_members() -> None:
    places = [(0.0, 0.0), (0.0, 1.0), (0.0, 1.01), (1.0, 0.0)]
    events = [{"id": 0, "ts": 0, "type": "A", "lat": 0.0, "lon": 0.0}]
    events += [
        {"id": number, "ts": number, "type": "B", "lat": lat, "lon": lon}
        for number, (lat, lon) in enumerate(places, start=1)
    ]
    query = parse(f"PATTERN SEQ(A a, KL(B b)) WHERE dist_km({POINT}, {POINT}) >= 50 WITHIN 10 us")
    found = decopa.run(query, pa.Table.from_pylist(events)).column("b").to_pylist()
    assert sorted(found) == sorted(list(match["b"]) for match in brute_force(query, events))
    assert [2, 3] not in found and [1, 2, 4] in found
