"""NEXT over events that are not split: what it finds, counts and holds is what the steps would by themselves."""

from __future__ import annotations

from random import Random

import pytest

import actors.group
from actors.columnar.jit import interpreted
from actors.host import PartsHost
from actors.operators.succession_scan import EventScan
from cluster.pipeline import Pipeline
from decopa.language.text.parser import parse
from decopa.planning.plan import Plan
from decopa.planning.strategies.left_deep import left_deep
from shuffler.rows.events import EventBatch
from shuffler.source.trace import TraceSource, open_trace
from tests.support.engine import table_of

CHAINS = ["NEXT(A a, B b)", "NEXT(A a, B b, C c)", "NEXT(A a, A b, (A|B) c)", "NEXT(C c, * e, A a, B b)"]


def stream(seed: int, *, ties: bool, events: int = 60) -> TraceSource:
    """Now and then C stays away for a while, so that much is open."""
    chance, ts, rows = Random(seed), 0, []
    for number in range(events):
        ts += chance.choice((0, 1, 2) if ties else (1, 2, 3))
        types = "AB" if number % 30 > 18 else "ABCD"
        rows.append({"id": number, "ts": ts, "type": chance.choice(types), "x": chance.randrange(5)})
    return open_trace(table_of(rows, {"x": int}))


def pipeline(text: str, source: TraceSource) -> Pipeline:
    query = parse(f"PATTERN {text} WITHIN 15 us RETURN {text.split('(')[1].split(',')[0][-1]}.x")
    return Pipeline(Plan((left_deep(query),)), source.format, source.strings)


def scan_in(one: Pipeline) -> EventScan:
    host: PartsHost = one._host
    scan = host.groups[0, 0].scan
    assert scan is not None
    return scan


def batches(one: Pipeline, source: TraceSource, size: int) -> list[EventBatch]:
    return list(source.batches(one.attributes, size))


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("text", CHAINS)
def test_events_that_are_not_split_give_the_same_matches_and_counts(
    text: str, ties: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, counted, read = [], [], 0
    for unsplit in (True, False):
        if not unsplit:
            monkeypatch.setattr(actors.group, "scan_of", lambda *_: None)
        for seed in range(5):
            for size in (4, 9, 25):
                source = stream(seed, ties=ties)
                with interpreted():
                    one = pipeline(text, source)
                    for events in batches(one, source, size):
                        one.feed(events)
                        read += unsplit and scan_in(one).active
                    one.finish()
                found.append(one.take()[0].to_pylist())
                counted.append((one.counts, [(r.ingested, r.comparisons, r.emitted) for r in one.reports()]))
    half = len(found) // 2
    assert sum(map(len, found)) > 100
    assert read > (10 if ties else 50), "events were split nearly always, so this shows nothing"
    assert found[:half] == found[half:]
    assert counted[:half] == counted[half:]


@pytest.mark.parametrize("seed", range(4))
def test_a_run_goes_on_from_what_was_open(seed: int) -> None:
    source, text = stream(seed, ties=False), CHAINS[1]
    with interpreted():
        whole = pipeline(text, source)
        for events in batches(whole, source, 10):
            whole.feed(events)
        whole.finish()
        one, tables = pipeline(text, source), []
        for events in batches(one, source, 10):
            one.feed(events)
            assert one.reports()[-1].state_bytes > 0
            tables += one.take()[0].to_pylist()
            state = one.snapshot()
            one = pipeline(text, source)
            one.restore(state)
        one.finish()
        tables += one.take()[0].to_pylist()
    assert sorted(tables, key=str) == sorted(whole.take()[0].to_pylist(), key=str)


def test_a_filter_or_a_deciding_condition_has_events_split() -> None:
    source = stream(1, ties=False)
    for text in ("NEXT(A a, B b) WHERE a.x > 1", "NEXT(A a, B b) WHERE FILTER(b.x = a.x)", "SEQ(A a, B b)"):
        query = parse(f"PATTERN {text} WITHIN 15 us")
        host: PartsHost = Pipeline(Plan((left_deep(query),)), source.format, source.strings)._host
        assert not host.unsplit_parts
