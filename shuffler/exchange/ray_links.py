"""RayLinks: channels from one actor to others. A call carries a message; its return is the acknowledgement."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from typing import Any

import ray
from ray.exceptions import ActorUnavailableError, ActorUnschedulableError, RayActorError, RayTaskError

from decopa.errors import DeployError
from shuffler.exchange.channel import Message, OutgoingChannel

#: How long to wait before messages of unknown fate are sent again; each try doubles it.
_RETRY_AFTER_S = 0.2
_RETRIES = 6


class PeerFailed(DeployError):
    """The receiver is gone or has failed; what went wrong there is told by the receiver, or by who watches it."""


class RayLinks:
    """Sends messages to other actors, at most `window` unacknowledged ones to each; waits for credit otherwise."""

    def __init__(self, process: str, handles: Mapping[str, Any], *, window: int, attempt: int) -> None:
        self._handles = handles
        self._channels = {target: OutgoingChannel(process, window=window, attempt=attempt) for target in handles}
        self._calls: dict[str, deque[tuple[int, Any]]] = {target: deque() for target in handles}
        #: Time spent waiting for credit.
        self.waited_s = 0.0
        self._waits_since: float | None = None

    @property
    def waited_so_far_s(self) -> float:
        """With the wait that is not over yet. May be read from another thread."""
        since = self._waits_since
        return self.waited_s + (0.0 if since is None else time.perf_counter() - since)

    @property
    def in_flight(self) -> int:
        return sum(channel.in_flight for channel in self._channels.values())

    def unfinished(self) -> dict[str, int]:
        """Messages that each receiver has not worked off. Acknowledgements are taken up when credit runs out, so
        some that are in flight by the book have arrived long ago. May be called from another thread."""
        targets = {call: target for target, calls in self._calls.items() for _, call in tuple(calls)}
        found = dict.fromkeys(self._calls, 0)
        if targets:
            for call in ray.wait(list(targets), num_returns=len(targets), timeout=0, fetch_local=False)[1]:
                found[targets[call]] += 1
        return found

    def send(self, target: str, message: Message) -> None:
        channel = self._channels[target]
        while not channel.has_credit:
            self._settle(target)
        self._call(target, channel.stamp(message))

    def greet(self) -> None:
        """Calls everyone once: the first call to an actor opens a connection, which takes half a second."""
        ray.get([handle.pid.remote() for handle in self._handles.values()])

    def wait_for_all(self) -> None:
        """Returns when everything that was sent has been received and worked on."""
        for target, calls in self._calls.items():
            while calls:
                self._settle(target)

    def _call(self, target: str, message: Message) -> None:
        self._calls[target].append((message.sequence, self._handles[target].deliver.remote(message)))

    def _settle(self, target: str) -> None:
        """Waits for the acknowledgement of the oldest message to a receiver."""
        self._waits_since = started = time.perf_counter()
        sequence, call = self._calls[target].popleft()
        try:
            ray.get(call)
        except ActorUnavailableError:
            self._resend(target)
        except (RayActorError, ActorUnschedulableError, RayTaskError) as err:
            raise PeerFailed(f"{target} has failed") from err
        else:
            self._channels[target].acknowledge(sequence)
        finally:
            self._waits_since = None
            self.waited_s += time.perf_counter() - started

    def _resend(self, target: str) -> None:
        """Whether the receiver got its messages is unknown; it drops those that it did get."""
        channel, calls = self._channels[target], self._calls[target]
        for retry in range(_RETRIES):
            calls.clear()
            time.sleep(_RETRY_AFTER_S * 2**retry)
            try:
                for message in channel.unacknowledged():
                    ray.get(self._handles[target].deliver.remote(message))
                    channel.acknowledge(message.sequence)
            except ActorUnavailableError:
                continue
            except (RayActorError, ActorUnschedulableError, RayTaskError) as err:
                raise PeerFailed(f"{target} has failed") from err
            return
        raise PeerFailed(f"{target} could not be reached in {_RETRIES} tries")
