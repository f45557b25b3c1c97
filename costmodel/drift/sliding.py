"""SlidingCount: how many events lie in the last seconds, as the thesis' monitor counts them (Algorithm 1)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


class SlidingCount:
    """Events of the last `length` of time, both ends included. Old events are cleared, then the rest is counted; the
    other order, as printed, would count some that are too old."""

    def __init__(self, length: float) -> None:
        self._length = length
        self._times: npt.NDArray[np.float64] = np.empty(0)

    def add(self, times: npt.ArrayLike) -> None:
        """Takes events in order of time."""
        self._times = np.concatenate([self._times, np.asarray(times, dtype=np.float64)])

    def at(self, now: float) -> int:
        """Events between `now - length` and `now`; earlier ones are forgotten."""
        self._times = self._times[np.searchsorted(self._times, now - self._length, side="left") :]
        return int(np.searchsorted(self._times, now, side="right"))
