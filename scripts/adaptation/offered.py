"""Live streams that are offered at a pace, and what comes of them: matches, their delays, and changes of plan."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from costmodel.sustainable import delay_growth
from decopa.runs.streams.live import LiveRun

_BATCH_S = 0.05
#: Delays may grow by this share of the time that passes: as much is chance.
MOST_GROWTH = 0.02

Floats = npt.NDArray[np.float64]


def stream(window_s: float, phases: Sequence[tuple[float, Mapping[str, float]]], seed: int) -> pa.Table:
    """Poisson events: for each phase its windows and the rates in one of them."""
    rng = np.random.default_rng(seed)
    times, types, begin = [], [], 0.0
    for windows, rates in phases:
        for name, rate in rates.items():
            count = rng.poisson(rate * windows)
            times.append(begin + rng.random(count) * windows * window_s)
            types.append(np.full(count, name))
        begin += windows * window_s
    moments, names = np.concatenate(times), np.concatenate(types)
    order = np.argsort(moments, kind="stable")
    columns = {name: rng.random(len(order)) for name in "xyz"}
    ts = (moments[order] * 1e6).astype(np.int64)
    return pa.table({"id": np.arange(len(order)), "ts": ts, "type": pa.array(names[order]), **columns})


@dataclass(frozen=True)
class Pace:
    """How fast a trace is played: for each stretch of the clock how many seconds it lasts, and how many seconds of the
    trace pass in one of them. The last stretch goes on."""

    stretches: tuple[tuple[float, float], ...]

    @classmethod
    def steady(cls, speed: float) -> Pace:
        return cls(((math.inf, speed),))

    def due_s(self, event_s: Floats) -> Floats:
        """When events of these times are due, in seconds of the clock."""
        lasts, speeds = (np.array(one) for one in zip(*self.stretches, strict=True))
        begins = np.concatenate([[0.0], np.cumsum(lasts[:-1])])
        from_s = np.concatenate([[0.0], np.cumsum(lasts[:-1] * speeds[:-1])])
        at = np.searchsorted(from_s, event_s, side="right") - 1
        due: Floats = begins[at] + (event_s - from_s[at]) / speeds[at]
        return due


class Offered:
    """A table as a live stream: batches of what is due.

    The first event is what a run learns its columns from, before its processes start. The clock starts with the second.
    """

    def __init__(self, events: pa.Table, pace: Pace) -> None:
        self._events, self._pace, self.start_s = events, pace, 0.0
        self._due_s = pace.due_s(events.column("ts").to_numpy() / 1e6)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        yield from self._events.slice(0, 1).combine_chunks().to_batches()
        self.start_s, done = time.monotonic(), 1
        while done < self._events.num_rows:
            time.sleep(max(0.0, _BATCH_S - (time.monotonic() - self.start_s) % _BATCH_S))
            due = int(np.searchsorted(self._due_s, time.monotonic() - self.start_s, side="right"))
            if due > done:
                yield from self._events.slice(done, due - done).combine_chunks().to_batches()
                done = due

    @property
    def now_s(self) -> float:
        """Since the first event was due."""
        return time.monotonic() - self.start_s

    def due_s(self, matches: pa.Table) -> Floats:
        """When the last event of each match was due."""
        return self._pace.due_s(np.asarray(matches.column("end_ts").cast(pa.int64()).to_numpy()) / 1e6)


@dataclass
class Followed:
    """What a run over an offered stream brought."""

    tables: list[pa.Table] = field(default_factory=list)
    #: For each match when its last event was due, and how long after that it was here.
    delays: list[tuple[float, float]] = field(default_factory=list)
    #: When each change of plan was first seen to have been made or given up, by its place among the run's.
    seen_s: list[float] = field(default_factory=list)

    @property
    def matches(self) -> pa.Table:
        return pa.concat_tables(self.tables)

    def within(self, from_s: float, until_s: float) -> list[tuple[float, float]]:
        """Delays of the matches whose last events were due in this span, in the order of these."""
        return sorted(one for one in self.delays if from_s <= one[0] < until_s)


def followed(run: LiveRun, offered: Offered) -> Followed:
    """Takes all matches of a run as they come."""
    found = Followed()
    for matches in run:
        due_s, now_s = offered.due_s(matches), offered.now_s
        found.delays += zip(due_s.tolist(), (now_s - due_s).tolist(), strict=True)
        found.seen_s += [now_s] * (len(run.summary().switches) - len(found.seen_s))
        found.tables.append(matches)
    found.seen_s += [offered.now_s] * (len(run.summary().switches) - len(found.seen_s))
    return found


def stable_from(delays: Sequence[tuple[float, float]], begin_s: float, end_s: float, step_s: float) -> int | None:
    """After how many steps from the beginning of a span delays are stable: from there to its end they grow by no more
    than MOST_GROWTH. None if they are not. `delays` are (moment, delay) pairs in order of time."""
    for steps in range(math.floor((end_s - begin_s) / step_s)):
        if delay_growth(delays, begin_s + steps * step_s, end_s) <= MOST_GROWTH:
            return steps
    return None


def ids_of(matches: pa.Table, aliases: str = "abc") -> pa.Table:
    """Which events the matches are made of, in one order; a match that comes twice is there twice."""
    return matches.select(list(aliases)).sort_by([(alias, "ascending") for alias in aliases]).combine_chunks()
