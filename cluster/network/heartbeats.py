"""How far the time of each network node has come: what a node promises even when it has no events."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping

import numpy as np

from decopa.query.names import duration_text
from shuffler.rows.columns import Ints


class Heartbeats:
    """Watermarks of the nodes of a network, batch by batch.

    A trace has the events of all nodes in the order of time, so a node without events is as far as the others. With
    `idle_after_us`, nodes know nothing but their own events: a silent node holds its watermark back. Once the others
    are `idle_after_us` ahead of its last event it counts as idle, `tell` says so, and it follows the others until it
    has events again.
    """

    def __init__(
        self,
        nodes: Iterable[str],
        idle_after_us: int | None = None,
        tell: Callable[[str], None] = lambda line: None,
    ) -> None:
        self._nodes, self._idle_after_us, self._tell = tuple(nodes), idle_after_us, tell
        self._last: dict[str, int] = {}
        self._idle: set[str] = set()

    def pieces(self, ts: Ints) -> Iterator[tuple[int, int]]:
        """Consecutive runs of events to take together, as (start, stop): all, or so few that silence shows in time."""
        if self._idle_after_us is None:
            yield 0, len(ts)
            return
        ticks = (ts - ts[0]) // max(1, self._idle_after_us // 2)
        yield from itertools.pairwise([0, *(np.flatnonzero(np.diff(ticks)) + 1).tolist(), len(ts)])

    def after(self, first_us: int, last_us: int, own: Mapping[str, int]) -> dict[str, int]:
        """The watermark of every node after events up to `last_us`, of a trace that began at `first_us`; `own` has the
        time of the last one of each node that has some among them."""
        if self._idle_after_us is None:
            return dict.fromkeys(self._nodes, last_us)
        found = {}
        for node in self._nodes:
            if node in own:
                self._last[node] = own[node]
                self._idle.discard(node)
            # A node that has never had an event is silent since the trace began.
            silent_us = last_us - self._last.setdefault(node, first_us)
            if silent_us >= self._idle_after_us:
                if node not in self._idle:
                    self._idle.add(node)
                    self._tell(
                        f"node '{node}' has been silent for {duration_text(silent_us)} of the trace; the others no "
                        "longer wait for it (--idle-after)"
                    )
                found[node] = last_us
            else:
                found[node] = self._last[node]
        return found
