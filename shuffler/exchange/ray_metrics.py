"""Numbers for Ray's dashboard and for Prometheus, through `ray.util.metrics`, and those of a shuffler.

Nodes count what they do anyway. A thread of each actor shows the counts twice a second, so the path of the data pays
nothing, and an actor that waits or idles is seen to do so. Ray hands them on every ten seconds
(`metrics_report_interval_ms`) and when the actor ends; Prometheus finds them as `ray_<name>`.
"""

from __future__ import annotations

import re
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from ray.util.metrics import Counter, Gauge

    from shuffler.exchange.ray_links import RayLinks
    from shuffler.exchange.ray_shuffler import ShufflerStatus
    from shuffler.routing.topology import Topology

PUBLISH_EVERY_S = 0.5
#: A share of busy time is taken over so many publications: as long as Ray takes to hand a value on.
_RECENT = 20

Tags = Mapping[str, str]
#: Whose number it is. `process` is the name of the actor; several units may share one.
TAGS = ("query", "operator", "unit", "process")


@dataclass(frozen=True, slots=True)
class MetricSpec:
    """A counter shows a running total and is exported with the suffix `_total`; a gauge shows a level."""

    name: str
    kind: Literal["counter", "gauge"]
    description: str
    tags: tuple[str, ...] = TAGS

    @property
    def exported(self) -> str:
        """The name that Prometheus knows."""
        return f"ray_{self.name}" + ("_total" if self.kind == "counter" else "")


#: What every process shows.
PROCESS_METRICS = (
    MetricSpec("decopa_busy_seconds", "counter", "Time spent on work, without waiting for credit"),
    MetricSpec("decopa_waited_seconds", "counter", "Time spent waiting for credit: a receiver is slower than this"),
    MetricSpec("decopa_busy_fraction", "gauge", "Share of the last 10 s that was spent on work"),
    MetricSpec("decopa_in_flight_messages", "gauge", "Messages sent that their receivers have not worked off"),
    MetricSpec(
        "decopa_queue_messages",
        "gauge",
        "Messages of `sender` that this receiver has not worked off; the sum over senders is its queue",
        (*TAGS, "sender"),
    ),
)
SHUFFLER_METRICS = (
    *PROCESS_METRICS,
    MetricSpec("decopa_events", "counter", "Events that a shuffler has sent on or dropped as of no use"),
    MetricSpec("decopa_messages_sent", "counter", "Messages that a shuffler has sent"),
)


def process_tags(process: str, queries: Iterable[str] = ()) -> Tags:
    """Tags of an actor from its name: `query/operator/unit`, `query/sink` or `queries/shuffler/number`.

    A shuffler serves all of `queries`. Copies of a sliced plan are told apart by `process` alone.
    """
    head, _, unit = process.rpartition("/")
    if unit == "sink":
        query, operator, unit = head, "sink", "0"
    else:
        query, _, operator = head.rpartition("/")
        query = ",".join(queries) or re.sub(r"#\d+$", "", query)
    return {"query": query, "operator": operator, "unit": unit, "process": process}


class Board:
    """The metrics of one process, as they are shown to Ray."""

    def __init__(self, specs: Iterable[MetricSpec]) -> None:
        # Imported here because the list of metrics is of use without Ray.
        from ray.util.metrics import Counter, Gauge

        self._counters: dict[str, Counter] = {}
        self._gauges: dict[str, Gauge] = {}
        for spec in specs:
            if spec.kind == "counter":
                self._counters[spec.name] = Counter(spec.name, spec.description, spec.tags)
            else:
                self._gauges[spec.name] = Gauge(spec.name, spec.description, spec.tags)
        self._shown: dict[tuple[str, str], float] = {}

    def total(self, name: str, value: float, tags: Tags) -> None:
        """Shows how much it is by now; totals never fall."""
        key = name, "\0".join(tags.values())
        more = value - self._shown.get(key, 0)
        if more > 0:
            self._shown[key] = value
            self._counters[name].inc(more, dict(tags))

    def level(self, name: str, value: float, tags: Tags) -> None:
        self._gauges[name].set(value, dict(tags))


class BusyMeter:
    """The share of recent time that was spent on work, from readings of the time spent so far."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._readings: deque[tuple[float, float]] = deque(maxlen=_RECENT + 1)

    def fraction(self, busy_s: float) -> float:
        self._readings.append((self._clock(), busy_s))
        (begin, before), (end, after) = self._readings[0], self._readings[-1]
        # Time is booked when a message is done, so that a long one may seem to be more than all the time; and sleep is
        # booked when it begins.
        return min(max((after - before) / (end - begin), 0.0), 1.0) if end > begin else 0.0


class Publisher:
    """Calls `show` again and again from a thread of its own, and whenever it is asked to; never twice at once."""

    def __init__(self, show: Callable[[], None], *, every_s: float = PUBLISH_EVERY_S) -> None:
        self._show, self._every_s = show, every_s
        self._lock, self._stopped = threading.Lock(), threading.Event()
        threading.Thread(target=self._repeat, name="metrics", daemon=True).start()

    def publish(self) -> None:
        with self._lock:
            self._show()

    def stop(self) -> None:
        self._stopped.set()

    def _repeat(self) -> None:
        while not self._stopped.wait(self._every_s):
            self.publish()


def show_process(
    board: Board, tags: Tags, busy: BusyMeter, *, busy_s: float, waited_s: float, queues: Mapping[str, int]
) -> None:
    """What every process shows; `queues` are the messages that each receiver has not worked off."""
    board.total("decopa_busy_seconds", busy_s, tags)
    board.total("decopa_waited_seconds", waited_s, tags)
    board.level("decopa_busy_fraction", busy.fraction(busy_s), tags)
    board.level("decopa_in_flight_messages", sum(queues.values()), tags)
    for receiver, messages in queues.items():
        board.level("decopa_queue_messages", messages, {**process_tags(receiver), "sender": tags["process"]})


class ShufflerMetrics:
    """Shows what a shuffler has done."""

    def __init__(self, name: str, topology: Topology, links: RayLinks, status: Callable[[], ShufflerStatus]) -> None:
        self._board, self._tags = Board(SHUFFLER_METRICS), process_tags(name, topology.titles)
        self._links, self._status, self._busy = links, status, BusyMeter()

    def show(self) -> None:
        status = self._status()
        queues = self._links.unfinished()
        show_process(self._board, self._tags, self._busy, busy_s=status.busy_s, waited_s=status.waited_s, queues=queues)
        self._board.total("decopa_events", status.events, self._tags)
        self._board.total("decopa_messages_sent", status.messages, self._tags)
