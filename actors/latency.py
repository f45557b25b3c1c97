"""Detection latency: from the arrival of a match's last event to the moment its match reaches the sink."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from shuffler.routing.table import NOTHING_YET

#: Buckets grow by 2 % from a microsecond to about an hour, so that quantiles are exact to 2 %.
_GROWTH = 1.02
_FIRST_S = 1e-6
_BUCKETS = 1_120
_ENDS_S = _FIRST_S * _GROWTH ** np.arange(1, _BUCKETS + 1)
#: Marks are thinned out above this many.
_MAX_MARKS = 1 << 20


@dataclass(frozen=True, slots=True)
class LatencySummary:
    """Seconds; all 0 if nothing was measured."""

    count: int = 0
    p50_s: float = 0.0
    p99_s: float = 0.0
    max_s: float = 0.0
    p999_s: float = 0.0


class LatencyHistogram:
    def __init__(self) -> None:
        self._counts = np.zeros(_BUCKETS, dtype=np.int64)
        self._max_s = 0.0

    def add(self, seconds: npt.NDArray[np.float64]) -> None:
        if not len(seconds):
            return
        places = np.log(np.maximum(seconds, _FIRST_S) / _FIRST_S) / np.log(_GROWTH)
        self._counts += np.bincount(np.clip(places.astype(np.int64), 0, _BUCKETS - 1), minlength=_BUCKETS)
        self._max_s = max(self._max_s, float(seconds.max()))

    def summary(self) -> LatencySummary:
        total = int(self._counts.sum())
        if not total:
            return LatencySummary()
        return LatencySummary(total, self._quantile(0.5), self._quantile(0.99), self._max_s, self._quantile(0.999))

    @property
    def counts(self) -> npt.NDArray[np.int64]:
        """How many fell into each bucket so far; differences of two are what came in between, see `between`."""
        return self._counts.copy()

    @classmethod
    def between(cls, before: npt.NDArray[np.int64] | None, after: npt.NDArray[np.int64]) -> LatencyHistogram:
        """What came between two readings of `counts`; its largest is known to a bucket only."""
        found = cls()
        found._counts = after - before if before is not None else after.copy()
        filled = np.flatnonzero(found._counts)
        found._max_s = float(_ENDS_S[filled[-1]]) if len(filled) else 0.0
        return found

    def up_to(self, bounds_s: Sequence[float]) -> list[int]:
        """How many were at most so long, for each of the bounds; exact to a bucket."""
        counts = np.concatenate([[0], np.cumsum(self._counts)])
        return [int(counts[place]) for place in np.searchsorted(_ENDS_S, bounds_s, side="right")]

    def _quantile(self, share: float) -> float:
        reached = np.cumsum(self._counts) >= share * self._counts.sum()
        return min(_FIRST_S * _GROWTH ** (int(np.argmax(reached)) + 1), self._max_s)


class LatencyMeter:
    """Finds the arrival of a match's last event from marks (ts, time of arrival) that shufflers leave.

    The event at time ts arrived no later than the first mark at or after ts. Matches may overtake the mark they need;
    they wait for it. Marks that no later match can need are forgotten.
    """

    def __init__(self) -> None:
        self.histogram = LatencyHistogram()
        self._ts = np.empty(0, dtype=np.int64)
        self._arrival = np.empty(0, dtype=np.float64)
        self._waiting: list[tuple[npt.NDArray[np.int64], float]] = []
        #: The time of the newest event that has arrived.
        self.newest_ts = NOTHING_YET

    def mark(self, ts: npt.NDArray[np.int64], arrival: npt.NDArray[np.float64]) -> None:
        """Shufflers work in turn on one stream, so a late mark of one may fall between those of another."""
        ts, arrival = np.concatenate([self._ts, ts]), np.concatenate([self._arrival, arrival])
        if len(ts) > 1:
            order = np.argsort(ts, kind="stable")
            ts, arrival = ts[order], arrival[order]
        if len(ts) > _MAX_MARKS:
            ts, arrival = ts[1::2], arrival[1::2]
        self._ts, self._arrival = ts, arrival
        self.newest_ts = max(self.newest_ts, int(ts[-1]))
        waiting, self._waiting = self._waiting, []
        for ends, now_s in waiting:
            self.matches(ends, now_s)

    def forget_before(self, watermark_us: int) -> None:
        """No later match ends before the watermark; those that wait for their mark keep waiting."""
        gone = int(np.searchsorted(self._ts, watermark_us))
        self._ts, self._arrival = self._ts[gone:], self._arrival[gone:]

    def matches(self, end_ts: npt.NDArray[np.int64], now_s: float) -> None:
        places = np.searchsorted(self._ts, end_ts)
        known = places < len(self._ts)
        self.histogram.add(now_s - self._arrival[places[known]])
        if not known.all():
            self._waiting.append((end_ts[~known], now_s))
