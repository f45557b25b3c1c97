"""Emulated links: a message takes as long as a link of a declared bandwidth and latency would make it take.

Messages of one link leave one after the other, each as long on its way as its bytes take; the latency adds to that and
does not hold up the next one. So links are honest where all processes share one machine.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from shuffler.exchange.channel import Message
from shuffler.exchange.outbox import Clock, Send
from shuffler.routing.traffic import WATERMARK_BYTES

#: Messages that may wait for a link; then the sender waits, too.
_WAITING = 16


@dataclass(frozen=True, slots=True)
class LinkSpeed:
    """What a link lets through: bytes per second (None: any number) and seconds from end to end."""

    bytes_per_s: float | None = None
    latency_s: float = 0.0

    @property
    def is_emulated(self) -> bool:
        return self.bytes_per_s is not None or self.latency_s > 0


class LinkSchedule:
    """When messages of one link arrive."""

    def __init__(self, speed: LinkSpeed) -> None:
        self._speed = speed
        self._free_s = float("-inf")

    def arrival(self, size: int, now_s: float) -> float:
        """The moment at which `size` bytes that are handed over now are at the other end."""
        begin_s = max(now_s, self._free_s)
        self._free_s = begin_s + (size / self._speed.bytes_per_s if self._speed.bytes_per_s is not None else 0.0)
        return self._free_s + self._speed.latency_s


class EmulatedLinks:
    """Hands messages to `send` when a link of the declared speed has carried them; others go at once.

    Every emulated link has a thread, so that a slow one does not hold up the others; `send` is called from the threads
    of different receivers, never from two for the same one.
    """

    def __init__(
        self,
        send: Send,
        speeds: Mapping[str, LinkSpeed],
        *,
        clock: Clock = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._send, self._clock, self._sleep = send, clock, sleep
        self._failure: Exception | None = None
        self._schedules = {target: LinkSchedule(speed) for target, speed in speeds.items() if speed.is_emulated}
        self._queues: dict[str, queue.Queue[tuple[float, Message] | None]] = {
            target: queue.Queue(_WAITING) for target in self._schedules
        }
        for target in self._queues:
            threading.Thread(target=self._carry, args=(target,), name=f"link to {target}", daemon=True).start()

    def send(self, target: str, message: Message) -> None:
        """Puts a message on its way; what went wrong with an earlier one is raised here."""
        self._raise_failure()
        if target not in self._queues:
            self._send(target, message)
            return
        arrival_s = self._schedules[target].arrival(size_of(message), self._clock())
        self._queues[target].put((arrival_s, message))

    def wait_for_all(self) -> None:
        """Returns when every message has been carried and handed over."""
        for waiting in self._queues.values():
            waiting.join()
        self._raise_failure()

    def stop(self) -> None:
        """Ends the threads; what is still on its way is dropped."""
        self._failure = self._failure or RuntimeError("the links have been stopped")
        for waiting in self._queues.values():
            waiting.put(None)

    def _carry(self, target: str) -> None:
        waiting = self._queues[target]
        while (taken := waiting.get()) is not None:
            arrival_s, message = taken
            try:
                if self._failure is None:
                    while (left_s := arrival_s - self._clock()) > 0:
                        self._sleep(left_s)
                    self._send(target, message)
            except Exception as err:  # told to whoever sends next, or waits
                self._failure = err
            finally:
                waiting.task_done()

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure


def size_of(message: Message) -> int:
    """Bytes of a message on the wire, as traffic counts them."""
    rows: int = sum(buffer.size for _, encoded in message.rows for buffer in encoded)
    return rows + WATERMARK_BYTES * len(message.watermarks)
