"""A stored trace as a live stream: plays it to a topic, a NATS stream or a folder at a set rate, in its own process.

    python -m scripts.reliability.feeds kafka trace.parquet 5000 work/

writes `work/address`, the address of the stream, as soon as it can be read, and `work/sent` when all events are sent.
Then it stays: the Kafka broker lives in this process; SIGUSR1 makes it go away and SIGUSR2 come back. A server that is
away is waited for; what NATS has not acknowledged is sent again under the same message id, which the server keeps once.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from scripts.reliability.kafka_broker import KafkaBroker

#: Sends a batch of rows, of which the first has this number in the trace.
Send = Callable[[pa.RecordBatch, int], None]
#: Batches a second: matches cannot be faster than that.
TICKS = 50
PARTITIONS = 4
STREAM = "SOAK"


def play(trace: Path, rate: float, send: Send, first: int = 0) -> int:
    """Sends the events from `first` on at the rate, as nearly as it can; returns how many there are."""
    sent, began = 0, time.monotonic()
    step = max(1, int(rate / TICKS))
    with pq.ParquetFile(trace) as file:
        for batch in file.iter_batches(step):
            if sent >= first:
                ahead_s = (sent - first) / rate - (time.monotonic() - began)
                if ahead_s > 0:
                    time.sleep(ahead_s)
                send(batch, sent)
            sent += batch.num_rows
    return sent


def payloads(batch: pa.RecordBatch) -> Iterator[bytes]:
    """A JSON object for each row, made from columns: the events of a trace are numbers and short strings."""
    form = "{" + ", ".join(f'"{name}": %s' for name in batch.schema.names) + "}"
    columns = [
        [f'"{value}"' for value in column.to_pylist()] if pa.types.is_string(column.type) else column.to_pylist()
        for column in (_plain(column) for column in batch.columns)
    ]
    return ((form % row).encode() for row in zip(*columns, strict=True))


def _plain(column: pa.Array) -> pa.Array:
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


class Kafka:
    """A broker inside this process, and a topic with a partition for each of some keys."""

    def __init__(self, folder: Path) -> None:
        from confluent_kafka import Producer

        self._broker = KafkaBroker()
        settings = {"bootstrap.servers": self._broker.servers, "linger.ms": 5, "log_level": 0}
        # What was sent again after an outage is kept once, in order.
        self._producer = Producer({**settings, "enable.idempotence": True, "message.timeout.ms": 120_000})
        self.address = f"kafka://{self._broker.servers}/soak"
        self._producer.list_topics("soak", timeout=10)
        signal.signal(signal.SIGUSR1, lambda *_: self._broker.go_away())
        signal.signal(signal.SIGUSR2, lambda *_: self._broker.come_back())

    def send(self, batch: pa.RecordBatch, number: int) -> None:
        for index, payload in enumerate(payloads(batch)):
            self._producer.produce("soak", payload, partition=(number + index) % PARTITIONS)
        self._producer.poll(0)

    def finish(self) -> None:
        self._producer.flush(60)


class Nats:
    """A stream of a server that somebody else starts, at the address in `server`."""

    def __init__(self, folder: Path) -> None:
        self._server = (folder / "server").read_text().strip()
        self.address = f"nats://{self._server}/{STREAM}"
        self._loop = asyncio.new_event_loop()
        self._connection: Any = None
        self._loop.run_until_complete(self._make_stream())

    async def _js(self) -> Any:
        import nats

        if self._connection is None or not self._connection.is_connected:
            while True:
                try:
                    self._connection = await nats.connect(
                        f"nats://{self._server}", allow_reconnect=False, connect_timeout=1, error_cb=_quiet
                    )
                    break
                except (OSError, nats.errors.Error):
                    await asyncio.sleep(0.1)
        return self._connection.jetstream(timeout=5)

    async def _make_stream(self) -> None:
        js = await self._js()
        settings = {"subjects": [f"{STREAM}.>"], "max_bytes": 2 << 30, "duplicate_window": 120}
        await js.add_stream(name=STREAM, **settings)

    def send(self, batch: pa.RecordBatch, number: int) -> None:
        self._loop.run_until_complete(self._send(list(payloads(batch)), number))

    async def _send(self, some: Sequence[bytes], number: int) -> None:
        import nats

        while True:
            js = await self._js()
            try:
                acks = []
                for index, payload in enumerate(some):
                    headers = {"Nats-Msg-Id": str(number + index)}
                    acks.append(await js.publish_async(f"{STREAM}.events", payload, headers=headers))
                await asyncio.wait_for(asyncio.gather(*acks), 5)
                return
            except (OSError, TimeoutError, nats.errors.Error):
                # Some may be stored and some not, in order: the server drops those that it has.
                with contextlib.suppress(Exception):
                    await self._connection.close()
                self._connection = None

    def finish(self) -> None:
        pass


class Folder:
    """Files that are moved into a folder, one a second."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "incoming"
        self._folder.mkdir(exist_ok=True)
        self.address = f"folder://{self._folder.resolve()}"
        self._waiting: list[pa.RecordBatch] = []
        self._files = 0

    def send(self, batch: pa.RecordBatch, number: int) -> None:
        self._waiting.append(batch)
        if len(self._waiting) >= TICKS:
            self.finish()

    def finish(self) -> None:
        if self._waiting:
            name = f"events-{self._files:06d}.parquet"
            pq.write_table(pa.Table.from_batches(self._waiting), self._folder / f".{name}")
            (self._folder / f".{name}").rename(self._folder / name)
            self._files, self._waiting = self._files + 1, []


async def _quiet(*_: object) -> None:
    pass


FEEDS = {"kafka": Kafka, "nats": Nats, "folder": Folder}


def main(kind: str, trace: Path, rate: float, folder: Path) -> None:
    feed = FEEDS[kind](folder)
    _write(folder / "address", feed.address)
    events = play(trace, rate, feed.send)
    feed.finish()
    _write(folder / "sent", str(events))
    while True:  # every signal ends a pause
        signal.pause()


def _write(path: Path, text: str) -> None:
    beside = path.with_suffix(".part")
    beside.write_text(text)
    beside.rename(path)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), float(sys.argv[3]), Path(sys.argv[4]))
