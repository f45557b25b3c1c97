"""FeedCounts: what a shuffler has seen so far, for monitors that look at a run while it goes on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from shuffler.routing.table import NOTHING_YET


@dataclass(frozen=True)
class FeedCounts:
    """Events by type, rows by leaf, and the time of the last event.

    `leaves` counts, by part and leaf, the rows that passed the conditions on that event alone; the copies of a sliced
    plan each count theirs. `last_ts` is NOTHING_YET before the first event.
    """

    types: Mapping[str, int] = field(default_factory=dict)
    leaves: Mapping[tuple[int, str], int] = field(default_factory=dict)
    last_ts: int = NOTHING_YET

    @classmethod
    def united(cls, counts: Iterable[FeedCounts]) -> FeedCounts:
        """The counts of several shufflers that share a stream."""
        types: dict[str, int] = {}
        leaves: dict[tuple[int, str], int] = {}
        last_ts = NOTHING_YET
        for one in counts:
            for name, events in one.types.items():
                types[name] = types.get(name, 0) + events
            for leaf, rows in one.leaves.items():
                leaves[leaf] = leaves.get(leaf, 0) + rows
            last_ts = max(last_ts, one.last_ts)
        return cls(types, leaves, last_ts)
