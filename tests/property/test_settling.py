"""After `settle` everything that follows from the events so far is at the sinks, whatever was sent before."""

from __future__ import annotations

import itertools
from collections import Counter
from random import Random
from typing import Any

import pytest
from hypothesis import assume, given, note, settings
from hypothesis import strategies as st

from actors.columnar.jit import interpreted
from decopa.language.text.parser import parse
from decopa.planning.plan import Plan
from decopa.planning.spread import spread_units
from decopa.planning.strategies.left_deep import left_deep
from shuffler.exchange import outbox
from shuffler.rows.columns import Place
from tests.property.test_matches import ATTRIBUTES
from tests.support.brute_force import brute_force, brute_force_by_window, canonical
from tests.support.engine import matches_of, table_of
from tests.support.examples import examples
from tests.support.plans import plans
from tests.support.restarting import RestartingStream, certain
from tests.support.simulation import SimulatedCluster
from tests.support.strategies import long_streams, queries, streams

#: DECOPA_EXAMPLES multiplies them: 10 makes 300.
SCHEDULES = 30

#: Two joins and a NOT on several units: rows pass through the outboxes of three processes.
QUERY = parse("PATTERN SEQ(A a, NOT(D d), B b, C c) WHERE a.k = b.k AND b.k = c.k AND d.k = a.k WITHIN 30 us")
PLAN = Plan((spread_units(left_deep(QUERY), 6),))
EVENTS = [{"id": n, "ts": n, "type": "ABCABCD"[n * 3 % 7], "k": n % 2} for n in range(60)]


def settles(seed: int) -> bool:
    """Feeds, flushes and settles at random; whether the sinks had what they should after every settle."""
    chaos, table = Random(seed), table_of(EVENTS)
    found: list[object] = []
    with interpreted():
        cluster = SimulatedCluster(PLAN, table, shufflers=chaos.choice((1, 2)), batch_size=4, chaos=chaos)
        fed = 0
        while fed < len(EVENTS):
            rows = chaos.randrange(1, 8)
            cluster.feed(table.slice(fed, rows).combine_chunks().to_batches()[0], Place("stream", fed))
            fed = min(fed + rows, len(EVENTS))
            if chaos.random() < 0.3:
                cluster.flush()  # a pause, after which there is nothing new to say
                cluster.deliver_some()
            if chaos.random() < 0.5:
                cluster.settle(EVENTS[fed - 1]["ts"])
                found += map(canonical, matches_of(QUERY, cluster.take()[0]))
                if sorted(found) != sorted(map(canonical, brute_force(QUERY, EVENTS[:fed]))):
                    return False
    return True


def test_what_follows_from_the_events_so_far_is_out_after_settle() -> None:
    assert all(settles(seed) for seed in range(20))


def test_an_outbox_that_owes_nobody_an_urgent_message_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulation can fail: rows stay behind if a watermark that was sent before is nothing to pass on."""
    monkeypatch.setattr(outbox.Outbox, "_owes", lambda self, target: False)
    assert not all(settles(seed) for seed in range(20))


def test_restarts_lose_nothing_and_repeat_nothing() -> None:
    """Micro-batches, flushes, settles, kills, restarts on other plans, and plans that change in between; `pytest -s`
    shows how much was tried."""
    tried: Counter[str] = Counter()

    @settings(max_examples=examples(SCHEDULES))
    @given(st.data())
    def schedule(data: st.DataObject) -> None:
        query = data.draw(queries(max_positions=4))
        events = data.draw(st.one_of(streams(query), long_streams(query, max_repeats=3)))
        assume(events)
        several = [data.draw(plans(query)) for _ in range(2)]
        allowed_us = data.draw(st.sampled_from((0, 0, 2, query.window_us)))
        chaos = Random(data.draw(st.integers(0, 2**16)))
        note(f"{query}")
        # The last event is long after all others, so that all their matches become certain.
        last = {"id": "end" if isinstance(events[0]["id"], str) else 10**6, "type": "Unrelated"}
        last["ts"] = events[-1]["ts"] + 10 * query.window_us + allowed_us
        arriving = _out_of_order([*events, last], allowed_us, chaos)
        with interpreted():
            stream = RestartingStream(
                query,
                table_of(arriving, ATTRIBUTES),
                lambda: chaos.choice(several),
                allowed_us=allowed_us,
                chaos=chaos,
            )
            for number, rows in enumerate(_cuts(len(arriving), chaos)):
                stream.batch(number, rows)
                in_time = [event for row, event in enumerate(arriving[: rows[-1] + 1]) if row not in stream.late]
                ordered = sorted(in_time, key=lambda event: event["ts"])
                found = sorted(map(canonical, stream.found()))
                assert stream.handed_us is not None
                assert found == certain(query, ordered, stream.handed_us)
        assert found == list(map(canonical, brute_force_by_window(query, ordered)))
        tried.update(schedules=1, restarts=stream.restarts, changes=stream.changes, given_up=stream.given_up)
        tried.update(matches=len(found), late=len(stream.late))

    schedule()
    print(", ".join(f"{count:,} {what}" for what, count in tried.items()))
    assert tried["schedules"] >= examples(SCHEDULES) // 2 and tried["restarts"] >= tried["schedules"] // 2
    assert tried["changes"] >= tried["schedules"] // 3 and tried["given_up"]
    assert tried["matches"]


def _out_of_order(events: list[dict[str, Any]], allowed_us: int, chaos: Random) -> list[dict[str, Any]]:
    """As they arrive: each up to the allowed lateness after its time, a few later still; the last one stays last."""
    delays = [chaos.randint(0, allowed_us) + (chaos.random() < 0.05) * 3 for _ in events[:-1]]
    order = sorted(range(len(delays)), key=lambda row: events[row]["ts"] + delays[row])
    return [*(events[row] for row in order), events[-1]]


def _cuts(rows: int, chaos: Random) -> list[list[int]]:
    """The rows in micro-batches."""
    cuts = sorted({0, rows, *(chaos.randrange(rows) for _ in range(chaos.randrange(6)))})
    return [list(range(start, end)) for start, end in itertools.pairwise(cuts)]
