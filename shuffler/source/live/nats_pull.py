"""NatsPull: the messages of a consumer as they come. More are asked for before the last ones are there, so nobody waits
for a question and its answer, and the client is not asked for every single message."""

from __future__ import annotations

import json
import threading
from typing import Any

#: Messages that the server may send unasked, and how long it remembers that it may.
_CREDIT = 8_000
_EXPIRES_S = 30.0
_PENDING = "Nats-Pending-Messages"
#: What a message without data says: a request has ended, or the server is still there. Anything else is the end of the
#: consumer.
_REQUEST_ENDED, _ALIVE = ("404", "408"), "100"


class NatsPull:
    """Reads one consumer; `start` and `stop` run in the loop of the connection, the others anywhere."""

    def __init__(self, connection: Any, stream: str, consumer: str, prefix: str) -> None:
        self._connection, self._subject = connection, f"{prefix}.CONSUMER.MSG.NEXT.{stream}.{consumer}"
        self._inbox: str = connection.new_inbox()
        self._subscription: Any = None
        self._lock, self._something = threading.Lock(), threading.Event()
        self._messages: list[Any] = []
        #: How many messages the server may still send.
        self._credit = 0
        self._ended: str | None = None

    async def start(self) -> None:
        self._subscription = await self._connection.subscribe(self._inbox, cb=self._on_message)
        await self._ask()

    async def stop(self) -> None:
        await self._subscription.unsubscribe()

    def take(self, wait_s: float) -> list[Any]:
        """The messages since the last call, or the first of the next `wait_s`. ConnectionError once the consumer is
        gone and its last message was taken."""
        self._something.wait(wait_s)
        with self._lock:
            taken, self._messages = self._messages, []
            if self._ended is None:
                self._something.clear()
        if not taken and self._ended is not None:
            raise ConnectionError(self._ended)
        return taken

    async def _ask(self) -> None:
        more = _CREDIT - self._credit
        self._credit += more
        request = {"batch": more, "expires": int(_EXPIRES_S * 1e9)}
        await self._connection.publish(self._subject, json.dumps(request).encode(), self._inbox)

    async def _on_message(self, message: Any) -> None:
        status = None if message.data or not message.headers else message.headers.get("Status")
        if status is None:
            self._credit -= 1
            with self._lock:
                self._messages.append(message)
            self._something.set()
        elif status in _REQUEST_ENDED:
            self._credit -= int(message.headers.get(_PENDING, self._credit))
        elif status != _ALIVE:
            self._ended = str(message.headers.get("Description", f"status {status}"))
            self._something.set()
            return
        if self._credit <= _CREDIT // 2:
            await self._ask()
