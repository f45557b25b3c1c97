"""Channels: numbered messages from one process to another, delivered once and in order whatever the network does.

The sender numbers messages and keeps them until they are acknowledged; how many it may keep is the window, so an
acknowledgement is also a credit to send on: a slow receiver slows its senders down, up to the source. The receiver
drops what it has seen and puts right what overtook. Messages carry the attempt of the run that sent them, so that
what an earlier attempt left behind is told apart.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from shuffler.exchange.wire import Encoded


@dataclass(frozen=True, slots=True)
class Message:
    """Rows and watermarks for the lanes of a channel (see `shuffler.routing.topology`); rows come before watermarks.

    `urgent` asks the receiver to pass on at once what comes of it. `barrier` is the number of a checkpoint that cuts
    the stream after this message.
    """

    sender: str
    attempt: int
    sequence: int
    rows: tuple[tuple[int, Encoded], ...] = ()
    watermarks: tuple[tuple[int, int], ...] = ()
    urgent: bool = False
    barrier: int | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Every message is pickled by Ray; this is several times quicker than what a frozen dataclass does."""
        return Message, (
            self.sender, self.attempt, self.sequence, self.rows, self.watermarks, self.urgent, self.barrier,
        )  # fmt: skip


class OutgoingChannel:
    """The sender's end."""

    def __init__(self, sender: str, *, window: int, attempt: int = 0, first: int = 0) -> None:
        self._sender, self._window, self._attempt = sender, window, attempt
        self._next = first
        self._waiting: OrderedDict[int, Message] = OrderedDict()

    @property
    def next_sequence(self) -> int:
        return self._next

    @property
    def in_flight(self) -> int:
        return len(self._waiting)

    @property
    def has_credit(self) -> bool:
        return len(self._waiting) < self._window

    def stamp(self, message: Message) -> Message:
        """The message as the next one of this channel; it is kept until it is acknowledged."""
        if not self.has_credit:
            raise RuntimeError(f"channel of {self._sender} has {len(self._waiting)} messages in flight and no credit")
        stamped = replace(message, sender=self._sender, attempt=self._attempt, sequence=self._next)
        self._waiting[self._next] = stamped
        self._next += 1
        return stamped

    def acknowledge(self, sequence: int) -> None:
        """The receiver has this message; a second acknowledgement changes nothing."""
        self._waiting.pop(sequence, None)

    def unacknowledged(self) -> Sequence[Message]:
        """What to send again if the receiver may not have got it, oldest first."""
        return tuple(self._waiting.values())


class IncomingChannel:
    """The receiver's end."""

    def __init__(self, sender: str, *, attempt: int = 0, first: int = 0) -> None:
        self._sender, self._attempt = sender, attempt
        self._next = first
        self._early: dict[int, Message] = {}

    @property
    def next_sequence(self) -> int:
        """The number of the first message that has not been delivered yet."""
        return self._next

    def accept(self, message: Message) -> Iterator[Message]:
        """The messages that can be delivered now, in order; none for one that was seen, is too early or stale."""
        if message.attempt != self._attempt:
            return
        if message.sequence >= self._next:
            self._early[message.sequence] = message
        while (ready := self._early.pop(self._next, None)) is not None:
            self._next += 1
            yield ready
