"""Replay: how fast a stored trace is played."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from decopa.errors import DecoPaError
from shuffler.rows.columns import Ints

Seconds = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Replay:
    """As fast as possible, in event time (`speed` seconds of the trace per second), or at `rate` events per second."""

    speed: float | None = None
    rate: float | None = None

    def __post_init__(self) -> None:
        if self.speed is not None and self.rate is not None:
            raise DecoPaError("a replay has a speed or a rate, not both; leave out one of --speed and --rate")
        for name, value in (("speed", self.speed), ("rate", self.rate)):
            if value is not None and not 0 < value < float("inf"):
                raise DecoPaError(f"the replay {name} must be a positive number, got {value}")

    @property
    def is_paced(self) -> bool:
        return self.speed is not None or self.rate is not None

    def arrivals(self, ts: Ints, first_ordinal: int, first_ts: int) -> Seconds:
        """When events are due, in seconds after the start of the replay; ordinals and `first_ts` count from there."""
        if self.speed is not None:
            return (ts - first_ts) / (1e6 * self.speed)
        assert self.rate is not None
        return np.arange(first_ordinal, first_ordinal + len(ts), dtype=np.float64) / self.rate
