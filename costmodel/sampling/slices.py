"""Selectivities from pieces of a long trace: windows drawn at random, each with the window after it.

Two events that meet are at most a window apart. So if windows are laid end to end over the trace, every such pair
belongs to one of them, that of its earlier event, and its later event is in the same window or the next. A *slice* is a
window with the next one behind it; its pairs are those whose earlier event lies in the first half (is *anchored*).
Drawing slices evenly thus draws pairs evenly in the sense that the share of fulfilling pairs in the drawn slices
estimates that in the whole trace, whatever bursts there are. Pairs of one slice resemble each other, so the standard
error is computed from the differences between slices.

Rare types would be missed. Therefore slices are drawn for each type, among those in which the type occurs: no pair of
the type is elsewhere. A pair of types is measured in the slices drawn for the rarer one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from costmodel.sampling.estimate import DEFAULT_PAIRS, Estimate, Estimator, measured_types
from costmodel.sampling.events import EventColumns, Ints
from costmodel.sampling.joins import JoinSpace
from costmodel.sampling.meeting import Mask, MeetingPairs, Relation, meeting_pairs
from costmodel.statistics import Pair, RateProfile
from decopa.errors import StatisticsError
from decopa.query.analysis import Position
from decopa.query.binding import BoundQuery
from decopa.query.query import Query


@dataclass(frozen=True, slots=True)
class SliceSample:
    """Slices by number, drawn for one type; `complete` if there are no others and no event was left out of them.

    `population` is how many slices the type occurs in; None if these are all.
    """

    slices: Ints
    complete: bool
    population: int | None = None

    @property
    def scale(self) -> float:
        """Slices that each of the drawn ones stands for."""
        return 1.0 if self.population is None else self.population / max(1, len(self.slices))


@dataclass(frozen=True)
class SlicedEvents:
    """Events of slices, slice after slice and in time order within each; an event may be in two slices.

    `meeting_us` are times with the slices moved apart, ascending, so that events meet within slices only; `events.ts`
    are the true ones. `drawn` has the sample for each type. `share` of the events in the slices were kept, but all of
    the types in `whole`.
    """

    events: EventColumns
    slice_of: Ints
    meeting_us: Ints
    anchored: Mask
    drawn: Mapping[str, SliceSample]
    share: float = 1.0
    whole: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls, events: EventColumns, slice_of: Ints, *, origin_us: int, window_us: int, drawn: Mapping[str, SliceSample]
    ) -> SlicedEvents:
        """From events in any order: slice n begins `n` windows after the origin."""
        into_us = events.ts - (origin_us + slice_of * window_us)
        order = np.lexsort((into_us, slice_of))
        numbers, place = np.unique(slice_of, return_inverse=True)
        meeting_us = place * (3 * window_us) + into_us
        if len(numbers) * 3 * window_us >= 2**62:
            raise StatisticsError(f"a window of {window_us} us is too long for these events; check its unit")
        ordered = replace(
            events,
            ts=events.ts[order],
            type_codes=events.type_codes[order],
            columns={name: values[order] for name, values in events.columns.items()},
        )
        return cls(ordered, slice_of[order], meeting_us[order], (into_us < window_us)[order], drawn)


def estimate_on_slices(
    query: Query,
    sliced: SlicedEvents,
    rates: Mapping[str, float],
    *,
    span_us: int,
    profiles: Mapping[str, RateProfile] | None = None,
    meetings: Mapping[Pair, float] | None = None,
    pairs: int = DEFAULT_PAIRS,
    seed: int = 0,
) -> Estimate:
    """As `estimate_statistics`, with the selectivities that the slices show; the rest was counted elsewhere.

    `span_us` is the time that the whole trace covers.
    """
    found = _SliceEstimator(query, sliced, rates, span_us, pairs, np.random.default_rng(seed)).estimate()
    statistics = replace(found.statistics, profiles=profiles or {}, meetings=meetings or {})
    return Estimate(statistics, found.notices)


class _SliceEstimator(Estimator):
    """Draws pairs of one slice, anchored in its first half, from the slices drawn for the rarer type."""

    def __init__(
        self,
        query: Query,
        sliced: SlicedEvents,
        rates: Mapping[str, float],
        span_us: int,
        pairs: int,
        rng: np.random.Generator,
    ) -> None:
        super().__init__(query, sliced.events, pairs, rng)
        self._sliced, self._given_rates, self._whole_span_us = sliced, rates, span_us
        self._sample = SliceSample(np.empty(0, dtype=np.int64), False)

    def rates(self) -> dict[str, float]:
        return {event_type: self._given_rates[event_type] for event_type in measured_types(self._query)}

    def meetings(self) -> dict[Pair, float]:
        """Not from slices, which are drawn where types occur."""
        return {}

    def _measure_runs(self, branch: Query, alias: str, rows: Ints) -> None:
        """Not from slices, which hold parts of runs: formulas say how many there are."""

    @property
    def _span_us(self) -> int:
        return self._whole_span_us

    def _join_space(self, bound: BoundQuery, rows: Mapping[str, Ints]) -> JoinSpace:
        """Combinations of one slice, anchored in its first half, in the slices drawn for their rarest position."""
        sliced = self._sliced
        starts = {
            alias: numbers[np.isin(sliced.slice_of[numbers], self._sample_of(numbers).slices)]
            for alias, numbers in rows.items()
        }
        return JoinSpace(
            bound, sliced.events, sliced.meeting_us, rows, starts.__getitem__, sliced.anchored, self._joins_rng,
            self._joins, complete=all(sample.complete for sample in sliced.drawn.values()),
        )  # fmt: skip

    def _scale(self, event_type: str, types: Sequence[str]) -> float:
        kept = sum(1 for one in types if one not in self._sliced.whole)
        return self._sliced.drawn[event_type].scale / self._sliced.share**kept

    def _counted(self, rows: Ints) -> Mask:
        """Events in the first halves of the slices drawn for their type: each of those is there once."""
        sample = self._sample_of(rows)
        chosen: Mask = self._sliced.anchored[rows] & np.isin(self._sliced.slice_of[rows], sample.slices)
        return chosen if chosen.any() else np.ones(len(rows), dtype=np.bool_)

    def _draw(self, first: Ints, second: Ints, relation: Relation, window_us: int) -> MeetingPairs:
        if not len(first) or not len(second):
            return MeetingPairs(first[:0], second[:0], False)
        sliced = self._sliced
        self._sample = self._rarer(first, second)
        first, second = (rows[np.isin(sliced.slice_of[rows], self._sample.slices)] for rows in (first, second))
        # Pairs that are not anchored are drawn, too, and dropped: what is left is an even draw from the others.
        found = meeting_pairs(sliced.meeting_us, first, second, window_us, relation, self._pairs, self._rng)
        anchored = sliced.anchored[np.minimum(found.first, found.second)]
        complete = found.complete and self._sample.complete
        return MeetingPairs(found.first[anchored], found.second[anchored], complete)

    def _rarer(self, first: Ints, second: Ints) -> SliceSample:
        """The sample of the type that occurs less often; the other's may hold few of its slices."""
        one, other = (self._type_of(rows) for rows in (first, second))
        return self._sliced.drawn[min(one, other, key=lambda event_type: (self._given_rates[event_type], event_type))]

    def _sample_of(self, rows: Ints) -> SliceSample:
        return self._sliced.drawn[self._type_of(rows)]

    def _type_of(self, rows: Ints) -> str:
        return self._events.type_names[int(self._events.type_codes[rows[0]])]

    def _standard_error(self, found: MeetingPairs, mask: Mask, share: float) -> float:
        if found.complete:
            return 0.0
        at_least = math.sqrt(share * (1 - share) / len(found))  # as if pairs had nothing to do with each other
        return max(at_least, between_slices(self._sliced.slice_of[found.first], mask, len(self._sample.slices)))

    def _distant_pairs(
        self, one: Position, other: Position, relation: Relation, rows: Mapping[str, Ints]
    ) -> MeetingPairs:
        """Pairs at any distance in the sample, in either order, for positions whose events never meet there."""
        first, second = rows[one.alias], rows[other.alias]
        names = f"'{one.label} {one.alias}' and '{other.label} {other.alias}'"
        if len(first) and len(second):
            chosen, partners = (
                side[self._rng.integers(0, len(side), min(self._pairs, len(first) * len(second)))]
                for side in (first, second)
            )
            distinct = chosen != partners
            if distinct.any():
                self.notices.append(
                    f"no events of {names} were seen to meet within the window: pairs farther apart were measured"
                )
                return MeetingPairs(chosen[distinct], partners[distinct], False)
        raise StatisticsError(
            f"no two events for {names} are in the sample, so their selectivity cannot be measured; look at more "
            "events (samples) or use a longer trace"
        )


def between_slices(slice_of_pair: Ints, fulfilled: Mask, slices: int) -> float:
    """Standard error of the share of fulfilling pairs, as a ratio of sums over `slices` slices drawn evenly.

    0 if there are less than two slices, which say nothing about differences.
    """
    _, place = np.unique(slice_of_pair, return_inverse=True)
    pairs = np.bincount(place)
    hits = np.bincount(place, weights=fulfilled)
    total = int(pairs.sum())
    if slices < 2 or not total:
        return 0.0
    deviation = hits - pairs * (hits.sum() / total)
    return min(1.0, math.sqrt(slices / (slices - 1) * float(deviation @ deviation)) / total)
