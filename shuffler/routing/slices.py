"""Slices: copies of a plan that take turns on batches of two windows (the RIP-inspired baseline of 7.1).

Copy k gets the events of every n-th window and of the one after it, and reports the matches that begin in the first
of the two, so that each match is found whole by exactly one copy. A NOT at the start of a SEQ also looks at the window
before.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from decopa.planning.plan import QueryPlan
from shuffler.rows.batch import Batch
from shuffler.rows.columns import Ints


class Slices:
    def __init__(self, plan: QueryPlan) -> None:
        self.count, self._window_us = plan.slices, plan.query.window_us
        looks_back = any(not negation.after for negation in plan.query.negations)
        self._reach = (1, 0, -1) if looks_back else (0, -1)

    def members(self, ts: Ints, number: int) -> npt.NDArray[np.bool_] | None:
        """Flags of the events that a copy must see; None means all."""
        if self.count == 1:
            return None
        windows = ts // self._window_us
        mine = np.zeros(len(ts), dtype=np.bool_)
        for offset in self._reach:
            mine |= (windows + offset) % self.count == number
        return mine

    def begun_in(self, batch: Batch, number: int) -> Batch:
        """The matches that a copy reports."""
        if self.count == 1:
            return batch
        first = batch.columns["min_ts"] // self._window_us % self.count == number
        return batch if bool(first.all()) else batch.take(np.flatnonzero(first))
