"""A topic of Kafka, or of any broker that speaks its protocol.

This process reads all partitions itself: no consumer group, nothing to rebalance. Offsets are kept in checkpoints; none
are committed to the broker. A broker that goes away later is waited for: the client tries again by itself.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from decopa.errors import TraceError, did_you_mean
from shuffler.rows.columns import Ints
from shuffler.rows.events import TraceColumns
from shuffler.source.dead_letters import DeadLetters
from shuffler.source.live.address import SourceAddress
from shuffler.source.live.interface import Arrival
from shuffler.source.live.payloads import PayloadReader, Records, grouped

_LOG = logging.getLogger("decopa")
#: How long to wait for a broker's answer at the start.
_ANSWER_S = 5.0
#: Records that are taken together, and those that the first look takes to see what they hold.
_MOST_RECORDS, _FIRST_RECORDS = 50_000, 1_000


class KafkaSource:
    """A `LiveSource`; opened with clear errors for a broker that does not answer and a topic that is not there."""

    replayable = True

    def __init__(self, address: SourceAddress, columns: TraceColumns, letters: DeadLetters) -> None:
        self._kafka = kafka_client()
        self._address = address
        self.name, self.identity = address.name, address.identity
        self._down_since: float | None = None
        self._at: dict[str, int] = {}
        self._paused: frozenset[str] = frozenset()
        self._consumer: Any = self._connect()
        try:
            self._numbers = self._partition_numbers()
            ends = {number: self._ends(number) for number in self._numbers}
            self._starts = {number: ends[number][0 if address.start == "earliest" else 1] for number in self._numbers}
            self._stops = {str(number): high for number, (_, high) in ends.items()} if address.until_end else None
            self._payloads = PayloadReader(address, columns, letters, self._first_payloads)
        finally:
            self.close()
        self.schema, self.columns = self._payloads.schema, self._payloads.columns

    # ------------------------------------------------------------- the interface

    def open(self, offsets: Mapping[str, int] | None, columns: Sequence[str]) -> None:
        self._payloads.choose(columns)
        self.close()
        self._consumer = self._connect()
        begin = {str(number): self._starts[number] for number in self._numbers} | dict(offsets or {})
        self._at = {name: self._checked(name, offset) for name, offset in begin.items()}
        self._paused = frozenset()
        self._consumer.assign([self._at_offset(name, offset) for name, offset in self._at.items()])

    def partitions(self) -> Collection[str]:
        return [str(number) for number in self._numbers]

    def poll(self, wait_s: float, but: Collection[str] = ()) -> Sequence[Arrival] | None:
        if self._stops is not None and all(self._at[name] >= stop for name, stop in self._stops.items()):
            return None
        self._pause(frozenset(but))
        messages = self._consumer.consume(_MOST_RECORDS, 0)
        if not messages:
            # `consume` would wait until it has as many as it may take.
            first = self._consumer.poll(wait_s)
            messages = [] if first is None else [first, *self._consumer.consume(_MOST_RECORDS - 1, 0)]
        return self._arrivals(messages)

    def lag(self) -> Mapping[str, int]:
        lag = {name: max(0, self._known_end(name) - offset) for name, offset in self._at.items()}
        over = {} if self._stops is None else self._stops
        return lag | {name: -1 for name, stop in over.items() if self._at[name] >= stop}

    def sample(self, column: str) -> pa.Array | None:
        return self._payloads.sample(column)

    def close(self) -> None:
        """Ends the connection; it can be opened again. A client that is left to the garbage collector may block it."""
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            consumer.close()

    # ------------------------------------------------------------- records

    def _arrivals(self, messages: list[Any]) -> list[Arrival]:
        kind = self._kafka.Message
        if any(map(kind.error, messages)):
            messages = [message for message in messages if self._is_event(message)]
        if not messages:
            return []
        if self._down_since is not None:
            _LOG.warning("%s: the broker is back after %.0f s", self.name, time.monotonic() - self._down_since)
            self._down_since = None
        count = len(messages)
        numbers: Ints = np.fromiter(map(kind.partition, messages), dtype=np.int64, count=count)
        offsets: Ints = np.fromiter(map(kind.offset, messages), dtype=np.int64, count=count)
        values = list(map(kind.value, messages))
        times = _times_us(messages, kind) if self._address.record_time else None
        found = []
        for number, some in grouped(numbers, count):
            mine = values if len(some) == count else [values[index] for index in some]
            records = Records(str(number), mine, offsets[some], None if times is None else times[some])
            self._at[str(number)] = int(offsets[some[-1]]) + 1
            found.append(self._payloads.arrival(records, {str(number): self._at[str(number)]}))
        return found

    def _is_event(self, message: Any) -> bool:
        """Whether a message is one; errors that do not pass by themselves are raised."""
        error = message.error()
        if error is None:
            return True
        codes = self._kafka.KafkaError
        if error.code() in (codes._AUTO_OFFSET_RESET, codes.OFFSET_OUT_OF_RANGE):
            name = str(message.partition())
            offset = self._checked(name, self._at[name])
            self._consumer.seek(self._at_offset(name, offset))
        elif error.code() in (codes.UNKNOWN_TOPIC_OR_PART, codes._UNKNOWN_TOPIC, codes._UNKNOWN_PARTITION):
            raise TraceError(f"{self.name} is no longer there: {error.str()}; make it again, or read another")
        elif error.code() in (codes.TOPIC_AUTHORIZATION_FAILED, codes.SASL_AUTHENTICATION_FAILED):
            raise TraceError(f"{self.name} may not be read: {error.str()}; check user and rights in the config file")
        else:
            self._trouble(error)
        return False

    def _first_payloads(self) -> list[bytes]:
        """The first records from the start on; waits for one."""
        self._consumer.assign([self._at_offset(str(number), low) for number, low in self._starts.items()])
        found: list[bytes] = []
        told = False
        while not found:
            messages = self._consumer.consume(_FIRST_RECORDS, 0.3)
            found = [message.value() for message in messages if message.error() is None and message.value()]
            if not found and not told:
                _LOG.warning("%s has no events yet; waiting for the first one, to see what columns it has", self.name)
                told = True
        self._consumer.unassign()
        return found

    # ------------------------------------------------------------- the broker

    def _connect(self) -> Any:
        settings = {
            "bootstrap.servers": self._address.servers,
            "group.id": "decopa",  # the client wants one; nothing is committed to it
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "isolation.level": "read_committed",
            "queued.min.messages": 200_000,
            "fetch.queue.backoff.ms": 5,
            "fetch.wait.max.ms": 20,
            "log_level": 0,
            **client_settings(self._address.config),
        }
        try:
            return self._kafka.Consumer({**settings, "error_cb": self._trouble})
        except (self._kafka.KafkaException, ValueError, TypeError) as err:
            raise TraceError(f"the Kafka client refuses its settings: {err}; check the config file") from err

    def _partition_numbers(self) -> list[int]:
        try:
            known = self._consumer.list_topics(timeout=_ANSWER_S).topics
            topic = self._consumer.list_topics(self._address.topic, timeout=_ANSWER_S).topics[self._address.topic]
        except self._kafka.KafkaException as err:
            raise TraceError(
                f"no broker answers at {self._address.servers}: {err.args[0].str()}; check the address, and that the "
                "broker runs"
            ) from err
        if topic.error is not None or not topic.partitions:
            names = [name for name in known if not name.startswith("__") and name != self._address.topic]
            raise TraceError(
                f"the broker at {self._address.servers} has no topic '{self._address.topic}'"
                f"{did_you_mean(self._address.topic, names)}"
            )
        return sorted(topic.partitions)

    def _ends(self, number: int) -> tuple[int, int]:
        """The first offset that there is and the one after the last."""
        try:
            low, high = self._consumer.get_watermark_offsets(self._at_offset(str(number), 0), timeout=_ANSWER_S)
        except self._kafka.KafkaException as err:
            raise TraceError(
                f"{self.name}, partition {number}: {err.args[0].str()}; check that its broker runs"
            ) from err
        return int(low), int(high)

    def _checked(self, name: str, offset: int) -> int:
        """The offset, if it is still there; with `skip_gaps` the next that is."""
        low, high = self._ends(int(name))
        if low <= offset <= high:
            return offset
        where = f"{self.name}, partition {name}: offset {offset:,}"
        if offset > high:
            raise TraceError(
                f"{where} is beyond its end at {high:,}; was the topic made anew? Start with an empty folder"
            )
        if self._address.skip_gaps:
            _LOG.warning("%s is gone; %d events are lost, going on at %d", where, low - offset, low)
            return low
        raise TraceError(
            f"{where} is gone: the broker has removed all before {low:,}, so {low - offset:,} events are lost; go on "
            "without them with --from earliest, and let the topic keep its events for longer"
        )

    def _known_end(self, name: str) -> int:
        """The end of the partition as the broker told it last; no question is asked."""
        _, high = self._consumer.get_watermark_offsets(self._at_offset(name, 0), cached=True)
        return int(high)

    def _pause(self, but: frozenset[str]) -> None:
        if but != self._paused:
            for names, action in (
                (but - self._paused, self._consumer.pause),
                (self._paused - but, self._consumer.resume),
            ):
                if names:
                    action([self._at_offset(name, 0) for name in names])
            self._paused = but

    def _at_offset(self, name: str, offset: int) -> Any:
        return self._kafka.TopicPartition(self._address.topic, int(name), offset)

    def _trouble(self, error: Any) -> None:
        """Tells once that brokers do not answer; the client goes on trying, with longer and longer pauses."""
        down = error.code() in (self._kafka.KafkaError._ALL_BROKERS_DOWN, self._kafka.KafkaError._TRANSPORT)
        if down and self._down_since is None:
            self._down_since = time.monotonic()
            _LOG.warning("%s: no broker answers (%s); trying again until one does", self.name, error.str())


def _times_us(messages: list[Any], kind: Any) -> Ints:
    return np.array([stamp for _, stamp in map(kind.timestamp, messages)], dtype=np.int64) * 1_000


def kafka_client() -> Any:
    """The client library, or one line that says how to install it."""
    try:
        import confluent_kafka
    except ImportError as err:
        raise TraceError("Kafka needs its client; install it with: pip install 'decopa[kafka]'") from err
    return confluent_kafka


def client_settings(config: str) -> dict[str, str]:
    """Settings of a client library from a file of `name=value` lines; # begins a comment."""
    if not config:
        return {}
    try:
        lines = Path(config).read_text(encoding="utf-8").splitlines()
    except OSError as err:
        raise TraceError(f"cannot read the client's settings in '{config}': {err.strerror}; check the path") from err
    pairs = (line.partition("=") for line in lines if line.strip() and not line.lstrip().startswith("#"))
    return {name.strip(): value.strip() for name, _, value in pairs}
