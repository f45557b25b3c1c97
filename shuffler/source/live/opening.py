"""Opens the source behind an address."""

from __future__ import annotations

import socket

from decopa.errors import TraceError
from shuffler.rows.events import TraceColumns
from shuffler.source.dead_letters import DeadLetters
from shuffler.source.json_lines import JsonLines
from shuffler.source.live.address import SourceAddress
from shuffler.source.live.interface import BatchReader, LiveReader, LiveSource, SourceReader
from shuffler.source.readers import StreamReader
from shuffler.source.stopping import Stop


def open_live(
    address: SourceAddress, columns: TraceColumns, letters: DeadLetters, stop: Stop | None = None
) -> LiveReader:
    """The reader of a live source; clients of brokers are imported here, by those who need them."""
    if address.kind == "tcp":
        lines = _lines_of(address, columns, stop)
        lines.divert_to(letters)
        return BatchReader(StreamReader(lines, address.name))
    source: LiveSource
    if address.kind == "kafka":
        from shuffler.source.live.kafka import KafkaSource

        source = KafkaSource(address, columns, letters)
    elif address.kind == "nats":
        from shuffler.source.live.nats import NatsSource

        source = NatsSource(address, columns, letters)
    else:
        from shuffler.source.live.folder import FolderSource

        source = FolderSource(address, columns, letters)
    return SourceReader(source, stop)


def _lines_of(address: SourceAddress, columns: TraceColumns, stop: Stop | None) -> JsonLines:
    """JSON lines that a server sends; they come once, so a run on them cannot have checkpoints."""
    host, _, port = address.servers.rpartition(":")
    if not host or not port.isdigit():
        raise TraceError(f"'{address.servers}' is no host and port; write tcp://host:9000")
    try:
        connection = socket.create_connection((host, int(port)), timeout=5.0)
    except OSError as err:
        raise TraceError(
            f"no server answers at {address.servers}: {err.strerror or err}; check the address, and that it listens"
        ) from err
    connection.settimeout(None)
    return JsonLines(connection.detach(), ts=columns.ts, kinds=address.columns, name=address.name, stop=stop)
