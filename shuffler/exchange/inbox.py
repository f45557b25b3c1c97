"""Inbox: the channels into a process, and the cuts that barriers make in them.

A barrier divides the stream into before and after. A process that has several senders gets the barrier of each at
another moment; it holds back what a sender sends after its barrier until all barriers are there, so that the state it
then has, and all that it has sent, come of exactly what was before the cut.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from shuffler.exchange.channel import IncomingChannel, Message


class Inbox:
    """Hands messages to `deliver`, once and in order for each sender, and calls `cut(number)` at every barrier.

    What is held back is bounded by what senders may send: they in turn wait for the slower receivers of theirs.
    """

    def __init__(
        self,
        senders: Iterable[str],
        *,
        deliver: Callable[[Message], None],
        cut: Callable[[int], None],
        attempt: int = 0,
    ) -> None:
        self._channels = {sender: IncomingChannel(sender, attempt=attempt) for sender in senders}
        self._deliver, self._cut = deliver, cut
        self._passed: set[str] = set()
        self._held: list[Message] = []

    @property
    def held(self) -> int:
        """Messages that wait for other senders' barriers."""
        return len(self._held)

    def accept(self, message: Message) -> None:
        for ready in self._channels[message.sender].accept(message):
            self._take(ready)

    def _take(self, message: Message) -> None:
        if message.sender in self._passed:
            self._held.append(message)
            return
        self._deliver(message)
        if message.barrier is None:
            return
        self._passed.add(message.sender)
        if len(self._passed) == len(self._channels):
            self._cut(message.barrier)
            self._passed.clear()
            held, self._held = self._held, []
            for one in held:
                self._take(one)
