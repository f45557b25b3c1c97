"""Letters to a topic of Kafka or a subject of NATS: rows that were put aside, as records of JSON.

What was sent cannot be taken back, so a run that goes back to a checkpoint sends some letters again: at least once.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from decopa.errors import OutputError
from shuffler.source.letters import LetterFile
from shuffler.source.live.address import SourceAddress, is_address, parse_address
from shuffler.source.live.kafka import client_settings, kafka_client
from shuffler.source.live.nats_connection import NatsConnection, said

_ANSWER_S = 30.0


class LetterBox(Protocol):
    """Takes letters; `size` is the mark that `go_back_to` goes back to, where that is possible."""

    def add(self, letters: Sequence[str]) -> None: ...

    def size(self) -> int: ...

    def go_back_to(self, size: int) -> None: ...


def letter_box(place: Path | str | None, what: str) -> LetterBox:
    """The file, topic or subject that letters go to; None takes them and forgets them."""
    if isinstance(place, str) and is_address(place):
        return LetterTopic(parse_address(place), what)
    return LetterFile(None if place is None else Path(place), what)


class LetterTopic:
    def __init__(self, address: SourceAddress, what: str) -> None:
        if address.kind not in ("kafka", "nats"):
            raise OutputError(f"{what} can go to a file, kafka:// or nats://, not to {address.kind}://")
        self._address, self._what = address, what
        self._nats = NatsConnection(address) if address.kind == "nats" else None
        self._kafka = kafka_client() if address.kind == "kafka" else None
        self._producer: Any = None if self._kafka is None else self._kafka.Producer(_settings(address))

    def add(self, letters: Sequence[str]) -> None:
        if not letters:
            return
        payloads = [one.rstrip("\n").encode() for one in letters]
        if self._nats is None:
            self._send_to_kafka(payloads)
            return
        try:
            self._nats.run(self._send_to_nats(self._nats, payloads), _ANSWER_S)
        except (OSError, TimeoutError, self._nats.client.errors.Error) as err:
            raise self._failed(said(err)) from err

    def size(self) -> int:
        return 0

    def go_back_to(self, size: int) -> None:
        """What was sent stays."""

    def _send_to_kafka(self, payloads: Sequence[bytes]) -> None:
        for payload in payloads:
            while True:
                try:
                    self._producer.produce(self._address.topic, payload)
                    break
                except BufferError:
                    self._producer.poll(0.1)
        if self._producer.flush(_ANSWER_S):
            raise self._failed("the broker does not answer")

    async def _send_to_nats(self, nats: NatsConnection, payloads: Sequence[bytes]) -> None:
        acks = [await nats.jetstream.publish_async(self._address.topic, payload) for payload in payloads]
        for ack in acks:
            await ack

    def _failed(self, reason: str) -> OutputError:
        return OutputError(f"cannot send {self._what} to {self._address.topic} at {self._address.servers}: {reason}")


def _settings(address: SourceAddress) -> dict[str, Any]:
    quiet = {"log_level": 0, "error_cb": lambda error: None}
    return {"bootstrap.servers": address.servers, **quiet, **client_settings(address.config)}
