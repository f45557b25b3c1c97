"""Parts of rules that come and go."""

from __future__ import annotations

import decopa
from cluster.change.rules.versions import BookChange, RuleBook, opening_plan, version_parts, wanted_parts
from decopa.planning.validate import check_structure
from decopa.planning.workload.packed import packed
from decopa.runs.preparation.planning import left_deep_plan

RULES = """QUERY one PATTERN SEQ(A a, B b, C c) WHERE a.k = b.k WITHIN 100 ms;
QUERY two PATTERN SEQ(A a, B b, D d) WHERE a.k = b.k WITHIN 100 ms"""


def test_a_fragment_goes_with_the_last_rule_that_takes_its_matches() -> None:
    queries = decopa.parse_workload(RULES)
    known = decopa.Statistics.of(100_000, dict.fromkeys("ABCD", 50.0), {("A", "B"): 0.001})
    book = RuleBook.of(queries)
    opening = opening_plan(decopa.plan(list(queries), known, units=2, strategy="shared"), book)
    plan = packed(opening.parts, 2)
    assert any(part.fragment for part in plan.parts), "these rules ought to share a pair"
    for name in ("one", "two"):
        book = BookChange("remove", name).made_in(book, 1_000)
    late = decopa.parse("QUERY late PATTERN SEQ(A a, C c) WITHIN 5 ms")
    after = BookChange("add", "late", late).made_in(book, 9_000_000)
    parts, _ = wanted_parts(
        plan, book, after, 9_000_000, lambda version: version_parts(version, left_deep_plan([version.query]))
    )
    assert parts is not None and [part.key for part in parts] == ["late@1"]
    check_structure(packed(parts, 2))
