"""`decopa.open_run`: rules that come and go, what they report, and what is refused."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import decopa
from actors.columnar.jit import interpreted
from decopa.errors import DecoPaError
from decopa.runs.streams.open_run import OpenRun, moment_us
from tests.support.engine import table_of

PAIRS = "QUERY pairs PATTERN SEQ(A a, B b) WITHIN 10 us"


@pytest.fixture(autouse=True)
def _interpreted() -> Iterator[None]:
    with interpreted():
        yield


def stream(text: str) -> Iterator[pa.RecordBatch]:
    """`A0 B3`: an A event at 0 us, then a B event at 3 us, one batch each; ids are the times."""
    for word in text.split():
        event = {"id": int(word[1:]), "ts": int(word[1:]), "type": word[0]}
        yield table_of([event]).combine_chunks().to_batches()[0]


def opened(text: str, rules: str = PAIRS, **options: Any) -> OpenRun:
    return decopa.open_run(rules, stream(text), **options)


def rows(table: pa.Table) -> list[tuple[Any, ...]]:
    """Name and version of a rule, and the ids of the match."""
    return [(row.pop("query"), row.pop("version"), *(row[a] for a in sorted(row) if len(a) == 1 and row[a] is not None))
            for row in table.to_pylist()]  # fmt: skip


def until(run: OpenRun, time_us: int) -> list[tuple[Any, ...]]:
    """Works on events up to a time; the matches until then."""
    found: list[tuple[Any, ...]] = []
    steps = iter(run)
    while (run.reached_us or 0) < time_us:
        found += rows(next(steps))
    return found


def test_a_rule_that_sees_the_window_finds_matches_that_began_before_it() -> None:
    with opened("A0 B1 A2 B3 B4") as run:
        assert until(run, 3) == [("pairs", 1, 0, 1), ("pairs", 1, 0, 3), ("pairs", 1, 2, 3)]
        version = run.add("QUERY more PATTERN SEQ(A a, B b) WITHIN 3 us")
        assert (version.number, version.from_us) == (1, 4)
        assert rows(run.to_end()) == [("pairs", 1, 0, 4), ("pairs", 1, 2, 4), ("more", 1, 2, 4)]


def test_a_rule_that_sees_new_events_only_begins_with_them() -> None:
    with opened("A0 B1 A2 B3") as run:
        until(run, 1)
        run.add("QUERY new PATTERN SEQ(A a, B b) WITHIN 10 us", sees="new")
        assert rows(run.to_end()) == [("pairs", 1, 0, 3), ("pairs", 1, 2, 3), ("new", 1, 2, 3)]


def test_a_rule_can_begin_and_end_at_a_time_of_the_stream() -> None:
    with opened("A0 B1 B2 B3 B4 B5") as run:
        run.remove("pairs", at=3)
        run.add("QUERY late PATTERN SEQ(A a, B b) WITHIN 10 us", at="4")
        assert rows(run.to_end()) == [("pairs", 1, 0, 1), ("pairs", 1, 0, 2), ("late", 1, 0, 4), ("late", 1, 0, 5)]


def test_a_removed_rule_still_reports_what_a_not_holds_back() -> None:
    with opened("A0 A1 C9 C11 C12", "QUERY calm PATTERN SEQ(A a, NOT(B b)) WITHIN 10 us") as run:
        steps = iter(run)
        run.remove("calm", at=1)
        assert [(one.name, one.ending) for one in run.queries()] == [("calm", True)]
        assert rows(next(steps)) == [("calm", 1, 0)]
        assert run.reached_us == 11 and run.queries() == ()
        assert run.to_end().num_rows == 0 and run.events == 5


def test_a_rule_replaced_by_itself_changes_nothing_but_its_version() -> None:
    with opened("A0 B1 B2 B3") as run:
        until(run, 2)
        version = run.replace("pairs", "PATTERN SEQ(A a, B b) WITHIN 10 us")
        assert (version.name, version.number) == ("pairs", 2)
        assert rows(run.to_end()) == [("pairs", 2, 0, 3)]


def test_a_rule_that_is_replaced_before_the_stream_begins_never_reports() -> None:
    with opened("A0 B1 C2") as run:
        assert run.replace("pairs", "PATTERN SEQ(A a, C c) WITHIN 10 us").number == 2
        assert rows(run.to_end()) == [("pairs", 2, 0, 2)]


def test_the_next_version_may_be_another_query() -> None:
    with opened("A0 B1 C2 C3") as run:
        until(run, 1)
        run.replace("pairs", "QUERY any PATTERN SEQ(A a, C c) WITHIN 10 us", at=3)
        assert rows(run.to_end()) == [("pairs", 2, 0, 3)]


def test_a_name_can_be_used_again() -> None:
    with opened("A0 B1 B2 B3 B4") as run:
        until(run, 1)
        run.remove("pairs")
        until_now = run.queries()
        assert until_now[0].until_us == 2
        assert run.add(PAIRS, at=4).number == 2
        assert rows(run.to_end()) == [("pairs", 2, 0, 4)]


def test_a_stored_trace_is_read_again_where_a_new_rule_looks_back() -> None:
    events = [{"id": n, "ts": n, "type": "AB"[n % 2]} for n in range(8)]
    with decopa.open_run(PAIRS, table_of(events), trace=decopa.TraceOptions(batch_size=2)) as run:
        next(iter(run))
        run.add("QUERY far PATTERN SEQ(A a, A b) WITHIN 100 us", at=6)
        found = [row for row in rows(run.to_end()) if row[0] == "far"]
    assert found == [("far", 1, 0, 6), ("far", 1, 2, 6), ("far", 1, 4, 6)]


def test_alternatives_that_find_the_same_match_report_it_once() -> None:
    text = "QUERY either PATTERN OR(SEQ(A a, B b), AND(A a, B b)) WITHIN 10 us"
    with opened("A0 B1 B2 B3") as run:
        until(run, 1)
        run.add(text)
        assert rows(run.to_end()) == [("pairs", 1, 0, 2), ("either", 1, 0, 2), ("pairs", 1, 0, 3), ("either", 1, 0, 3)]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda run: run.remove("pear"), "there is no rule 'pear'; did you mean 'pairs'?"),
        (lambda run: run.replace("pear", PAIRS), "there is no rule 'pear'; did you mean 'pairs'?"),
        (lambda run: run.add(PAIRS), "there is a rule 'pairs' already; replace it, or give the new one another name"),
        (lambda run: run.add("QUERY x PATTERN SEQ(A a) WHERE a.z > 1 WITHIN 5 us"), "z"),
        (lambda run: run.add("QUERY x PATTERN SEQ(A a"), "line 1"),
        (lambda run: run.add(f"{PAIRS}; QUERY y PATTERN SEQ(A a) WITHIN 1 us"), "a rule is one query"),
        (lambda run: run.add("QUERY x PATTERN SEQ(A a) WITHIN 5 us", sees="all"), "sees 'window' or 'new', not 'all'"),
        (lambda run: run.remove("pairs", at=1), "a change at 1 us comes too late, events up to 1 us"),
        (lambda run: run.add("QUERY x PATTERN SEQ(A a) WITHIN 5 us", at="noon"), "noon"),
        (lambda run: run.add("QUERY x PATTERN SEQ(A a) WITHIN 5 us RETURN count(*)"), "has aggregates, ORDER BY or"),
    ],
)  # fmt: skip
def test_a_change_that_cannot_be_made_leaves_the_run_as_it_was(call: Any, message: str) -> None:
    with opened("A0 B1 B2") as run:
        until(run, 1)
        before = run.queries()
        with pytest.raises(DecoPaError) as refused:
            call(run)
        assert message in str(refused.value) and "\n" not in str(refused.value)
        assert run.queries() == before
        assert rows(run.to_end()) == [("pairs", 1, 0, 2)]


def test_a_rule_that_needs_more_history_than_a_live_stream_has_kept_is_refused() -> None:
    with opened("A0 B1 A20 B21 A40 B41 B42", max_history_bytes=64) as run:
        until(run, 41)
        with pytest.raises(DecoPaError, match=r"needs the events of the last 99 us, and only those of 1 us are kept"):
            run.add("QUERY far PATTERN SEQ(A a, B b) WITHIN 100 us")
        run.add("QUERY far PATTERN SEQ(A a, B b) WITHIN 100 us", sees="new")
        assert rows(run.to_end()) == [("pairs", 1, 40, 42)]


def test_a_change_while_another_is_under_way_waits_and_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, told = threading.Event(), threading.Event()
    with opened("A0 B1 B2 A3 C4") as run:
        until(run, 1)
        switch = run._engine.switch

        def slow(*arguments: Any) -> None:
            begun.set()
            assert told.wait(5)
            switch(*arguments)

        monkeypatch.setattr(run._engine, "switch", slow)
        monkeypatch.setattr("decopa.runs.streams.open_run._LOG.warning", lambda *line: (told.set(), lines.append(line)))
        lines: list[tuple[Any, ...]] = []
        first = threading.Thread(target=run.add, args=("QUERY first PATTERN SEQ(A a, C c) WITHIN 5 us",))
        first.start()
        assert begun.wait(5)
        run.add("QUERY second PATTERN SEQ(B b, C c) WITHIN 5 us")
        first.join()
        assert lines == [("%s waits until %s is done", "adding rule 'second'", "adding rule 'first'")]
        assert [rule.name for rule in run.queries()] == ["pairs", "first", "second"]
        assert ("second", 1, 1, 4) in rows(run.to_end())


def test_times_of_changes_are_microseconds_text_or_datetimes() -> None:
    assert moment_us(5) == moment_us("5") == 5
    assert moment_us("1970-01-01T00:00:01") == 1_000_000
    with pytest.raises(DecoPaError, match="is no time"):
        moment_us(1.5)


def viewed(run: OpenRun) -> set[tuple[str, str]]:
    """Which rule takes matches of which one, by the keys of their parts."""
    return {(part.key, one.view.part) for part in run._parts for one in part.views if one.view is not None}


TRIPLES = "QUERY triples PATTERN SEQ(A a, B b, C c) WITHIN 10 us"


@pytest.mark.parametrize(
    ("running", "added"),
    [
        (TRIPLES, "SEQ(A x, B y, D z) WITHIN 8 us"),
        (TRIPLES, "SEQ(A x, B y, C z) WITHIN 10 us"),
        (PAIRS, "SEQ(A a, B b, NOT(E e), D d) WITHIN 9 us"),
        ("QUERY n PATTERN NEXT(A a, B b, C c) WITHIN 10 us", "NEXT(A x, B y, D z) WITHIN 8 us"),
    ],
)
def test_a_rule_takes_what_a_running_one_finds(running: str, added: str) -> None:
    text = "A0 B1 A2 C3 B4 D5 A6 B7 C8 D9 B10 C11 D12 D13 A14 B15 C16 D17 C18"
    with opened(text, running) as run:
        until(run, 6)
        began_us = run.reached_us
        run.add(f"QUERY more PATTERN {added}")
        assert len(viewed(run)) == 1
        found = rows(run.to_end())
    expected = []
    for rule in (running, f"QUERY more PATTERN {added}"):
        with opened(text, rule) as alone:
            expected += [row for row in rows(alone.to_end()) if row[-1] > began_us]
    assert sorted(found) == sorted(expected)
    assert {row[0] for row in found} == {row[0] for row in expected} > {"more"}


def test_what_a_rule_takes_stays_when_the_rule_that_finds_it_goes() -> None:
    with opened("A0 B1 A2 B3 C4 B5 C6 D7 D8", TRIPLES) as run:
        run.add("QUERY more PATTERN SEQ(A x, B y, D z) WITHIN 8 us")
        assert until(run, 4)
        run.remove("triples")
        found = rows(run.to_end())
        assert [one.name for one in run.queries()] == ["more"]
        assert {row[0] for row in found} == {"more"} and len(found) == 10
    with opened("A0 B1 A2 B3 C4 B5 C6 D7 D8", TRIPLES) as run:
        run.add("QUERY more PATTERN SEQ(A x, B y, D z) WITHIN 8 us")
        until(run, 4)
        run.remove("more")
        until(run, 6)
        assert not viewed(run)


@pytest.mark.parametrize(
    ("added", "sees"),
    [
        ("SEQ(A x, B y, D z) WITHIN 11 us", "window"),
        ("SEQ(B x, A y, D z) WITHIN 8 us", "window"),
        ("SEQ(A x, B y, D z) WITHIN 8 us", "new"),
        ("NEXT(A x, B y, D z) WITHIN 8 us", "window"),
    ],
)
def test_a_rule_is_built_by_itself_where_no_other_finds_all_of_it(added: str, sees: Any) -> None:
    with opened("A0 B1 C2", TRIPLES) as run:
        until(run, 2)
        run.add(f"QUERY more PATTERN {added}", sees=sees)
        assert not viewed(run)


def test_an_operator_that_looks_ahead_is_no_source() -> None:
    """It drops pairs that no C can complete, and another rule wants them."""
    ahead = "QUERY ahead PATTERN SEQ(A a, B b, C c) WHERE a.id + 0 = c.ts AND b.ts + 0 = c.ts WITHIN 10 us"
    with opened("A0 B1 C2", ahead) as run:
        run.add("QUERY more PATTERN SEQ(A x, B y, D z) WITHIN 8 us")
        assert not viewed(run)
