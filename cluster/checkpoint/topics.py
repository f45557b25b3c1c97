"""Matches that are published to a topic of Kafka or a subject of NATS, with the checkpoint that found them.

A part is kept in a folder, the outbox, until it is sent. To Kafka it goes in one transaction, with a note of the number
of its checkpoint in a topic beside (`matches.decopa` for the topic `matches`). A driver that takes the run up reads the
last note and knows whether the part was sent. So readers that read committed records see each match once. NATS has no
transactions: a part may be sent again, and every match carries an id made from its contents, by which the server (for
as long as its window for duplicates) and receivers drop repeats.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from cluster.checkpoint.output import PublishedMatches, part_number
from decopa.errors import OutputError
from shuffler.source.live.address import SourceAddress
from shuffler.source.live.kafka import client_settings, kafka_client
from shuffler.source.live.nats_connection import NatsConnection, said

_ANSWER_S = 30.0
#: Notes that are read from the end back, first; then more and more.
_FIRST_NOTES = 1_000


class Sender(Protocol):
    """Sends the lines of a part, each under its id."""

    @property
    def sent(self) -> int:
        """The number of the last checkpoint whose part was sent for certain; 0 if none was."""
        ...

    def send(self, number: int, lines: Sequence[bytes]) -> None: ...


class TopicMatches:
    """As `PublishedMatches`, to a topic or subject; `outbox` is a folder for what is not sent yet."""

    def __init__(self, outbox: Path, sender: Sender) -> None:
        self._outbox, self._sender = outbox, sender
        self._parts = PublishedMatches(outbox, "jsonl")

    def prepare(self, published: Iterable[str], *, after: int | None = None) -> None:
        """Sends what was declared but not sent, and removes what no one declared."""
        sent = self._sender.sent
        if sent > (after or 0):
            raise OutputError(
                f"the matches of checkpoint {sent} were sent, and the run would go back to checkpoint {after or 0}; "
                "what was sent cannot be withdrawn: restore the later checkpoint, or start anew with an empty folder"
            )
        names = list(published)
        due = [name for name in names if part_number(name) > sent]
        for name in names[: len(names) - len(due)]:
            (self._outbox / name).unlink(missing_ok=True)  # the driver died between sending and removing it
        self._parts.prepare(due, after=after)
        self._send(due)

    def stage(self, number: int, matches: pa.Table) -> str | None:
        return self._parts.stage(number, matches)

    def unstage(self, number: int) -> None:
        self._parts.unstage(number)

    def publish(self, names: Iterable[str]) -> None:
        names = list(names)
        self._parts.publish(names)
        self._send(names)

    def finish(self) -> None:
        self._parts.finish()

    def _send(self, names: Iterable[str]) -> None:
        for name in sorted(names):
            path = self._outbox / name
            self._sender.send(part_number(name), path.read_bytes().splitlines())
            path.unlink()


def match_id(line: bytes) -> str:
    """The id of a match: the same for the same match, whenever and wherever it is found."""
    return hashlib.sha256(line).hexdigest()[:32]


class KafkaSender:
    """One transaction for each part, with a note of its number; the broker shuts out earlier drivers that still live.

    Notes of all runs lie in one partition, under the name of the run; it may be compacted.
    """

    def __init__(self, address: SourceAddress, run: str) -> None:
        self._kafka = kafka_client()
        self._address, self._id, self._notes = address, f"decopa-{run}", f"{address.topic}.decopa"
        self._settings = {
            "bootstrap.servers": address.servers,
            "log_level": 0,
            "error_cb": lambda error: None,
            **client_settings(address.config),
        }
        try:
            self._producer = self._kafka.Producer({**self._settings, "transactional.id": self._id, "linger.ms": 5})
            self._producer.init_transactions(_ANSWER_S)
        except (self._kafka.KafkaException, ValueError, TypeError) as err:
            raise self._failed("no broker takes transactions", err) from err

    @property
    def sent(self) -> int:
        reading = {"group.id": self._id, "enable.auto.commit": False, "enable.partition.eof": True}
        reader = self._kafka.Consumer({**self._settings, **reading, "isolation.level": "read_committed"})
        try:
            known = reader.list_topics(self._notes, timeout=_ANSWER_S).topics[self._notes]
            if known.error is not None or not known.partitions:
                return 0
            low, high = reader.get_watermark_offsets(self._note_at(0), timeout=_ANSWER_S)
            back = _FIRST_NOTES
            while True:
                found = self._last_note(reader, max(low, high - back))
                if found or high - back <= low:
                    return found
                back *= 8
        except self._kafka.KafkaException as err:
            raise self._failed("the broker does not tell what was sent", err) from err
        finally:
            reader.close()

    def _last_note(self, reader: Any, first: int) -> int:
        """The last number that this run noted from an offset on; 0 if it noted none."""
        reader.assign([self._note_at(first)])
        found = 0
        while True:
            for message in reader.consume(10_000, 0.2):
                error = message.error()
                if error is None and message.key() == self._id.encode():
                    found = int(message.value())
                elif error is not None and error.code() == self._kafka.KafkaError._PARTITION_EOF:
                    return found
                elif error is not None:
                    raise self._kafka.KafkaException(error)

    def send(self, number: int, lines: Sequence[bytes]) -> None:
        try:
            self._producer.begin_transaction()
            for line in lines:
                self._produce(line)
            self._producer.produce(self._notes, str(number), key=self._id, partition=0)
            self._producer.commit_transaction(_ANSWER_S)
        except self._kafka.KafkaException as err:
            raise self._failed(f"the matches of checkpoint {number} could not be sent", err) from err

    def _produce(self, line: bytes) -> None:
        key = match_id(line)
        while True:
            try:
                self._producer.produce(self._address.topic, line, key=key, headers={"match-id": key})
                return
            except BufferError:
                self._producer.poll(0.1)

    def _note_at(self, offset: int) -> Any:
        return self._kafka.TopicPartition(self._notes, 0, offset)

    def _failed(self, what: str, err: Exception) -> OutputError:
        reason = err.args[0].str() if isinstance(err, self._kafka.KafkaException) else str(err)
        return OutputError(
            f"topic {self._address.topic} at {self._address.servers}: {what}: {reason}; check the broker, and go on "
            "with `decopa resume`"
        )


class NatsSender:
    """Messages with the id of their match; a part counts as sent when the server has acknowledged all of it."""

    def __init__(self, address: SourceAddress, outbox: Path) -> None:
        self._address, self._noted = address, outbox / "sent"
        self._nats = NatsConnection(address)

    @property
    def sent(self) -> int:
        return int(json.loads(self._noted.read_text())) if self._noted.exists() else 0

    def send(self, number: int, lines: Sequence[bytes]) -> None:
        async def publish() -> None:
            js = self._nats.jetstream
            acks = []
            for line in lines:
                headers = {"Nats-Msg-Id": match_id(line)}
                acks.append(await js.publish_async(self._address.topic, line, headers=headers))
            for ack in acks:
                await ack

        try:
            self._nats.run(publish(), _ANSWER_S + len(lines) / 1_000)
        except (OSError, TimeoutError, self._nats.client.errors.Error) as err:
            raise OutputError(
                f"subject {self._address.topic} at {self._address.servers}: the matches of checkpoint {number} could "
                f"not be sent: {said(err)}; check that the server runs and a stream keeps the subject, and go on with "
                "`decopa resume`"
            ) from err
        beside = self._noted.with_suffix(".part")
        beside.write_text(json.dumps(number))
        os.replace(beside, self._noted)


def topic_output(address: SourceAddress, outbox: Path, run: str) -> TopicMatches:
    """Publishes the matches of the run with this name, the same whenever it is taken up."""
    if address.kind not in ("kafka", "nats"):
        raise OutputError(f"matches can go to kafka:// or nats://, not to {address.kind}://; or name a folder")
    outbox.mkdir(parents=True, exist_ok=True)
    sender: Sender = KafkaSender(address, run) if address.kind == "kafka" else NatsSender(address, outbox)
    return TopicMatches(outbox, sender)
