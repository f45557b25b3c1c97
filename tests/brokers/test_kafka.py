"""Topics of a broker that speaks Kafka's protocol on loopback."""

from __future__ import annotations

import itertools
import json
import logging
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from decopa.errors import TraceError
from shuffler.source.dead_letters import BadRows
from shuffler.source.lateness import Lateness
from shuffler.source.live.position import Position
from shuffler.source.trace import TraceSource, open_trace
from tests.support.brokers import KafkaBroker, event, rows_of, stream_payload

SCHEMA = "schema=id%3Dint,ts%3Dint,type%3Dstring,x%3Dfloat"
_topics = (f"topic-{number}" for number in itertools.count())


@pytest.fixture(scope="module")
def broker() -> KafkaBroker:
    return KafkaBroker()


@pytest.fixture
def topic() -> str:
    return next(_topics)


def opened(broker: KafkaBroker, topic: str, options: str = "until=end&idle=never", **settings: object) -> TraceSource:
    return open_trace(broker.address(topic, options), **settings)  # type: ignore[arg-type]


def test_partitions_become_one_stream_in_time_order(broker: KafkaBroker, topic: str) -> None:
    for partition in range(4):
        broker.send(topic, [event(number) for number in range(partition, 2_000, 4)], partition)
    source = opened(broker, topic)
    found = rows_of(source.arrivals(["x"], 500))
    assert [row["id"] for row in found] == list(range(2_000))
    assert found[7] == {"ts": 7, "id": 7, "type": "A", "x": 3.5}


def test_a_partition_far_ahead_of_one_that_has_ended_is_read_on(
    broker: KafkaBroker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shuffler.source.live.merging.MANY_ROWS", 10)
    monkeypatch.setattr("shuffler.source.live.kafka._MOST_RECORDS", 20)
    broker.send(topic, [event(0)], 0)
    broker.send(topic, [event(number) for number in range(1, 500)], 1)
    assert [row["id"] for row in rows_of(opened(broker, topic).arrivals([], 500))] == list(range(500))


def test_a_position_is_gone_on_from(broker: KafkaBroker, topic: str) -> None:
    for partition in range(4):
        broker.send(topic, [event(number) for number in range(partition, 1_000, 4)], partition)
    blocks = [block for block in opened(broker, topic).arrivals([], 100) if block is not None]
    before = blocks[: len(blocks) // 2]
    middle = before[-1].position
    assert middle is not None
    rest = rows_of(opened(broker, topic).arrivals([], 100, middle.encode()))
    assert [row["id"] for row in rest] == list(range(len(rows_of(iter(before))), 1_000))


def test_arrow_and_csv_payloads(broker: KafkaBroker, topic: str) -> None:
    batch = pa.record_batch({"id": [1, 2, 3], "ts": [10, 20, 30], "type": ["A", "B", "A"], "x": [0.5, None, 1.5]})
    broker.send(topic, [stream_payload(batch.slice(0, 2)), stream_payload(batch.slice(2, 1))])
    source = opened(broker, topic, "until=end&idle=0s&format=arrow")
    assert rows_of(source.arrivals(["x"], 10)) == batch.select(["ts", "id", "type", "x"]).to_pylist()
    other = next(_topics)
    broker.send(other, [b"1,10,A,0.5", b"2,20,B,", b"3,30,A,1.5"])
    source = opened(broker, other, f"until=end&idle=0s&format=csv&{SCHEMA}")
    assert rows_of(source.arrivals(["x"], 10)) == batch.select(["ts", "id", "type", "x"]).to_pylist()


def test_the_time_of_a_record_can_be_that_of_its_event(broker: KafkaBroker, topic: str) -> None:
    payloads = [json.dumps({"id": number, "type": "A"}).encode() for number in range(3)]
    broker.send(topic, payloads, times_ms=[1_000, 1_005, 1_010])
    source = opened(broker, topic, "until=end&idle=0s&time=record")
    assert [row["ts"].timestamp() for row in rows_of(source.arrivals([], 10))] == [1.0, 1.005, 1.01]


def test_times_in_milliseconds_are_recognised(broker: KafkaBroker, topic: str) -> None:
    morning_ms = 1_714_557_600_000
    broker.send(topic, [json.dumps({"id": n, "ts": morning_ms + n, "type": "A"}).encode() for n in range(3)])
    source = opened(broker, topic, "until=end&idle=0s")
    assert source.notices[0].startswith("took the times in column 'ts' for milliseconds since 1970")
    found = [ts for batch in source.batches([], 10) for ts in batch.ts.tolist()]  # in as many batches as they came
    assert found == [morning_ms * 1_000 + n * 1_000 for n in range(3)]
    blind = opened(broker, topic, f"until=end&idle=0s&{SCHEMA}")
    with pytest.raises(
        TraceError, match=r"looks like milliseconds since 1970 \(2024-05-01 10:00:00\); say --ts-unit ms"
    ):
        rows_of(blind.arrivals([], 10))


def test_an_idle_partition_does_not_hold_the_stream(broker: KafkaBroker, topic: str) -> None:
    broker.send(topic, [event(number) for number in range(10)])
    source = opened(broker, topic, "idle=100ms")
    arriving = source.arrivals([], 100)
    found = [block.rows.num_rows for block in itertools.islice(arriving, 60) if block is not None]
    assert sum(found) == 10
    arriving.close()  # type: ignore[attr-defined]  # it is a generator


def test_bad_payloads_stop_the_run_or_are_put_aside(broker: KafkaBroker, topic: str, tmp_path: Path) -> None:
    broker.send(topic, [event(0), b'{"id": 1, "ts": "soon"}', event(2), None, b"{", event(5)])
    source = opened(broker, topic, "until=end&idle=0s")
    with pytest.raises(TraceError, match=rf"topic {topic}, partition 0, offset 1: .*--bad-rows divert"):
        rows_of(source.arrivals([], 10))
    letters = tmp_path / "bad.jsonl"
    source = opened(broker, topic, "until=end&idle=0s", bad_rows=BadRows("divert", letters))
    assert [row["id"] for row in rows_of(source.arrivals([], 10))] == [0, 2, 5]
    written = [json.loads(line) for line in letters.read_text().splitlines()]
    assert sorted(one["offset"] for one in written) == [1, 3, 4]
    assert {one["source"] for one in written} == {f"topic {topic}, partition 0"}
    assert written[0]["values"] == {"payload": '{"id": 1, "ts": "soon"}'}
    assert len(source.dead_letters) == 3
    rows_of(source.arrivals([], 10))  # read again from the start, written again from the start
    assert len(letters.read_text().splitlines()) == len(source.dead_letters) == 3


def test_late_events_are_counted_for_each_partition(broker: KafkaBroker, topic: str, tmp_path: Path) -> None:
    for partition in range(4):
        broker.send(topic, [event(number) for number in (10, 20, 5 + partition, 30)], partition)
    late = tmp_path / "late.jsonl"
    source = opened(broker, topic, lateness=Lateness(0, "divert", late))
    assert [row["ts"] for row in rows_of(source.arrivals([], 10))] == [10] * 4 + [20] * 4 + [30] * 4
    assert source.late == {"0": 1, "1": 1, "2": 1, "3": 1}
    assert [json.loads(line)["offset"] for line in late.read_text().splitlines()] == [2, 2, 2, 2]
    assert source.notices == [
        f"put aside 4 late events of topic {topic} (0: 1, 1: 1, 2: 1, 3: 1) in {late}: up to 15 us behind the newest, "
        "and 0 us are allowed"
    ]


def test_late_events_can_go_to_a_topic_of_their_own(broker: KafkaBroker, topic: str) -> None:
    broker.send(topic, [event(number) for number in (10, 5, 20)])
    late = next(_topics)
    source = opened(broker, topic, "until=end&idle=0s", lateness=Lateness(0, "divert", broker.address(late)))
    assert [row["id"] for row in rows_of(source.arrivals([], 10))] == [10, 20]
    letters = open_trace(
        broker.address(late, "until=end&idle=0s&schema=id%3Dint,ts%3Dint,type%3Dstring,reason%3Dstring,offset%3Dint")
    )
    reader = letters._reader.arrivals(["offset", "reason"], None)  # type: ignore[attr-defined]
    found = [row for arrival in reader if arrival is not None for row in arrival.rows.to_pylist()]
    assert found == [{"offset": 1, "reason": "late: 5 us behind the newest, 0 allowed"}]


def test_an_unknown_topic_and_a_broker_that_is_not_there_are_named(broker: KafkaBroker, topic: str) -> None:
    broker.send("orders", [event(1)])
    with pytest.raises(
        TraceError, match=rf"the broker at {broker.servers} has no topic 'order'; did you mean 'orders'"
    ):
        opened(broker, "order")
    with pytest.raises(TraceError, match=r"no broker answers at 127\.0\.0\.1:1: .*check the address"):
        open_trace("kafka://127.0.0.1:1/orders")


def test_offsets_that_are_gone_are_named(broker: KafkaBroker, topic: str, caplog: pytest.LogCaptureFixture) -> None:
    """The broker keeps about 5 MiB of a partition."""
    big = "x" * 100_000
    for first in range(0, 120, 10):
        broker.send(topic, [event(number, s=big) for number in range(first, first + 10)])
    for partition in (1, 2, 3):
        broker.send(topic, [event(1_000)], partition)
    saved = Position(f"kafka:{topic}", {"0": 1, "1": 0, "2": 0, "3": 0}).encode()
    with pytest.raises(TraceError) as caught:
        rows_of(opened(broker, topic, f"until=end&{SCHEMA}").arrivals([], 10, saved))
    assert "partition 0: offset 1 is gone: the broker has removed all before " in str(caught.value)
    assert "--from earliest" in str(caught.value)
    with caplog.at_level(logging.WARNING, "decopa"):
        found = rows_of(opened(broker, topic, f"until=end&gaps=skip&{SCHEMA}").arrivals([], 10, saved))
    assert found[-1]["id"] == 1_000 and found[0]["id"] > 1
    assert "events are lost" in caplog.text
    beyond = Position(f"kafka:{topic}", {"0": 10**6}).encode()
    with pytest.raises(TraceError, match="beyond its end at 120; was the topic made anew"):
        rows_of(opened(broker, topic, f"until=end&{SCHEMA}").arrivals([], 10, beyond))


def test_a_broker_that_goes_away_and_comes_back_loses_and_repeats_nothing(caplog: pytest.LogCaptureFixture) -> None:
    broker = KafkaBroker()
    with caplog.at_level(logging.WARNING, "decopa"):
        broker.send("away", [event(number) for number in range(1_000)])
        arriving = open_trace(broker.address("away", SCHEMA + "&idle=200ms")).arrivals([], 100)
        found = rows_of(itertools.islice(arriving, 3))
        for life in range(2):
            broker.go_away()
            while "no broker answers" not in caplog.text:
                found += rows_of(itertools.islice(arriving, 1))
            broker.come_back()
            broker.send("away", [event(number) for number in range(1_000 + 100 * life, 1_100 + 100 * life)])
            while len(found) < 1_100 + 100 * life:
                found += rows_of(itertools.islice(arriving, 1))
        arriving.close()  # type: ignore[attr-defined]  # it is a generator
    assert [row["id"] for row in found] == list(range(1_200))
    assert "the broker is back after" in caplog.text


def test_without_the_client_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    with pytest.raises(TraceError, match=r"pip install 'decopa\[kafka\]'"):
        open_trace("kafka://127.0.0.1:1/orders")
