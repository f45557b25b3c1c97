"""The time of day as processes of one run agree on it, whatever the clocks of their machines say."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

#: Seconds by which the clock of this process is ahead: tests make machines with wrong clocks this way.
_SKEW_S = float(os.environ.get("DECOPA_TEST_CLOCK_SKEW_S", "0"))


def machine_time_s() -> float:
    """What the clock of this machine says."""
    return time.time() + _SKEW_S


class WallClock:
    """The clock of this machine, set right by how far it was found to be ahead of the driver's."""

    def __init__(self, read: Callable[[], float] = machine_time_s) -> None:
        self._read = read
        self._ahead_s = 0.0

    def __call__(self) -> float:
        return self._read() - self._ahead_s

    def set_right(self, ahead_s: float) -> None:
        self._ahead_s = ahead_s


@dataclass(frozen=True, slots=True)
class ClockReading:
    """A clock that was read elsewhere between two moments here."""

    sent_s: float
    there_s: float
    received_s: float


@dataclass(frozen=True, slots=True)
class ClockOffset:
    """By how much a clock is ahead of this one, to within `error_s`."""

    ahead_s: float
    error_s: float

    @property
    def correction_s(self) -> float:
        """What to set the clock right by: nothing, if the way of the answer explains the difference."""
        return self.ahead_s if abs(self.ahead_s) > self.error_s else 0.0


def clock_offset(readings: Sequence[ClockReading]) -> ClockOffset:
    """What several readings of one clock say together: each bounds the offset from both sides."""
    least = max(one.there_s - one.received_s for one in readings)
    most = min(one.there_s - one.sent_s for one in readings)
    return ClockOffset((least + most) / 2, max(0.0, (most - least) / 2))
