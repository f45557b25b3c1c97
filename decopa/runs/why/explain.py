"""Why a query finds what it finds: where candidates are lost, by which condition, how narrowly, and what would help.

Positions are joined one after the other, rare ones first. At each stage every candidate (a partial match and an event
of the next position) is held against the window, the order and every condition, alone and in turn. Counts are exact up
to `MOST_CANDIDATES` a stage; beyond that they are estimated from a sample, and say so. Relaxations (a longer window, no
order, a condition less, a NOT less) are run by the engine, so that the number of matches promised is the number found.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from costmodel.sampling.conditions import EventConditions
from costmodel.sampling.events import EventColumns, Ints
from decopa.query import analysis
from decopa.query.binding import BoundQuery, bind
from decopa.query.conditions.predicate import Predicate, aliases_of
from decopa.query.query import Query
from decopa.runs.why.blockers import blocking
from decopa.runs.why.misses import condition_misses, window_misses
from decopa.runs.why.parts import Blocking, Branch, Miss, Position, Rejection, Relaxation, Stage, Why
from decopa.runs.why.relaxations import CountMatches, relaxations, together
from decopa.runs.why.verdict import last_stage, verdict

Mask = npt.NDArray[np.bool_]
#: Candidates of one stage that are all looked at; of more, this many are drawn.
MOST_CANDIDATES = 2_000_000


def explain_matches(
    query: Query,
    events: EventColumns,
    ids: Sequence[object],
    count: CountMatches,
    *,
    most_candidates: int = MOST_CANDIDATES,
    seed: int = 0,
) -> Why:
    """Why the query has the matches that it has in these events; `ids` are the ids that the user knows them by."""
    found = count(query)
    branches = tuple(_Branch(branch, events, ids, most_candidates, seed).explain() for branch in query.branches)
    wanted: tuple[Relaxation, ...] = ()
    if not found and all(position.events for branch in branches for position in branch.positions):
        wanted = tuple(relaxations(query, count))
        if not any(one.helps for one in wanted) and (stage := last_stage(branches)) is not None:
            # Conditions may be impossible to fulfil together although each of them is nothing special.
            several = together(query, [one.condition for one in stage.rejections if one.alone], count)
            wanted += () if several is None else (several,)
    first = verdict(query, found, branches, wanted)
    return Why(query.name, found, first, branches, wanted, tuple(dict.fromkeys(_notices(branches))))


def _notices(branches: Sequence[Branch]) -> Iterator[str]:
    for branch in branches:
        for stage in branch.stages:
            if stage.sampled:
                yield f"{stage.sub_query}: counts are estimated from a sample of {MOST_CANDIDATES:,} candidates"


@dataclass(frozen=True)
class _Partial:
    """Partial matches: numbers of events by alias, each of which stands for `weight`."""

    rows: Mapping[str, Ints]
    weight: float

    def __len__(self) -> int:
        return len(next(iter(self.rows.values())))


class _Branch:
    def __init__(self, query: Query, events: EventColumns, ids: Sequence[object], most: int, seed: int) -> None:
        self.query, self.events, self.ids, self.most = query, events, ids, most
        self.bound: BoundQuery = bind(query, events.schema)
        self.evaluator = EventConditions(self.bound, events)
        self.rng = np.random.default_rng(seed)
        #: Conditions on several events, as written and as bound; those that only follow from others are left out.
        self.conditions: list[tuple[Predicate, Predicate]] = [
            (one.written, one.predicate) for one in self.bound.conditions if one.written is not None
        ]

    def explain(self) -> Branch:
        positions, rows = [], {}
        for one in self.query.positions:
            found, rows[one.alias] = self._position(one)
            positions.append(found)
        outer = [one.alias for one in self.query.positions if not one.scope]
        stages: list[Stage] = []
        blocked: list[Blocking] = []
        if all(len(rows[alias]) for alias in outer):
            order = sorted(outer, key=lambda alias: (len(rows[alias]), self.query.aliases.index(alias)))
            partial = _Partial({order[0]: rows[order[0]]}, 1.0)
            for alias in order[1:]:
                stage, partial = self._stage(partial, alias, rows[alias])
                stages.append(stage)
                if not len(partial):
                    break
            else:
                blocked = list(self._blocking(partial, rows))
        return Branch(str(self.query.pattern), tuple(positions), tuple(stages), self._members(rows), tuple(blocked))

    def _blocking(self, partial: _Partial, rows: Mapping[str, Ints]) -> Iterator[Blocking]:
        for negation in self.query.negations:
            if len(negation.scope) == 1:
                negated = rows[min(negation.aliases)]
                found = blocking(self.bound, self.events, self.evaluator, negation, partial.rows, negated, self.ids)
                if found is not None:
                    yield found

    def _position(self, one: analysis.Position) -> tuple[Position, Ints]:
        alias, rows = one.alias, self.events.rows_of(one.label)
        passing = rows
        lost = []
        for predicate in self.bound.filters.get(alias, ()):
            alone = self._own(predicate, alias, rows)
            kept = self._own(predicate, alias, passing)
            lost.append(Rejection(str(predicate), len(rows) - int(alone.sum()), len(passing) - int(kept.sum())))
            passing = passing[kept]
        return Position(alias, one.label, len(rows), len(passing), tuple(lost), bool(one.scope)), passing

    def _own(self, predicate: Predicate, alias: str, rows: Ints) -> Mask:
        return self.evaluator.mask(predicate, {alias: rows}) if len(rows) else np.zeros(0, dtype=np.bool_)

    def _stage(self, partial: _Partial, alias: str, events: Ints) -> tuple[Stage, _Partial]:
        times = {name: self.events.ts[rows] for name, rows in partial.rows.items()}
        window = self.query.window_us
        earliest = np.minimum.reduce(list(times.values()))
        latest = np.maximum.reduce(list(times.values()))
        partners = self.events.ts[events]
        low = np.searchsorted(partners, latest - window, side="left")
        high = np.maximum(low, np.searchsorted(partners, earliest + window, side="right"))
        ends = np.cumsum(high - low)
        total = int(ends[-1])
        sampled = total > self.most
        chosen = self.rng.integers(0, total, self.most) if sampled else np.arange(total)
        weight = partial.weight * (total / self.most if sampled else 1.0)
        owner = np.searchsorted(ends, chosen, side="right")
        event = events[low[owner] + chosen - (ends[owner] - (high - low)[owner])]
        rows = {name: numbers[owner] for name, numbers in partial.rows.items()} | {alias: event}
        distinct = self._distinct(rows, alias)
        if not distinct.all():
            rows = {name: numbers[distinct] for name, numbers in rows.items()}
        met = len(rows[alias])
        checks = [(self._order_text(partial.rows, alias), self._in_order(rows, alias))]
        for written, lowered in self.conditions:
            named = aliases_of(written)
            if alias in named and named <= rows.keys():
                mask = self.evaluator.mask(lowered, {name: rows[name] for name in named}) if met else _nothing()
                checks.append((str(written), mask))
        if checks[0][0] is None:
            checks = checks[1:]
        kept = np.ones(met, dtype=np.bool_)
        rejections = []
        for text, mask in checks:
            assert text is not None
            left = kept & mask
            rejections.append(
                Rejection(text, round((met - int(mask.sum())) * weight), round(int((kept & ~mask).sum()) * weight))
            )
            kept = left
        survivors = _Partial({name: numbers[kept] for name, numbers in rows.items()}, weight)
        pairs = self._pairs(partial, alias, events)
        stage = Stage(
            str(self.query.project(rows.keys(), stripped=self.query.kleene_aliases).pattern),
            alias,
            pairs,
            pairs - round(met * weight),
            tuple(rejections),
            round(int(kept.sum()) * weight),
            sampled or partial.weight > 1,
            self._misses(partial, alias, events, low, high, rows, checks, kept),
        )
        return stage, survivors

    def _pairs(self, partial: _Partial, alias: str, events: Ints) -> int:
        """Candidates of a stage: every partial match with every event of the position that it does not hold already."""
        clashes = sum(int(np.isin(partial.rows[name], events).sum()) for name in self._alike(partial.rows, alias))
        return round((len(partial) * len(events) - clashes) * partial.weight)

    def _alike(self, rows: Mapping[str, Ints], alias: str) -> list[str]:
        position = self.query.position
        return [name for name in rows if name != alias and position(alias).may_share_with(position(name))]

    def _distinct(self, rows: Mapping[str, Ints], alias: str) -> Mask:
        """No event fills two positions."""
        distinct = np.ones(len(rows[alias]), dtype=np.bool_)
        for name in self._alike(rows, alias):
            distinct &= rows[name] != rows[alias]
        return distinct

    def _in_order(self, rows: Mapping[str, Ints], alias: str) -> Mask:
        ts, order = self.events.ts, self.query.order_constraints
        kept = np.ones(len(rows[alias]), dtype=np.bool_)
        for name in rows:
            if (name, alias) in order:
                kept &= ts[rows[name]] < ts[rows[alias]]
            elif (alias, name) in order:
                kept &= ts[rows[alias]] < ts[rows[name]]
        return kept

    def _order_text(self, bound: Mapping[str, Ints], alias: str) -> str | None:
        """The order that a stage asks for, in words; None if it asks for none."""
        order = self.query.order_constraints
        before = [name for name in bound if (name, alias) in order]
        after = [name for name in bound if (alias, name) in order]
        parts = [f"after {', '.join(before)}"] if before else []
        parts += [f"before {', '.join(after)}"] if after else []
        return f"order: {alias} {' and '.join(parts)}" if parts else None

    def _misses(
        self,
        partial: _Partial,
        alias: str,
        events: Ints,
        low: Ints,
        high: Ints,
        rows: Mapping[str, Ints],
        checks: Sequence[tuple[str | None, Mask]],
        kept: Mask,
    ) -> tuple[Miss, ...]:
        """For each condition that rejected something, candidates that nothing else rejected and that came nearest."""
        found: list[Miss] = []
        lowered = {str(written): one for written, one in self.conditions}
        for at, (text, mask) in enumerate(checks):
            others = [other for place, (_, other) in enumerate(checks) if place != at]
            alone = ~mask & np.logical_and.reduce([*others, np.ones(len(mask), dtype=np.bool_)])
            assert text is not None
            found += condition_misses(self.events, self.bound, self.ids, text, lowered.get(text), rows, alone)
        found += window_misses(
            self.events, self.ids, partial.rows, alias, events, low, high, self.query.window_us, self._fits
        )
        return tuple(found)

    def _fits(self, rows: Mapping[str, Ints], alias: str) -> Mask:
        """Which candidates keep the order and fulfil all conditions of a stage, whatever the window."""
        fits = self._in_order(rows, alias) & self._distinct(rows, alias)
        for written, lowered in self.conditions:
            named = aliases_of(written)
            if alias in named and named <= rows.keys():
                fits &= self.evaluator.mask(lowered, {name: rows[name] for name in named})
        return fits

    def _members(self, rows: Mapping[str, Ints]) -> tuple[Rejection, ...]:
        """Of the pairs of members that lie within a window: how many each condition between members rejects."""
        found = []
        for alias, pairs in self.bound.self_pairs.items():
            numbers = rows[alias]
            times = self.events.ts[numbers]
            ends = np.searchsorted(times, times + self.query.window_us, side="right")
            counts = np.minimum(ends - np.arange(1, len(numbers) + 1), max(1, self.most // max(1, len(numbers))))
            first = np.repeat(np.arange(len(numbers)), counts)
            second = first + 1 + np.arange(len(first)) - np.repeat(np.cumsum(counts) - counts, counts)
            kept = np.ones(len(first), dtype=np.bool_)
            for pair in pairs:
                one, other = numbers[first], numbers[second]
                mask = self.evaluator.between_members(pair, alias, one, other) if len(first) else _nothing()
                alone, in_turn = int((~mask).sum()), int((kept & ~mask).sum())
                found.append(Rejection(f"{alias}: {pair} ({len(first):,} pairs)", alone, in_turn))
                kept &= mask
        return tuple(found)


def _nothing() -> Mask:
    return np.zeros(0, dtype=np.bool_)
