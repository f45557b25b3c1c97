"""The NEXT CEP paper's streams through the engine, under every shape of plan that is exact."""

from __future__ import annotations

import itertools
from typing import Any

import pyarrow as pa
import pytest

import decopa
from actors.columnar.jit import interpreted
from decopa.planning.plan import Plan
from decopa.runs.spec import Planning, TraceOptions
from shuffler.rows.events import TraceColumns
from tests.decopa.language.test_next import LEFT, OVERLAP, RIGHT, shaped
from tests.support.shared import needs_golden, nextcep_entries


def entry(entry_id: str) -> dict[str, Any]:
    return next(one for one in nextcep_entries() if one["id"] == entry_id)


def payments(given: dict[str, Any]) -> pa.Table:
    names, accounts, times, amounts = zip(*given["events"], strict=True)
    return pa.table({"id": names, "account": accounts, "ts": times, "amount": amounts, "type": ["T"] * len(names)})


def fraud_query(given: dict[str, Any]) -> str:
    """Directly consecutive payments of one account: the account skips, the amounts decide."""
    conditions = [f"{alias}.amount {op} {limit}" for alias, (op, limit) in zip("abc", given["conditions"], strict=True)]
    within = given.get("within", 1_000)
    return (
        "PATTERN NEXT(T a, T b, T c) WHERE FILTER(b.account = a.account) AND FILTER(c.account = b.account) AND "
        f"{' AND '.join(conditions)} WITHIN {within} us"
    )


def found(text: str, table: pa.Table, *, plan: Plan | None = None, end: str | None = None) -> list[list[Any]]:
    planning = Planning(plan=plan, strategy="left-deep")
    with interpreted():
        rows = decopa.run(text, table, planning=planning, trace=TraceOptions(TraceColumns(end=end))).to_pylist()
    return sorted([row["a"], row["b"], row["c"]] for row in rows)


@needs_golden
@pytest.mark.parametrize("name", ["nextcep-fraud-small-large", "nextcep-fraud-three"])
def test_the_fraud_queries_find_the_payments_of_the_paper(name: str) -> None:
    given, text = entry(name)["inputs"], fraud_query(entry(name)["inputs"])
    expected = sorted(entry(name)["expected"])
    assert found(text, payments(given)) == expected
    for shape in (LEFT, OVERLAP):
        plan = Plan((shaped(text, shape, "a", "ab"),))
        assert found(text, payments(given), plan=plan) == expected
    keyed = Plan((shaped(text, LEFT, "a", "b", "ab", "c"),))
    assert found(text, payments(given), plan=keyed) == expected


@needs_golden
def test_any_match_finds_20_all_conditions_as_filter_4_and_as_written_2() -> None:
    given = entry("nextcep-fraud-three")["inputs"]
    conditions = [f"{alias}.amount > 1000" for alias in "abc"]
    same = ["b.account = a.account", "c.account = b.account"]
    any_match = f"PATTERN SEQ(T a, T b, T c) WHERE {' AND '.join(same + conditions)} WITHIN 1 s"
    skipping = f"PATTERN SEQ(T a, T b, T c) STRATEGY next WHERE {' AND '.join(same + conditions)} WITHIN 1 s"
    counts = [len(found(text, payments(given))) for text in (any_match, skipping, fraud_query(given))]
    assert counts == [20, 4, 2]


@needs_golden
@pytest.mark.parametrize("name", ["nextcep-fig1-right", "nextcep-assoc-left"])
def test_streams_of_events_that_last_under_every_shape(name: str) -> None:
    given = entry(name)["inputs"]["streams"]
    rows = [(kind, start, end) for kind, events in given.items() for start, end in events]
    types, starts, ends = zip(*rows, strict=True)
    table = pa.table({"id": range(len(rows)), "ts": starts, "over": ends, "type": types})
    text = "PATTERN NEXT(E1 a, E2 b, E3 c) WITHIN 1 s"
    for shape, dealt in itertools.product((LEFT, RIGHT, OVERLAP), ((), ("a", "ab"))):
        plan = Plan((shaped(text, shape, *dealt),))
        matches = found(text, table, plan=plan, end="over")
        assert sorted([time for one in match for time in rows[one][1:]] for match in matches) == entry(name)["expected"]
    seq = found(text.replace("NEXT", "SEQ"), table, end="over")
    assert len(seq) == {"nextcep-fig1-right": 3, "nextcep-assoc-left": 22}[name]


def test_a_union_of_six_types_takes_each_event_in_once() -> None:
    types = [kind for kind in "ABCDEFG" for _ in range(5)]
    table = pa.table({"id": range(35), "ts": [7 * (place % 5) + place // 5 for place in range(35)], "type": types})
    with interpreted():
        result = decopa.run_detailed(
            "PATTERN NEXT(A a, (B|C|D|E|F|G) x) WITHIN 1 s", table, planning=Planning(strategy="left-deep")
        )
    (succession,) = [report for report in result.operators if report.ingested]
    assert succession.ingested == 35
    assert result.matches.num_rows == 5
