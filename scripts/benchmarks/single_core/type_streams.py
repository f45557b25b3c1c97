"""A trace split into one set of columns per event type, and where the window of an event begins and ends in them."""

from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numba import njit


class Events(NamedTuple):
    """Events of one type in time order (of one type and key after `group_by_key`); unused attributes are empty."""

    ts: np.ndarray
    id: np.ndarray
    x: np.ndarray
    y: np.ndarray
    k: np.ndarray
    starts: np.ndarray  # where each group begins, and the end; a single group without keys


def split_by_type(events: pa.Table, types: int) -> list[Events]:
    """The columns of each type; type i of the pattern has dictionary code i and rows are in time order already."""
    kind = events.column("type").combine_chunks()
    codes = kind.indices.to_numpy(zero_copy_only=False)
    columns = {
        name: events.column(name).combine_chunks().to_numpy(zero_copy_only=False)
        for name in events.column_names
        if name != "type"
    }
    missing = {"x": np.empty(0), "y": np.empty(0), "k": np.empty(0, np.int64)}
    streams = []
    for code in range(types):
        rows = np.flatnonzero(codes == code)
        taken = missing | {name: column[rows] for name, column in columns.items()}
        streams.append(Events(**taken, starts=np.array([0, len(rows)])))
    return streams


def group_by_key(events: Events, groups: int) -> Events:
    """The events ordered by key, then time."""
    starts, order = _key_order(events.k, groups)
    return events._replace(ts=events.ts[order], id=events.id[order], k=events.k[order], starts=starts)


@njit(cache=True)
def _key_order(keys, groups):
    """Counting sort: where each key's group starts, and the row at each place."""
    starts = np.zeros(groups + 1, np.int64)
    for key in keys:
        starts[key + 1] += 1
    for key in range(groups):
        starts[key + 1] += starts[key]
    cursor = starts.copy()
    order = np.empty(len(keys), np.int64)
    for row in range(len(keys)):
        order[cursor[keys[row]]] = row
        cursor[keys[row]] += 1
    return starts, order


@njit(cache=True)
def count_before(events, anchors, shift_us):
    """For every anchor the place of the first event in its group with ts >= anchor.ts + shift_us, by one merge."""
    ts, anchor_ts = events.ts, anchors.ts
    places = np.empty(len(anchor_ts), np.int64)
    for group in range(len(events.starts) - 1):
        place, end = events.starts[group], events.starts[group + 1]
        for anchor in range(anchors.starts[group], anchors.starts[group + 1]):
            bound = anchor_ts[anchor] + shift_us
            while place < end and ts[place] < bound:
                place += 1
            places[anchor] = place
    return places
