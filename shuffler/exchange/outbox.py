"""Outbox: what a process has to send, gathered per channel until it is worth a message.

A message costs about the same whatever it carries, so rows wait for company: until there are enough, or until the
flush interval has passed, or until an urgent message or the end of the stream pushes everything on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from shuffler.exchange.channel import Message
from shuffler.exchange.wire import BatchCodec
from shuffler.routing.table import END_OF_STREAM, Delivery
from shuffler.routing.topology import Lane, Topology
from shuffler.rows.batch import Batch

#: Messages are at most this many times as long as they need to be.
_MOST_ROWS = 4

Send = Callable[[str, Message], None]
Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class FlushPolicy:
    """When gathered rows are sent: at `max_rows` for one receiver, or after `interval_s`."""

    max_rows: int = 16_384
    interval_s: float = 0.005


@dataclass
class _Bundle:
    """What waits for one receiver: rows and the latest watermark of each lane."""

    rows: dict[int, list[Batch]] = field(default_factory=dict)
    watermarks: dict[int, int] = field(default_factory=dict)
    count: int = 0


class Outbox:
    """Gathers deliveries and hands messages to `send`, which may block; sequence numbers are the channel's."""

    def __init__(
        self,
        process: str,
        topology: Topology,
        codec_of: Callable[[int, str], BatchCodec],
        *,
        send: Send,
        policy: FlushPolicy,
        clock: Clock,
    ) -> None:
        self._process, self._send, self._policy, self._clock = process, send, policy, clock
        outgoing = topology.outgoing(process)
        self._codecs = {
            (target, index): codec_of(lane.part, lane.source)
            for target, lanes in outgoing.items()
            for index, lane in enumerate(lanes)
        }
        self._places = _places(outgoing)
        self._bundles = {target: _Bundle() for target in outgoing}
        self._flushed = clock()
        self.rows_sent = self.messages_sent = 0

    @property
    def targets(self) -> tuple[str, ...]:
        return tuple(self._bundles)

    def put(self, part: int, copy: int, delivery: Delivery) -> None:
        """Takes rows or a watermark; sends what has become a full message."""
        target_name = None if delivery.edge is None else delivery.edge.target.name
        target, lane = self._places[part, copy, delivery.sender, target_name, delivery.unit]
        bundle = self._bundles[target]
        if isinstance(delivery.content, Batch):
            bundle.rows.setdefault(lane, []).append(delivery.content)
            bundle.count += delivery.content.length
            # Watermarks that follow their rows travel with them, unless there is far too much to wait for them.
            if bundle.count >= _MOST_ROWS * self._policy.max_rows:
                self._ship(target, urgent=False)
        else:
            bundle.watermarks[lane] = delivery.content

    def flush(self, *, urgent: bool = False, barrier: int | None = None) -> bool:
        """Sends what is enough for a message or has waited for long, and all if it is urgent, the end, or a barrier;
        returns whether nothing waits any more."""
        now = self._clock()
        due = urgent or barrier is not None or now - self._flushed >= self._policy.interval_s
        if due:
            self._flushed = now
        for target, bundle in self._bundles.items():
            ready = due or bundle.count >= self._policy.max_rows or END_OF_STREAM in bundle.watermarks.values()
            if barrier is not None or (ready and (bundle.rows or bundle.watermarks)):
                self._ship(target, urgent=urgent, barrier=barrier)
        return due

    def _ship(self, target: str, *, urgent: bool, barrier: int | None = None) -> None:
        bundle = self._bundles[target]
        self._bundles[target] = _Bundle()
        rows = tuple((lane, self._codecs[target, lane].encode(batches)) for lane, batches in bundle.rows.items())
        self.rows_sent += bundle.count
        self.messages_sent += 1
        watermarks = tuple(bundle.watermarks.items())
        self._send(target, Message(self._process, 0, 0, rows, watermarks, urgent, barrier))


def _places(outgoing: Mapping[str, tuple[Lane, ...]]) -> dict[tuple[int, int, str, str | None, int], tuple[str, int]]:
    return {
        (lane.part, lane.copy, lane.sender, lane.target, lane.unit): (target, index)
        for target, lanes in outgoing.items()
        for index, lane in enumerate(lanes)
    }
