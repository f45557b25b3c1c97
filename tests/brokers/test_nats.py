"""Streams of a real NATS server, which dies and comes back."""

from __future__ import annotations

import itertools
import logging
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from decopa.errors import TraceError
from shuffler.source.dead_letters import BadRows
from shuffler.source.live.position import Position
from shuffler.source.trace import open_trace
from tests.support.brokers import NatsServer, event, nats_server, rows_of

SCHEMA = "schema=id%3Dint,ts%3Dint,type%3Dstring,x%3Dfloat"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    with nats_server(tmp_path_factory.mktemp("nats")) as one:
        yield one


def address(server: NatsServer, stream: str, options: str = "until=end") -> str:
    return f"nats://{server.servers}/{stream}?{options}"


def test_a_stream_is_read_in_sequence_and_from_any_position(server: NatsServer) -> None:
    server.make_stream("READ")
    server.send("READ", [event(number) for number in range(3_000)])
    source = open_trace(address(server, "READ"))
    blocks = [block for block in source.arrivals(["x"], 1_000) if block is not None]
    assert [row["id"] for row in rows_of(iter(blocks))] == list(range(3_000))
    position = blocks[0].position
    assert position is not None
    rest = rows_of(open_trace(address(server, "READ")).arrivals(["x"], 1_000, position.encode()))
    assert [row["id"] for row in rest] == list(range(blocks[0].rows.num_rows, 3_000))


def test_only_the_subject_that_is_wanted_is_read(server: NatsServer) -> None:
    server.make_stream("MIXED")
    for number in range(6):
        server.send("MIXED", [event(number)], subject="even" if number % 2 == 0 else "odd")
    source = open_trace(address(server, "MIXED", "until=end&subject=MIXED.even"))
    assert [row["id"] for row in rows_of(source.arrivals([], 10))] == [0, 2, 4]


def test_bad_payloads_are_put_aside_with_their_sequence(server: NatsServer, tmp_path: Path) -> None:
    server.make_stream("BAD")
    server.send("BAD", [event(0), b"no json", event(2)])
    letters = tmp_path / "bad.jsonl"
    source = open_trace(address(server, "BAD", f"until=end&{SCHEMA}"), bad_rows=BadRows("divert", letters))
    assert [row["id"] for row in rows_of(source.arrivals([], 10))] == [0, 2]
    assert '"offset": 2, "reason": "JSON parse error' in letters.read_text()


def test_what_is_not_there_is_named(server: NatsServer) -> None:
    server.make_stream("ORDERS")
    with pytest.raises(
        TraceError, match=f"the NATS server at {server.servers} has no stream 'ORDER'; did you mean 'ORDERS'"
    ):
        open_trace(address(server, "ORDER"))
    with pytest.raises(TraceError, match=r"no NATS server answers at 127\.0\.0\.1:1: .*check the address"):
        open_trace("nats://127.0.0.1:1/ORDERS")


def test_sequences_that_are_gone_are_named(server: NatsServer, caplog: pytest.LogCaptureFixture) -> None:
    server.make_stream("SHORT", max_msgs=5)
    server.send("SHORT", [event(number) for number in range(20)])
    saved = Position("nats:SHORT", {"": 3}).encode()
    with pytest.raises(
        TraceError, match="sequence 3 is gone: the server has removed all before 16, so 13 events are lost"
    ):
        rows_of(open_trace(address(server, "SHORT")).arrivals([], 10, saved))
    with caplog.at_level(logging.WARNING, "decopa"):
        found = rows_of(open_trace(address(server, "SHORT", "until=end&gaps=skip")).arrivals([], 10, saved))
    assert [row["id"] for row in found] == list(range(15, 20))
    assert "events are lost" in caplog.text


@pytest.mark.slow
def test_a_server_that_dies_and_comes_back_loses_and_repeats_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with nats_server(tmp_path) as server, caplog.at_level(logging.WARNING, "decopa"):
        server.make_stream("DIES")
        server.send("DIES", [event(number) for number in range(1_000)])
        source = open_trace(address(server, "DIES", SCHEMA))
        arriving = source.arrivals([], 100)
        found = rows_of(itertools.islice(arriving, 3))
        for life in range(3):
            server.kill()
            found += rows_of(itertools.islice(arriving, 5))
            server.start()
            server.send("DIES", [event(number) for number in range(1_000 + 100 * life, 1_100 + 100 * life)])
            while len(found) < 1_100 + 100 * life:
                found += rows_of(itertools.islice(arriving, 1))
        arriving.close()  # type: ignore[attr-defined]  # it is a generator
    assert [row["id"] for row in found] == list(range(1_300))
    assert "the server does not answer" in caplog.text and "the server is back" in caplog.text


def test_without_the_client_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nats", None)
    with pytest.raises(TraceError, match=r"pip install 'decopa\[nats\]'"):
        open_trace("nats://127.0.0.1:1/ORDERS")
