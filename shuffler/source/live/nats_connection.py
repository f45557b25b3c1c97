"""A connection to a NATS server for programs that are not asynchronous: its loop runs in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from decopa.errors import TraceError
from shuffler.source.live.address import SourceAddress
from shuffler.source.live.kafka import client_settings
from shuffler.source.live.nats_pull import NatsPull

ANSWER_S = 5.0
Result = TypeVar("Result")


async def _ignore(*_: object) -> None:
    """The client prints what it is not asked to pass on."""


class NatsConnection:
    """Connected to the servers of an address; a connection that breaks later comes back by itself."""

    def __init__(self, address: SourceAddress, lost: Callable[[], Awaitable[None]] = _ignore) -> None:
        self.client = _client()
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="decopa-nats", daemon=True).start()
        servers = [f"nats://{server}" for server in address.servers.split(",")]
        settings = client_settings(address.config)

        async def connect() -> Any:
            return await self.client.connect(
                servers,
                max_reconnect_attempts=-1,
                reconnect_time_wait=0.5,
                connect_timeout=2,
                error_cb=_ignore,
                disconnected_cb=lost,
                reconnected_cb=_ignore,
                **settings,
            )

        try:
            self._connection = self.run(connect(), ANSWER_S)
        except (OSError, TimeoutError, self.client.errors.Error) as err:
            raise TraceError(
                f"no NATS server answers at {address.servers}: {said(err)}; check the address, and that the server runs"
            ) from err
        except TypeError as err:
            raise TraceError(f"the NATS client refuses its settings: {err}; check the config file") from err

    @property
    def jetstream(self) -> Any:
        return self._connection.jetstream(timeout=ANSWER_S)

    def pull(self, stream: str, consumer: str) -> NatsPull:
        """Reads this consumer, once it is started."""
        return NatsPull(self._connection, stream, consumer, self.client.js.api.DEFAULT_PREFIX)

    @property
    def is_connected(self) -> bool:
        return bool(self._connection.is_connected)

    def run(self, work: Coroutine[Any, Any, Result], timeout_s: float = ANSWER_S) -> Result:
        """Does the work in the loop and waits for it."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result(timeout_s)
        except TimeoutError:
            future.cancel()
            raise


def said(err: BaseException) -> str:
    return str(err) or type(err).__name__


def _client() -> Any:
    try:
        import nats
        import nats.js.api
        import nats.js.errors
    except ImportError as err:
        raise TraceError("NATS needs its client; install it with: pip install 'decopa[nats]'") from err
    return nats
