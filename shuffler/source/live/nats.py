"""A JetStream stream of NATS, read by sequence number through a consumer that nobody else sees.

The consumer is made anew whenever it may be gone: after a broken connection, a restart of the server, a gap in what it
delivers. So the stream's own sequence numbers are the only truth, and they are what checkpoints keep.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from decopa.errors import TraceError, did_you_mean
from shuffler.rows.events import TraceColumns
from shuffler.source.dead_letters import DeadLetters
from shuffler.source.live.address import SourceAddress
from shuffler.source.live.interface import Arrival
from shuffler.source.live.nats_connection import NatsConnection, said
from shuffler.source.live.nats_pull import NatsPull
from shuffler.source.live.payloads import PayloadReader, Records

_LOG = logging.getLogger("decopa")
_FIRST_RECORDS = 500
#: Pauses between attempts to have a consumer again.
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 5.0
#: A stream that brings nothing for this long is asked whether it has something.
_DOUBT_S = 2.0


class NatsSource:
    """A `LiveSource` with one partition."""

    replayable = True

    def __init__(self, address: SourceAddress, columns: TraceColumns, letters: DeadLetters) -> None:
        self._address = address
        self.name, self.identity = address.name, address.identity
        self._consumer: NatsPull | None = None
        self._at, self._delivered, self._pending = 1, 0, 0
        self._down_since: float | None = None
        self._failures, self._retry_at, self._heard_at = 0, 0.0, time.monotonic()
        self._server = NatsConnection(address, self._lost)
        self._nats = self._server.client
        first, last = self._ends()
        self._start = first if address.start == "earliest" else last + 1
        self._stop = last if address.until_end else None
        self._payloads = PayloadReader(address, columns, letters, self._first_payloads)
        self.schema, self.columns = self._payloads.schema, self._payloads.columns

    # ------------------------------------------------------------- the interface

    def open(self, offsets: Mapping[str, int] | None, columns: Sequence[str]) -> None:
        self._payloads.choose(columns)
        self._at = self._checked((offsets or {}).get("", self._start))
        self._forget_consumer()
        self._failures, self._retry_at = 0, 0.0

    def partitions(self) -> Collection[str]:
        return ("",)

    def poll(self, wait_s: float, but: Collection[str] = ()) -> Sequence[Arrival] | None:
        if self._stop is not None and (self._at > self._stop or (self._consumer is not None and not self._pending)):
            return None
        messages = self._fetched(wait_s)
        return [self._arrival(messages)] if messages else ()

    def lag(self) -> Mapping[str, int]:
        return {"": self._pending}

    def sample(self, column: str) -> pa.Array | None:
        return self._payloads.sample(column)

    def close(self) -> None:
        """Stops reading; the connection stays, for the next time that it is opened."""
        self._forget_consumer()

    # ------------------------------------------------------------- messages

    def _arrival(self, messages: list[_Delivery]) -> Arrival:
        sequences = np.array([one.sequence for one in messages], dtype=np.int64)
        times = np.array([one.time_ns for one in messages], dtype=np.int64) // 1_000
        self._at, self._pending = int(sequences[-1]) + 1, messages[-1].pending
        payloads = [one.payload for one in messages]
        records = Records("", payloads, sequences, times if self._address.record_time else None)
        return self._payloads.arrival(records, {"": self._at})

    def _fetched(self, wait_s: float) -> list[_Delivery]:
        """What has come. Whatever goes wrong is tried again, with longer and longer pauses, and told once."""
        if time.monotonic() < self._retry_at:
            time.sleep(wait_s)
            return []
        try:
            consumer = self._consumer or self._made_consumer()
            messages = consumer.take(wait_s)
        except TraceError:
            raise
        except Exception as err:  # the client has a dozen kinds of errors for a server that is away
            self._trouble(err)
            return []
        if messages or not self._server.is_connected:
            return self._in_sequence(messages)
        if time.monotonic() - self._heard_at > _DOUBT_S:
            self._forget_consumer()  # it may be gone without a word; a new one costs a question
            self._heard_at = time.monotonic()
        return []

    def _in_sequence(self, messages: list[Any]) -> list[_Delivery]:
        """The messages up to the first that is missing; what follows a gap is asked for again."""
        found = []
        for delivery in map(_Delivery, messages):
            if delivery.number != self._delivered + 1:
                self._forget_consumer()
                break
            self._delivered += 1
            found.append(delivery)
        if found:
            self._failures, self._heard_at = 0, time.monotonic()
            self._tell_back()
        return found

    def _first_payloads(self) -> list[bytes]:
        """The first payloads from the start on; waits for one."""
        self._at = self._start
        told = False
        while not (found := [one.payload for one in self._fetched(0.3)[:_FIRST_RECORDS] if one.payload]):
            if not told:
                _LOG.warning("%s has no events yet; waiting for the first one, to see what columns it has", self.name)
                told = True
        self._forget_consumer()
        return found

    # ------------------------------------------------------------- the server

    def _ends(self) -> tuple[int, int]:
        """The first sequence number that there is and the last."""
        stream = self._address.topic
        js = self._server.jetstream
        try:
            state = self._server.run(js.stream_info(stream)).state
        except self._nats.js.errors.NotFoundError as err:
            known = [one.config.name for one in self._server.run(js.streams_info())]
            raise TraceError(
                f"the NATS server at {self._address.servers} has no stream '{stream}'{did_you_mean(stream, known)}"
            ) from err
        except self._nats.js.errors.ServiceUnavailableError as err:
            raise TraceError(f"the NATS server at {self._address.servers} has no JetStream; start it with -js") from err
        return max(1, int(state.first_seq)), int(state.last_seq)

    def _checked(self, sequence: int) -> int:
        """The sequence number, if it is still there; with `skip_gaps` the next that is."""
        first, last = self._ends()
        where = f"{self.name}: sequence {sequence:,}"
        if sequence > last + 1:
            raise TraceError(f"{where} is beyond its end at {last:,}; was the stream made anew? Use an empty folder")
        if sequence >= first:
            return sequence
        if self._address.skip_gaps:
            _LOG.warning("%s is gone; %d events are lost, going on at %d", where, first - sequence, first)
            return first
        raise TraceError(
            f"{where} is gone: the server has removed all before {first:,}, so {first - sequence:,} events are lost; "
            "go on without them with --from earliest, and let the stream keep its events for longer"
        )

    def _made_consumer(self) -> NatsPull:
        """A consumer from the next sequence number on; it ends by itself when nobody asks it any more."""
        self._at = self._checked(self._at)
        api, js = self._nats.js.api, self._server.jetstream
        config = api.ConsumerConfig(
            ack_policy=api.AckPolicy.NONE,
            deliver_policy=api.DeliverPolicy.BY_START_SEQUENCE,
            opt_start_seq=self._at,
            filter_subject=self._address.subject or None,
            inactive_threshold=60.0,
            mem_storage=True,
        )

        async def make() -> tuple[NatsPull, int]:
            made = await js.add_consumer(self._address.topic, config)
            pull = self._server.pull(self._address.topic, made.name)
            await pull.start()
            return pull, int(made.num_pending or 0)

        self._consumer, self._pending = consumer, _ = self._server.run(make())
        self._delivered = 0
        return consumer

    def _forget_consumer(self) -> None:
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            with contextlib.suppress(Exception):  # it may be gone, and its server with it
                self._server.run(consumer.stop(), 1.0)

    def _trouble(self, err: Exception) -> None:
        self._forget_consumer()
        self._failures += 1
        self._retry_at = time.monotonic() + min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2**self._failures)
        if self._down_since is None:
            self._down_since = time.monotonic()
            _LOG.warning("%s: the server does not answer (%s); trying again until it does", self.name, said(err))

    def _tell_back(self) -> None:
        if self._down_since is not None:
            _LOG.warning("%s: the server is back after %.0f s", self.name, time.monotonic() - self._down_since)
            self._down_since = None

    async def _lost(self) -> None:
        """The connection broke: what the consumer was about to deliver may never come."""
        self._consumer = None


class _Delivery:
    """A message and what its reply subject says: `$JS.ACK.stream.consumer.times.sequence.number.time.pending`."""

    __slots__ = ("number", "payload", "pending", "sequence", "time_ns")

    def __init__(self, message: Any) -> None:
        tokens = message.reply.split(".")
        # Newer servers put a domain and an account hash in front and a random token behind.
        first = 5 if len(tokens) == 9 else 7
        self.sequence, self.number, self.time_ns, self.pending = map(int, tokens[first : first + 4])
        self.payload: bytes = message.data
