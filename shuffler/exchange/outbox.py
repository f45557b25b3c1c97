"""Outbox: what a process has to send, gathered per channel until it is worth a message.

A message costs about the same whatever it carries, so rows wait for company: until there are enough, or until the
flush interval has passed, or until an urgent message or the end of the stream pushes everything on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from decopa.choices import COMPRESSIONS
from decopa.errors import DeployError, did_you_mean
from shuffler.exchange.channel import Message
from shuffler.exchange.wire import BatchCodec, Encoded, compressed
from shuffler.routing.table import END_OF_STREAM, Delivery
from shuffler.routing.topology import Lane, Topology
from shuffler.rows.batch import Batch

#: Messages are at most this many times as long as they need to be.
_MOST_ROWS = 4

Send = Callable[[str, Message], None]
Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class FlushPolicy:
    """When gathered rows are sent: at `max_rows` for one receiver, or after `interval_s`; and whether they are
    compressed, by which of `COMPRESSIONS`."""

    max_rows: int = 16_384
    interval_s: float = 0.005
    compression: str | None = None

    def __post_init__(self) -> None:
        if self.compression is not None and self.compression not in COMPRESSIONS:
            raise DeployError(f"unknown compression '{self.compression}'{did_you_mean(self.compression, COMPRESSIONS)}")


@dataclass
class _Bundle:
    """What waits for one receiver: rows and the latest watermark of each lane."""

    rows: dict[int, list[Batch]] = field(default_factory=dict)
    watermarks: dict[int, int] = field(default_factory=dict)
    count: int = 0


class Outbox:
    """Gathers deliveries and hands messages to `send`, which may block; sequence numbers are the channel's.

    A receiver may gather what comes of a message that is not urgent. So an urgent flush owes every such receiver an
    urgent message, an empty one if nothing waits: only then has all that was ever put in here been passed on, by all
    processes down to the sinks. A receiver whose last message was urgent holds nothing of this sender's.
    """

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
        self._broadcast = _broadcast_lanes(outgoing)
        #: What was encoded for the first receiver of broadcast rows, for the others; gone when all have been served.
        self._encoded: dict[tuple[BatchCodec, tuple[int, ...]], tuple[list[Batch], Encoded]] = {}
        self._bundles = {target: _Bundle() for target in outgoing}
        #: Receivers whose last message was not urgent.
        self._owed: set[str] = set()
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
        returns whether nothing waits any more. If it is urgent, receivers pass on what earlier messages left there."""
        now = self._clock()
        due = urgent or barrier is not None or now - self._flushed >= self._policy.interval_s
        if due:
            self._flushed = now
        for target, bundle in self._bundles.items():
            ready = due or bundle.count >= self._policy.max_rows or END_OF_STREAM in bundle.watermarks.values()
            owed = urgent and self._owes(target)
            if barrier is not None or owed or (ready and (bundle.rows or bundle.watermarks)):
                self._ship(target, urgent=urgent, barrier=barrier)
        self._encoded.clear()
        return due

    def _owes(self, target: str) -> bool:
        """Whether the receiver may hold what came of earlier messages."""
        return target in self._owed

    def _ship(self, target: str, *, urgent: bool, barrier: int | None = None) -> None:
        bundle = self._bundles[target]
        self._bundles[target] = _Bundle()
        rows = tuple((lane, self._encode((target, lane), batches)) for lane, batches in bundle.rows.items())
        self.rows_sent += bundle.count
        self.messages_sent += 1
        if urgent:
            self._owed.discard(target)
        else:
            self._owed.add(target)
        watermarks = tuple(bundle.watermarks.items())
        self._send(target, Message(self._process, 0, 0, rows, watermarks, urgent, barrier))

    def _encode(self, place: tuple[str, int], batches: list[Batch]) -> Encoded:
        """The rows as bytes. A broadcast hands the same batches to every unit, so they are encoded once for all."""
        codec = self._codecs[place]
        if place not in self._broadcast:
            return self._packed(codec, batches)
        key = codec, tuple(map(id, batches))
        if key not in self._encoded:  # the batches are kept with it, or others might get their ids
            self._encoded[key] = batches, self._packed(codec, batches)
        return self._encoded[key][1]

    def _packed(self, codec: BatchCodec, batches: list[Batch]) -> Encoded:
        encoded, compression = codec.encode(batches), self._policy.compression
        return encoded if compression is None else compressed(encoded, compression)


def _broadcast_lanes(outgoing: Mapping[str, tuple[Lane, ...]]) -> frozenset[tuple[str, int]]:
    """The lanes on which several receivers may get the same rows, by (target, index): those of one sender to several
    units or operators. Rows that are dealt out come in batches of their own, and are never found again."""
    found: dict[tuple[int, int, str], list[tuple[str, int]]] = {}
    for target, lanes in outgoing.items():
        for index, lane in enumerate(lanes):
            if not lane.dealt:
                found.setdefault((lane.part, lane.copy, lane.sender), []).append((target, index))
    return frozenset(place for places in found.values() if len(places) > 1 for place in places)


def _places(outgoing: Mapping[str, tuple[Lane, ...]]) -> dict[tuple[int, int, str, str | None, int], tuple[str, int]]:
    return {
        (lane.part, lane.copy, lane.sender, lane.target, lane.unit): (target, index)
        for target, lanes in outgoing.items()
        for index, lane in enumerate(lanes)
    }
