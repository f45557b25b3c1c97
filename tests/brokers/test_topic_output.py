"""Matches that go to a topic or a subject: each once, or again under the same id, wherever the driver died."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from cluster.checkpoint.topics import KafkaSender, TopicMatches, match_id, topic_output
from decopa.errors import OutputError
from shuffler.source.live.address import parse_address
from tests.support.brokers import KafkaBroker, NatsServer, nats_server


def matches(*numbers: int) -> pa.Table:
    return pa.table({"query": ["q"] * len(numbers), "a": list(numbers)})


def part(number: int) -> str:
    return f"part-{number:08d}.jsonl"


@pytest.fixture(scope="module")
def broker() -> KafkaBroker:
    return KafkaBroker()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    with nats_server(tmp_path_factory.mktemp("nats")) as one:
        one.make_stream("FOUND")
        yield one


def sent_to(broker: KafkaBroker, topic: str) -> list[int]:
    from confluent_kafka import Consumer, TopicPartition

    reader = Consumer({"bootstrap.servers": broker.servers, "group.id": "reader", "log_level": 0})
    reader.assign([TopicPartition(topic, number, 0) for number in range(4)])
    found = []
    while some := reader.consume(1_000, 1.0):
        for message in some:
            assert message.key().decode() == match_id(message.value()) == dict(message.headers())["match-id"].decode()
            found.append(json.loads(message.value())["a"])
    reader.close()
    return sorted(found)


def test_parts_are_sent_once_whether_the_driver_died_before_or_after(broker: KafkaBroker, tmp_path: Path) -> None:
    address = parse_address(broker.address("found"))
    output = topic_output(address, tmp_path, "run")
    output.prepare([])
    assert output.stage(1, matches(1, 2)) == part(1)
    output.publish([part(1)])
    assert output.stage(2, matches()) is None
    output.stage(3, matches(3))
    # The manifest of checkpoint 3 is written; the driver dies before it sends. The next one sends.
    output = topic_output(address, tmp_path, "run")
    output.prepare([part(1), part(3)], after=3)
    assert sent_to(broker, "found") == [1, 2, 3]
    # It was sent, and the driver died before it removed the part: nothing is sent again.
    output.stage(4, matches(4))
    output._parts.publish([part(4)])
    output._sender.send(4, (tmp_path / part(4)).read_bytes().splitlines())
    output = topic_output(address, tmp_path, "run")
    output.prepare([part(1), part(3), part(4)], after=4)
    # A part whose checkpoint was never declared complete is forgotten.
    output.stage(5, matches(99))
    output = topic_output(address, tmp_path, "run")
    output.prepare([part(1), part(3), part(4)], after=4)
    output.stage(6, matches(6))
    output.publish([part(6)])
    assert sent_to(broker, "found") == [1, 2, 3, 4, 6]


def test_a_run_cannot_go_back_behind_what_was_sent(broker: KafkaBroker, tmp_path: Path) -> None:
    address = parse_address(broker.address("forward"))
    output = topic_output(address, tmp_path, "forward")
    output.prepare([])
    output.stage(5, matches(1))
    output.publish([part(5)])
    with pytest.raises(OutputError, match="checkpoint 5 were sent, and the run would go back to checkpoint 4"):
        topic_output(address, tmp_path, "forward").prepare([], after=4)


def test_runs_do_not_disturb_each_other(broker: KafkaBroker, tmp_path: Path) -> None:
    address = parse_address(broker.address("shared"))
    for run in ("one", "two"):
        output = topic_output(address, tmp_path / run, run)
        output.prepare([])
        output.stage(1, matches(1 if run == "one" else 2))
        output.publish([part(1)])
    assert sent_to(broker, "shared") == [1, 2]
    assert KafkaSender(address, "three").sent == 0


def test_a_broker_that_is_not_there_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cluster.checkpoint.topics._ANSWER_S", 1.0)
    with pytest.raises(OutputError, match=r"topic found at 127\.0\.0\.1:1: no broker takes transactions"):
        topic_output(parse_address("kafka://127.0.0.1:1/found"), tmp_path, "run")
    with pytest.raises(OutputError, match=r"matches can go to kafka:// or nats://, not to tcp://"):
        topic_output(parse_address("tcp://127.0.0.1:1"), tmp_path, "run")


def stored(server: NatsServer) -> list[int]:
    async def read(js: object) -> list[int]:
        state = (await js.stream_info("FOUND")).state  # type: ignore[attr-defined]
        found = [await js.get_msg("FOUND", number) for number in range(1, state.last_seq + 1)]  # type: ignore[attr-defined]
        return [json.loads(one.data)["a"] for one in found]

    found: list[int] = server.run(read)
    return found


def test_a_part_that_is_sent_to_nats_again_is_dropped_by_its_id(server: NatsServer, tmp_path: Path) -> None:
    address = parse_address(f"nats://{server.servers}/FOUND.matches")
    output = topic_output(address, tmp_path, "run")
    output.prepare([])
    output.stage(1, matches(1, 2))
    output.publish([part(1)])
    # The driver dies after sending and before noting it.
    output.stage(2, matches(3))
    output._parts.publish([part(2)])
    output._sender.send(2, (tmp_path / part(2)).read_bytes().splitlines())
    (tmp_path / "sent").write_text("1")
    again = topic_output(address, tmp_path, "run")
    again.prepare([part(1), part(2)], after=2)
    assert isinstance(again, TopicMatches) and again._sender.sent == 2
    assert stored(server) == [1, 2, 3]
    lost = topic_output(parse_address(f"nats://{server.servers}/NOWHERE.x"), tmp_path / "lost", "run")
    lost.prepare([])
    lost.stage(1, matches(1))
    with pytest.raises(OutputError, match=r"subject NOWHERE\.x .*could not be sent.*a stream keeps the subject"):
        lost.publish([part(1)])
