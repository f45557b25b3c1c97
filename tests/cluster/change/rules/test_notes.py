"""What checkpoints say of rules: it comes back as it was, and what is none is refused with one line."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from cluster.change.rules.notes import KeptRules, KeptState, RuleNotes
from cluster.change.rules.versions import BookChange, RuleBook
from decopa.errors import CheckpointError
from decopa.language.text.parser import parse

QUERIES = [
    parse("QUERY pairs PATTERN SEQ(A a, KL(B b), NOT(C c)) WHERE a.k = b.k WITHIN 5 ms RETURN a.s"),
    parse("QUERY either PATTERN OR(SEQ(A a, B b), NEXT(B b, A a)) WITHIN 1 s"),
]


def book() -> RuleBook:
    """Three versions of one rule, one of them over, and another rule that sees new events only."""
    found = RuleBook.of(QUERIES[:1])
    for change, at_us in (
        (BookChange("replace", "pairs", QUERIES[1]), 10),
        (BookChange("remove", "pairs"), 20),
        (BookChange("add", "pairs", QUERIES[0]), 20),
        (BookChange("add", "either", QUERIES[1], sees="new"), -5),
    ):
        found = change.made_in(found, at_us)
    return found


def test_rules_come_back_from_a_checkpoint_as_they_were() -> None:
    kept = KeptState(KeptRules(book(), 4, 9, "either@1", 25), {"pairs@1": 3, "pairs@2": 0})
    assert KeptState.from_extra(json.loads(json.dumps(kept.to_extra())), "here") == kept
    assert [(one.key, one.from_us, one.until_us, one.sees) for one in kept.rules.book.versions] == [
        ("pairs@1", None, 10, "window"),
        ("pairs@2", 10, 20, "window"),
        ("pairs@3", 20, None, "window"),
        ("either@1", -5, None, "new"),
    ]
    assert kept.rules.last_version == kept.rules.book.versions[-1]
    assert KeptState.from_extra(KeptState(KeptRules(RuleBook())).to_extra(), "here").rules.last_version is None


def test_notes_count_what_a_checkpoint_publishes_also_if_it_has_to_be_written_again() -> None:
    counts: dict[str, int] = {"pairs@1": 2}
    told: list[object] = []
    notes = RuleNotes(KeptRules(book(), 4), lambda: counts, lambda: 17, lambda *what: told.append(what))
    taken = notes.taken()
    notes.rules = KeptRules(RuleBook())  # changed behind the barrier
    matches = pa.table(
        {
            "query": pa.array(["pairs", "pairs", "either"]).dictionary_encode(),
            "version": pa.array([1, 3, 1], pa.int32()),
        }
    )
    first = notes.with_matches(taken, matches)
    assert notes.with_matches(taken, matches) == first
    notes.kept(first)
    assert told == [(4, {"pairs@1": 3, "pairs@3": 1, "either@1": 1})]
    kept = KeptState.from_extra(first, "here")
    assert kept.rules.book == book() and kept.rules.reached_us == 17


@pytest.mark.parametrize(
    ("found", "message"),
    [
        ({}, "checkpoint 7 has no rules: it belongs to a run without --rules"),
        ({"rules": []}, "checkpoint 7: rules: must be an object"),
        ({"rules": {"versions": []}}, "'changes' is missing"),
        ({"rules": {"versions": [{"query": "PATTERN SEQ(A a) WITHIN 1 s"}]}}, "'changes' is missing"),
        (
            {"rules": {"versions": [{"query": "x", "number": 1, "sees": "old"}], "changes": 0, "number": 0}},
            "'matches' is missing",
        ),
        (
            {
                "rules": {
                    "versions": [{"query": "PATTERN SEQ(A a, B b) WITHIN 1 s", "number": 1, "sees": "all"}],
                    "changes": 0,
                    "number": 0,
                    "matches": {},
                }
            },
            "a rule sees window or new, not 'all'",
        ),
        ({"rules": {"versions": [], "changes": 0, "number": 0, "matches": {"a@1": "x"}}}, "'matches' must be numbers"),
    ],
)
def test_what_is_no_book_of_rules_is_refused(found: dict[str, Any], message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        KeptState.from_extra(found, "checkpoint 7")
