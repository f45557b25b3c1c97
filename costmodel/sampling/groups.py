"""How many groups a KL position really forms beside the matches of the other positions: counted, not assumed.

The groups of a match are the subsets of its *family*, the events that fit it; 2^n of them if n fit. Their number thus
lives in the busiest windows, which the mean does not know. Families of sampled matches are looked up, and their
subsets counted: by a formula where only the window limits a group, by random walks (Knuth 1975) where members must fit
each other. Matches are drawn in proportion to the groups that they can be expected to have, so that busy windows are
not missed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from costmodel.sampling.events import Ints
from costmodel.sampling.joins import PARTS, JoinSample, JoinSpace
from costmodel.sampling.meeting import Mask
from decopa.query.binding import Condition
from decopa.query.conditions.members import of_neighbours
from decopa.query.conditions.predicate import Predicate

Floats = npt.NDArray[np.float64]
#: Candidates of families that are looked up for one number, and matches whose families they are.
_CANDIDATES = 300_000
_MATCHES = 4_000
#: Entries of tables that say which members fit each other, and walks through each.
_TABLE = 1_000_000
_WALKS = 8
#: A share of the draws is even, in case the expected groups mislead.
_EVEN = 0.2
_MOST_LOG = 690.0
#: No family counts for more groups than this, which leaves room for sums; that many things have more subsets.
_MOST_GROUPS, _MOST_BITS = 1e280, 930


@dataclass(frozen=True, slots=True)
class GroupCount:
    """Groups in all the events that were looked at, with the standard error; `members` is the mean size of a family,
    `largest` the size of the largest seen. `tried` is how often a member was held against a group to find them."""

    groups: float
    standard_error: float
    members: float
    largest: int
    tried: float = 0.0


@dataclass(frozen=True)
class _Families:
    """Events that fit matches: `owner` numbers the match, `event` the event, in order of match and time."""

    owner: Ints
    event: Ints
    count: int

    @property
    def sizes(self) -> Ints:
        return np.bincount(self.owner, minlength=self.count)


@dataclass(frozen=True)
class _Rules:
    """What makes members a group beside the match: how many there are, conditions between every two, and between
    neighbours."""

    least: int
    most: int | None
    pairs: Sequence[Predicate]
    neighbours: Sequence[Predicate]

    @classmethod
    def of(cls, space: JoinSpace, alias: str) -> _Rules:
        position, bound = space.query.position(alias), space.bound
        neighbours = [of_neighbours(one) for one in bound.members_of(alias).all]
        return cls(position.least, position.most, bound.self_pairs.get(alias, ()), neighbours)

    @property
    def between(self) -> bool:
        """Whether members must fit each other."""
        return bool(self.pairs or self.neighbours)

    def subsets(self, members: Ints, given: int = 0) -> Floats:
        """How many groups can be formed of so many members, if `given` others are part of each; at most 1e280."""
        return _subsets_of(
            members, max(self.least - given, 1 - given), None if self.most is None else self.most - given
        )

    def tried(self, members: Ints, given: int = 0) -> Floats:
        """As `subsets`, with those that are too small to count but lead to others."""
        return _subsets_of(members, 1 - given, None if self.most is None else self.most - given)


def count_groups(space: JoinSpace, alias: str, rest: JoinSample | None) -> GroupCount:
    """Groups of a KL position beside the matches in `rest`; without it, of the position alone."""
    rules = _Rules.of(space, alias)
    if rest is None:
        return _count_alone(space, alias, rules)
    if not len(rest):
        return GroupCount(0.0, 0.0, 0.0, 0)
    low, high = space.reach(rest.rows, alias)
    named = frozenset(rest.rows) | {alias}
    conditions = space.conditions(named, alias)
    chances = _chances(space, rest, alias, conditions, low, high)
    fitting = len(rest) <= _MATCHES and int((high - low).sum()) <= _CANDIDATES
    if fitting:
        chosen, weights = np.arange(len(rest)), np.ones(len(rest))
    else:
        mean = max(1.0, float(chances @ (high - low)))
        count = int(min(_MATCHES, max(50, _CANDIDATES / mean)))
        chosen = space.rng.choice(len(rest), count, p=chances)
        weights = 1.0 / (count * chances[chosen])
    sampled = rest.taken(chosen)
    families = _families(space, sampled, alias, conditions, low[chosen], high[chosen])
    counts, tries = _subsets(space, sampled, alias, families, rules)
    values = counts * weights * rest.weight
    tried = float((tries * weights).sum()) * rest.weight
    total = float(values.sum())
    sizes = families.sizes
    if not rest.complete:
        error = _between_parts(values, sampled.part)
    else:
        error = 0.0 if fitting else math.sqrt(len(values) * float(values.var()))
    if rules.between:
        error = math.hypot(error, _walk_error(values, rules.least))
    mean = float(np.average(sizes, weights=weights))
    return GroupCount(total, min(error, total), mean, int(sizes.max(initial=0)), tried)


def _between_parts(values: Floats, part: Ints) -> float:
    """Standard error of a sum over a sample, from the differences between its parts."""
    totals = np.bincount(part, weights=values, minlength=PARTS)
    return math.sqrt(PARTS * float(totals.var(ddof=1)))


def _walk_error(values: Floats, least: int) -> float:
    """Walks differ by about their own size; those of different families by chance. Walks that end before a group is
    large enough count nothing, so the others count for more and vary more."""
    return math.sqrt(least * float(values @ values) / _WALKS)


def _count_alone(space: JoinSpace, alias: str, rules: _Rules) -> GroupCount:
    """Groups of a position on its own: each event with subsets of the events that follow it within the window."""
    rows = space.rows[alias]
    rows = rows[np.isin(rows, space.starts(alias))]
    times = space.times[rows]
    later = np.searchsorted(times, times + space.window_us, side="right") - np.arange(1, len(rows) + 1)
    counted = space.anchored[rows]
    sizes = later + 1
    if not rules.between:
        total, tried = (float(of(later[counted], given=1).sum()) for of in (rules.subsets, rules.tried))
        return GroupCount(total, 0.0, float(sizes.mean()), int(sizes.max()), tried)
    chosen, weights = np.flatnonzero(counted), np.ones(int(counted.sum()))
    most = int(min(_MATCHES, max(20, _TABLE / max(1.0, float((sizes**2).mean())))))
    if len(chosen) > most:
        drawn = space.rng.integers(0, len(chosen), most)
        weights = np.full(most, len(chosen) / most)
        chosen = chosen[drawn]
    owner = np.repeat(np.arange(len(chosen)), sizes[chosen])
    starts = np.cumsum(sizes[chosen]) - sizes[chosen]
    event = rows[chosen[owner] + np.arange(len(owner)) - starts[owner]]
    families = _Families(owner, event, len(chosen))
    counts, tries = _walks(space, alias, families, rules, only_from_first=True)
    values = counts * weights
    total = float(values.sum())
    spread = 0.0 if len(chosen) == int(counted.sum()) else math.sqrt(len(values) * float(values.var()))
    error = math.hypot(spread, _walk_error(values, rules.least))
    return GroupCount(total, min(error, total), float(sizes.mean()), int(sizes.max()), float((tries * weights).sum()))


def _chances(
    space: JoinSpace, rest: JoinSample, alias: str, conditions: Sequence[Condition], low: Ints, high: Ints
) -> Floats:
    """How likely each match is drawn: in proportion to the groups expected if members fit independently."""
    reach = high - low
    share = 1.0
    if conditions and reach.sum():
        ends = np.cumsum(reach)
        chosen = space.rng.integers(0, int(ends[-1]), 2_000)
        owner = np.searchsorted(ends, chosen, side="right")
        partner = space.rows[alias][low[owner] + chosen - (ends[owner] - reach[owner])]
        rows = {name: numbers[owner] for name, numbers in rest.rows.items()} | {alias: partner}
        share = float(_fulfilled(space, conditions, rows).mean())
    log_expected = np.minimum(reach * math.log1p(share), _MOST_LOG)
    expected = np.exp(log_expected - log_expected.max(initial=0.0)) - math.exp(-log_expected.max(initial=0.0)) + 1e-12
    return (1 - _EVEN) * expected / expected.sum() + _EVEN / len(rest)  # type: ignore[no-any-return]


def _families(
    space: JoinSpace, sample: JoinSample, alias: str, conditions: Sequence[Condition], low: Ints, high: Ints
) -> _Families:
    reach = high - low
    owner = np.repeat(np.arange(len(sample)), reach)
    starts = np.cumsum(reach) - reach
    event = space.rows[alias][low[owner] + np.arange(len(owner)) - starts[owner]]
    rows = {name: numbers[owner] for name, numbers in sample.rows.items()} | {alias: event}
    position = space.query.position
    fits = np.ones(len(owner), dtype=np.bool_)
    for name, numbers in rows.items():
        if name != alias and position(alias).may_share_with(position(name)):
            fits &= numbers != event
    if len(owner):
        fits &= _fulfilled(space, conditions, rows)
    return _Families(owner[fits], event[fits], len(sample))


def _fulfilled(space: JoinSpace, conditions: Sequence[Condition], rows: Mapping[str, Ints]) -> Mask:
    masks = [space.evaluator.mask(one.predicate, {name: rows[name] for name in one.aliases}) for one in conditions]
    return np.logical_and.reduce(masks) if masks else np.ones(len(next(iter(rows.values()))), dtype=np.bool_)


def _subsets(
    space: JoinSpace, sample: JoinSample, alias: str, families: _Families, rules: _Rules
) -> tuple[Floats, Floats]:
    """Groups of each match that are counted here: those whose earliest event, or the match's, is anchored; and how
    often a member is held against a group to find them: once for each, unless members must fit each other."""
    earliest = np.minimum.reduce(list(sample.rows.values()))
    first = space.times[earliest]
    times = space.times[families.event]
    before = times < first[families.owner]
    allowed = np.where(before, space.anchored[families.event], space.anchored[earliest][families.owner])
    if rules.between:
        return _walks(space, alias, families, rules, allowed=allowed)
    # All members at or after the match's first event: any subset of them fits the window.
    inner = np.bincount(families.owner[~before], minlength=families.count)
    counts, tries = (np.where(space.anchored[earliest], of(inner), 0.0) for of in (rules.subsets, rules.tried))
    if before.any():
        # A member before it is the earliest of the group: the others lie up to a window behind it.
        last = np.searchsorted(families.owner, families.owner, side="right")
        followers = _within(space, families, times, last)
        use = before & allowed
        for found, of in ((counts, rules.subsets), (tries, rules.tried)):
            found += np.bincount(families.owner[use], weights=of(followers[use], given=1), minlength=families.count)
    return counts, tries


def _within(space: JoinSpace, families: _Families, times: Ints, last: Ints) -> Ints:
    """How many later members of the same family lie up to a window behind each member."""
    followers = np.zeros(len(times), dtype=np.int64)
    places = np.arange(len(times))
    # Families are short: step k compares each member with the k-th after it, for those that have one in reach.
    open_places, step = places, 1
    while len(open_places):
        open_places = open_places[open_places + step < last[open_places]]
        open_places = open_places[times[open_places + step] - times[open_places] <= space.window_us]
        followers[open_places] += 1
        step += 1
    return followers


def _walks(
    space: JoinSpace,
    alias: str,
    families: _Families,
    rules: _Rules,
    *,
    allowed: Mask | None = None,
    only_from_first: bool = False,
) -> tuple[Floats, Floats]:
    """The number of groups of each family, estimated by random walks through the tree of its groups, and of the members
    held against groups on the way.

    A walk adds to a group one of the later members that fit all of it, at random; the numbers of choices, multiplied
    along the way, add up to the number of groups on average. `allowed` are the members that a group may begin with.
    """
    sizes = families.sizes
    longest = int(sizes.max(initial=0))
    result, tries = np.zeros(families.count), np.zeros(families.count)
    if not longest:
        return result, tries
    starts = np.cumsum(sizes) - sizes
    step = max(1, int(_TABLE / longest**2))
    for begin in range(0, families.count, step):
        mine = np.arange(begin, min(begin + step, families.count))
        result[mine], tries[mine] = _walks_in(
            space, alias, families, rules, mine, starts, sizes, longest, allowed, only_from_first
        )
    return result, tries


def _walks_in(
    space: JoinSpace,
    alias: str,
    families: _Families,
    rules: _Rules,
    mine: Ints,
    starts: Ints,
    sizes: Ints,
    longest: int,
    allowed: Mask | None,
    only_from_first: bool,
) -> tuple[Floats, Floats]:
    place = np.minimum(starts[mine, None] + np.arange(longest), max(len(families.event) - 1, 0))
    there = np.arange(longest) < sizes[mine, None]
    event = families.event[place]
    times = space.times[event]
    one, other = (np.broadcast_to(side, (len(mine), longest, longest)) for side in (event[:, :, None], event[:, None]))
    fit = np.triu(np.ones((longest, longest), dtype=np.bool_), 1) & there[:, None, :] & there[:, :, None]
    fit &= times[:, None, :] - times[:, :, None] <= space.window_us
    behind = fit.sum(axis=2)  # members behind each one that lie within the window: all of them are tried
    follows = _fitting(space, alias, rules.neighbours, fit, one, other)
    fit = _fitting(space, alias, rules.pairs, fit, one, other)
    begin = there & (allowed[place] if allowed is not None else True)
    if only_from_first:
        begin = begin & (np.arange(longest) == 0)
    total, tried = np.zeros(len(mine)), begin.sum(axis=1).astype(np.float64) * _WALKS
    rows = np.arange(len(mine))
    for _ in range(_WALKS):
        possible, fitting, weight, size = begin, there, np.ones(len(mine)), 0
        while rules.most is None or size < rules.most:
            choices, size = possible.sum(axis=1), size + 1
            if not choices.any():
                break
            weight = np.minimum(weight * choices, _MOST_GROUPS)
            total += weight if size >= rules.least else 0.0
            # The chosen one is the n-th of those that are possible, n at random.
            nth = (space.rng.random(len(mine)) * choices).astype(np.int64)
            chosen = np.argmax(np.cumsum(possible, axis=1) > nth[:, None], axis=1)
            tried += np.where(choices > 0, weight * behind[rows, chosen], 0.0)
            fitting = np.where((choices > 0)[:, None], fitting, False) & fit[rows, chosen]
            possible = fitting & follows[rows, chosen]
    return total / _WALKS, tried / _WALKS


def _fitting(
    space: JoinSpace, alias: str, conditions: Sequence[Predicate], pairs: Mask, one: Ints, other: Ints
) -> Mask:
    """Which of the pairs of an earlier and a later member fulfil all conditions between them."""
    at = np.flatnonzero(pairs)
    if not len(at) or not conditions:
        return pairs
    earlier, later = one.reshape(-1)[at], other.reshape(-1)[at]
    kept = np.logical_and.reduce([space.evaluator.between_members(p, alias, earlier, later) for p in conditions])
    fit = np.zeros(pairs.size, dtype=np.bool_)
    fit[at[kept]] = True
    return fit.reshape(pairs.shape)


def _subsets_of(members: Ints, least: int, most: int | None) -> Floats:
    """Subsets of `least` to `most` of so many things."""
    distinct, inverse = np.unique(members, return_inverse=True)
    return np.array([_number_of_subsets(int(n), least, most) for n in distinct.tolist()])[inverse.reshape(-1)]


def _number_of_subsets(things: int, least: int, most: int | None) -> float:
    sizes = range(max(least, 0), things + 1 if most is None else min(most, things) + 1)
    if len(sizes) <= things / 2 + 1:
        return min(sum(math.comb(things, size) for size in sizes), _MOST_GROUPS)
    if things >= _MOST_BITS:
        return _MOST_GROUPS
    left_out = sum(math.comb(things, size) for size in range(things + 1) if size not in sizes)
    return float(2**things - left_out)
