"""Brokers for tests: librdkafka's own inside the client, and a real NATS server."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from scripts.reliability.kafka_broker import KafkaBroker as BareBroker


class KafkaBroker(BareBroker):
    """A broker with somebody who sends to it."""

    def __init__(self) -> None:
        from confluent_kafka import Producer

        super().__init__()
        self._producer = Producer({"bootstrap.servers": self.servers, "linger.ms": 1, "log_level": 0})

    def send(
        self, topic: str, payloads: Sequence[bytes | None], partition: int = 0, times_ms: Sequence[int] = ()
    ) -> None:
        for index, payload in enumerate(payloads):
            while True:
                try:
                    stamp = {"timestamp": times_ms[index]} if times_ms else {}
                    self._producer.produce(topic, payload, partition=partition, **stamp)
                    break
                except BufferError:
                    self._producer.poll(0.1)
        self._producer.flush(30)

    def address(self, topic: str, options: str = "") -> str:
        return f"kafka://{self.servers}/{topic}" + (f"?{options}" if options else "")


class NatsServer:
    """A server with JetStream in a process of its own, whose streams outlive it."""

    def __init__(self, folder: Path) -> None:
        self._folder, self.port = folder, free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def servers(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        binary = Path(sys.executable).parent / "nats-server"
        command = [str(binary), "-a", "127.0.0.1", "-p", str(self.port), "-js", "-sd", str(self._folder)]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.run(lambda js: js.account_info())

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def make_stream(self, name: str, **settings: Any) -> None:
        self.run(lambda js: js.add_stream(name=name, subjects=[f"{name}.>"], **settings))

    def send(self, stream: str, payloads: Sequence[bytes], subject: str = "events") -> None:
        async def publish(js: Any) -> None:
            for payload in payloads:
                await js.publish_async(f"{stream}.{subject}", payload)
            await js.publish_async_completed()

        self.run(publish)

    def run(self, work: Callable[[Any], Awaitable[Any]], patience_s: float = 20.0) -> Any:
        """Does some work with a new connection, as soon as the server answers."""
        import nats

        async def connected() -> Any:
            connection = await nats.connect(f"nats://{self.servers}", allow_reconnect=False, error_cb=_quiet)
            try:
                return await work(connection.jetstream())
            finally:
                await connection.close()

        until = time.monotonic() + patience_s
        while True:
            try:
                return asyncio.run(connected())
            except (OSError, nats.errors.Error):
                if time.monotonic() > until:
                    raise
                time.sleep(0.05)


async def _quiet(*_: object) -> None:
    pass


@contextlib.contextmanager
def nats_server(folder: Path) -> Iterator[NatsServer]:
    server = NatsServer(folder)
    try:
        yield server
    finally:
        server.kill()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def json_payloads(table: pa.Table) -> list[bytes]:
    return [json.dumps(row).encode() for row in table.to_pylist()]


def stream_payload(rows: pa.RecordBatch) -> bytes:
    """The rows as an Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_batch(rows)
    return bytes(sink.getvalue())


def event(number: int, **more: object) -> bytes:
    return json.dumps({"id": number, "ts": number, "type": "A", "x": number / 2, **more}).encode()


def rows_of(blocks: Iterator[Any]) -> list[Mapping[str, Any]]:
    return [row for block in blocks if block is not None for row in block.rows.to_pylist()]
