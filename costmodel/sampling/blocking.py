"""What a NOT does to the matches beside it, seen on a sample of them: how many it blocks, and what that takes."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from costmodel.sampling.events import Ints
from costmodel.sampling.joins import PARTS, JoinSample, JoinSpace
from costmodel.sampling.meeting import Mask
from decopa.query.analysis import Negation
from decopa.query.binding import Condition
from decopa.query.conditions.predicate import Attr, Compare

#: Matches whose gaps are looked into for one number, and negated matches in all these gaps.
_MATCHES = 4_000
_CANDIDATES = 400_000


@dataclass(frozen=True, slots=True)
class Blocked:
    """The share of matches that a NOT blocks, its standard error, the negated matches compared with one of them, and
    the part of a window that one waits."""

    share: float
    standard_error: float
    compared: float
    waiting: float


def measure_negation(space: JoinSpace, negation: Negation, positive: JoinSample) -> Blocked | None:
    """What the NOT does to a sample of positive matches; None where the sample cannot tell: if there is none, or too
    many negated matches of several events to look at them all."""
    if not len(positive) or any(one.scope[:-1] == negation.scope for one in space.query.negations):
        return None  # with a NOT in a NOT: whether the inner one is fulfilled is not known here
    if not (space.complete or negation.after):
        return None  # what lies before a match may lie outside of the slices
    if len(negation.aliases) == 1:
        (alias,) = negation.aliases
        negated = {alias: space.rows[alias]}
    else:
        found = space.matches(negation.aliases)
        negated = dict(found.rows)
        if not found.complete or len(found) > _CANDIDATES:
            return None
    times = {alias: space.times[rows] for alias, rows in positive.rows.items()}
    earliest, latest = (np.minimum.reduce(list(times.values())), np.maximum.reduce(list(times.values())))
    after = [times[alias] + 1 for alias in negation.after]
    before = [times[alias] - 1 for alias in negation.before]
    lower = np.maximum.reduce(after) if after else latest - space.window_us
    upper = np.minimum.reduce(before) if before else earliest + space.window_us
    starts = np.minimum.reduce([space.times[rows] for rows in negated.values()])
    ends = np.maximum.reduce([space.times[rows] for rows in negated.values()])
    order: Ints = np.argsort(starts, kind="stable")
    low: Ints = np.asarray(np.searchsorted(starts[order], lower, side="left"))
    reach = np.maximum(0, np.searchsorted(starts[order], upper, side="right") - low)
    chosen = np.flatnonzero(positive.counted)
    most = int(min(_MATCHES, max(100, _CANDIDATES / max(1.0, float(reach.mean())))))
    complete = positive.complete and len(chosen) <= most
    if len(chosen) > most:
        chosen = space.rng.choice(chosen, most, replace=False)
    if not len(chosen):
        return None
    owner = np.repeat(np.arange(len(chosen)), reach[chosen])
    begin = np.cumsum(reach[chosen]) - reach[chosen]
    candidate = order[low[chosen][owner] + np.arange(len(owner)) - begin[owner]]
    rows = {alias: numbers[chosen[owner]] for alias, numbers in positive.rows.items()}
    rows |= {alias: numbers[candidate] for alias, numbers in negated.items()}
    blocks = ends[candidate] <= upper[chosen[owner]]
    met = np.ones(len(owner), dtype=np.bool_)
    for condition in _between(space, negation, positive):
        fulfilled = _mask(space, condition, rows)
        blocks &= fulfilled
        met &= fulfilled if _is_key(condition) else True  # the engine looks equal keys up and never sees others
    blocked = np.bincount(owner[blocks], minlength=len(chosen)) > 0
    share = float(blocked.mean())
    error = 0.0 if complete else _error(blocked, positive, chosen)
    waiting = np.maximum(0, (upper - latest)[chosen]) if not negation.before else np.zeros(1)
    return Blocked(
        share,
        min(1.0, error),
        float(_looked_at(owner, met, blocks, len(chosen)).mean()),
        min(1.0, float(waiting.mean()) / max(1, space.window_us)),
    )


def _between(space: JoinSpace, negation: Negation, positive: JoinSample) -> list[Condition]:
    """The conditions between negated events and the match, with all that they name there."""
    both = negation.aliases | frozenset(positive.rows)
    return [
        one
        for one in space.bound.conditions
        if one.aliases <= both and one.aliases & negation.aliases and not one.aliases <= negation.aliases
    ]


def _mask(space: JoinSpace, condition: Condition, rows: dict[str, Ints]) -> Mask:
    if not len(next(iter(rows.values()))):
        return np.zeros(0, dtype=np.bool_)
    return space.evaluator.mask(condition.predicate, {alias: rows[alias] for alias in condition.aliases})


def _is_key(condition: Condition) -> bool:
    one = condition.predicate
    return isinstance(one, Compare) and one.op == "=" and isinstance(one.left, Attr) and isinstance(one.right, Attr)


def _looked_at(owner: Ints, met: Mask, blocks: Mask, count: int) -> Ints:
    """Negated matches that are compared with each positive one: all that it meets, up to the first that blocks."""
    place = np.cumsum(met)
    before = np.concatenate([[0], place])[np.searchsorted(owner, np.arange(count))]
    total = np.bincount(owner[met], minlength=count)
    first = np.full(count, np.iinfo(np.int64).max)
    hits = np.flatnonzero(blocks)
    np.minimum.at(first, owner[hits], place[hits] - before[owner[hits]])
    return np.asarray(np.minimum(total, first))


def _error(blocked: Mask, positive: JoinSample, chosen: Ints) -> float:
    """Standard error of the share: of independent matches, or of the parts of the sample if these differ by more."""
    share = float(blocked.mean())
    alone = math.sqrt(max(share * (1 - share), 0.25 / len(blocked)) / len(blocked))
    if not len(positive.part):
        return alone
    part = positive.part[chosen]
    sizes, hits = np.bincount(part, minlength=PARTS), np.bincount(part[blocked], minlength=PARTS)
    deviation = hits - share * sizes
    return max(alone, math.sqrt(PARTS / (PARTS - 1) * float(deviation @ deviation)) / max(1, int(sizes.sum())))
