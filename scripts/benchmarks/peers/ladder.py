"""How much of a trace a contender can do in the time it has, and how often to repeat that."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from scripts.benchmarks.peers.job import Outcome

FIRST_EVENTS = 1_000
FACTOR = 4
LEAST_MEASURED_S = 1.5  # short runs repeat until they add up to this, or a cold cache would decide a ratio
MOST_REPEATS = 10  # times `repeat`, for runs that are shorter still


def climb(run: Callable[[int], Outcome | None], total: int, *, limit_s: float, repeat: int) -> Outcome | None:
    """The outcome on the longest beginning of the trace that `run` is expected to finish in the limit.

    `run` takes a number of events and gives None if it was stopped. Beginnings grow fourfold; the next one is expected
    to take four times as long or, if the last two grew faster, as much longer as they did. The first warms up. Each is
    done twice if there is time, and the faster counts: an engine may take another way for more events, and compile it.
    """
    done: Outcome | None = None
    size, growth = min(FIRST_EVENTS, total), float(FACTOR)
    run(size)
    while True:
        outcome = _faster_of_two(run, size, limit_s)
        if outcome is None:
            return done
        if done is not None:
            growth = max(float(FACTOR), outcome.seconds / done.seconds)
        done = outcome
        following = min(size * FACTOR, total)
        if size == total or outcome.seconds * growth * following / (size * FACTOR) > limit_s:
            return repeated(run, done, limit_s=limit_s, repeat=repeat)
        size = following


def _faster_of_two(run: Callable[[int], Outcome | None], size: int, limit_s: float) -> Outcome | None:
    first = run(size)
    if first is None or first.seconds * FACTOR > limit_s:
        return first
    return min(first, run(size) or first, key=lambda each: each.seconds)


def repeated(
    run: Callable[[int], Outcome | None],
    first: Outcome,
    *,
    limit_s: float,
    repeat: int,
    least_s: float = LEAST_MEASURED_S,
) -> Outcome:
    """The fastest of `repeat` runs; more if they are short of `least_s` together, fewer if they exceed the limit."""
    best, spent, runs = first, first.seconds, 1
    while spent < limit_s and (runs < repeat or (spent < least_s and runs < MOST_REPEATS * repeat)):
        outcome = run(first.events)
        if outcome is None:
            break
        spent, runs = spent + outcome.seconds, runs + 1
        best = min(best, outcome, key=lambda each: each.seconds)
    return replace(best, runs=runs)
