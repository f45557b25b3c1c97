"""Rules come and go at any moment: every version reports exactly what its life and the stream say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

import decopa
from actors.columnar.jit import interpreted
from cluster.change.rules.versions import Version
from decopa.query.query import Query
from decopa.runs.spec import TraceOptions
from decopa.runs.streams.open_run import OpenRun
from shuffler.rows.events import EventBatch
from tests.property.test_matches import ATTRIBUTES
from tests.support.brute_force import brute_force, canonical
from tests.support.chains import plain_chains
from tests.support.changing import nested_nots
from tests.support.engine import matches_of, table_of
from tests.support.examples import examples
from tests.support.strategies import queries, workload_streams

#: In the plain run; the slow test makes ten times as many.
SCHEDULES = 50


def expected(version: Version, events: Sequence[dict[str, Any]]) -> list[object]:
    """What a version reports, by definition."""
    seen = events
    if version.sees == "new" and version.from_us is not None:
        seen = [event for event in events if event["ts"] >= version.from_us]
    times = {event["id"]: event["ts"] for event in events}
    found = []
    for match in brute_force(version.query, seen):
        end_us = max(times[one] for group in match.values() for one in group)
        begun = version.from_us is None or end_us >= version.from_us
        if begun and (version.until_us is None or end_us < version.until_us):
            found.append(canonical(match))
    return found


def reported(version: Version, matches: pa.Table) -> list[object]:
    rows = matches.filter(
        pa.compute.and_(
            pa.compute.equal(matches["query"], version.name), pa.compute.equal(matches["version"], version.number)
        )
    )
    kleene = version.query.kleene_aliases  # one column for all queries: single events are lists where others have KL
    found = []
    for match in matches_of(version.query, rows) if rows.num_rows else []:
        found.append(canonical({alias: group for alias, group in match.items() if group or alias in kleene}))
    return sorted(found)


def change(run: OpenRun, rules: list[Query], chaos: Random) -> str:
    """One change, drawn at random; returns what it was."""
    later = None if run.reached_us is None or chaos.random() < 0.7 else run.reached_us + chaos.choice((1, 2, 5, 9))
    current = [one.name for one in run.queries() if not one.ending]
    kind = chaos.choice(("add", "remove", "replace"))
    query, sees = chaos.choice(rules), chaos.choice(("window", "window", "new"))
    if kind == "add":
        query = replace(query, name=f"q{len(run._book.versions) + 10}")
        version = run.add(query, at=later, sees=sees)  # type: ignore[arg-type]
        if any(part.views for part in run._parts if part.key in version.keys):
            return "add, from what runs"
    elif not current:
        return "nothing"
    else:
        name = chaos.choice(current)
        begins_us, at_us = run._book.find(name).from_us, run._moment(later)
        if begins_us is not None and (at_us is None or at_us <= begins_us):
            with pytest.raises(decopa.DecoPaError, match="begins at"):
                run.remove(name, at=later)
            return "refused"
        if kind == "remove":
            run.remove(name, at=later)
        else:
            run.replace(name, query, at=later, sees=sees)  # type: ignore[arg-type]
    return kind


def check_schedules(count: int) -> Counter[str]:
    tried: Counter[str] = Counter()

    @settings(max_examples=count)
    @given(st.data())
    def schedule(data: st.DataObject) -> None:
        kinds = st.one_of(queries(max_positions=3), nested_nots(), plain_chains(max_positions=3))
        rules = [replace(data.draw(kinds), name=f"q{place}") for place in range(3)]
        events = data.draw(workload_streams(rules, max_events=14))
        chaos = Random(data.draw(st.integers(0, 2**16)))
        note("\n".join(map(str, rules)))
        table = table_of(events, ATTRIBUTES)
        live = chaos.random() < 0.5
        stream: Any = iter(_pieces(table, chaos)) if live else table
        size = None if live else chaos.choice((1, 2, 5))
        with interpreted():
            opened = decopa.open_run(
                rules[:2],
                stream,
                strategy="left-deep",
                trace=TraceOptions(batch_size=size),
                keep_history_us=10**6,
            )
            done: list[str] = []
            found = list(with_changes(opened, lambda run: done.append(change(run, rules, chaos)), chaos))
        for version in opened._book.versions:
            mine = sorted(one for table in found for one in reported(version, table))
            assert mine == expected(version, events), f"{version} after {done}"
        tried.update(schedules=1, changes=len(done), matches=sum(table.num_rows for table in found))
        tried.update(one for one in done if one == "add, from what runs")

    schedule()
    print(", ".join(f"{number:,} {what}" for what, number in tried.items()))
    return tried


def with_changes(run: OpenRun, act: Callable[[OpenRun], None], chaos: Random) -> Iterator[pa.Table]:
    """The matches of a run, with changes between its batches, as another thread would make them."""
    feed = run._engine.feed

    def fed(batch: EventBatch) -> None:
        while chaos.random() < 0.5:
            act(run)
        feed(batch)

    run._engine.feed = fed  # type: ignore[method-assign]
    yield from run


def _pieces(table: pa.Table, chaos: Random) -> Iterator[pa.RecordBatch]:
    done = 0
    yield pa.RecordBatch.from_pylist([], schema=table.schema)  # shows the columns, even of a stream without events
    while done < table.num_rows:
        rows = chaos.choice((1, 2, 5))
        yield table.slice(done, rows).combine_chunks().to_batches()[0]
        done += rows


def test_every_version_reports_what_its_life_says() -> None:
    """Says how much was tried: `pytest -s` shows it."""
    tried = check_schedules(examples(SCHEDULES))
    assert tried["changes"] > tried["schedules"] // 2 and tried["matches"] and tried["add, from what runs"]


@pytest.mark.slow
def test_five_hundred_schedules_of_changes_are_exact() -> None:
    check_schedules(examples(10 * SCHEDULES))
