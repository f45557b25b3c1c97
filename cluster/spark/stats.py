"""Statistics for planning, measured by Spark: exact rates from the whole trace, selectivities from drawn slices of it.

Spark counts events by type and window and hands over the slices that `costmodel.sampling.slices` draws pairs from; the
same seed gives the same slices, whatever the partitions of the frame.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from cluster.spark.failures import failing_as_trace_error
from cluster.spark.traces import DEFAULT_COLUMNS, CleanTrace, clean, named, time_us
from costmodel.sampling.estimate import Estimate, tempered, type_pairs
from costmodel.sampling.events import EventColumns
from costmodel.sampling.slices import SlicedEvents, SliceSample, estimate_on_slices
from costmodel.statistics import Pair, RateProfile
from decopa.errors import StatisticsError, TraceError, did_you_mean
from decopa.query.names import duration_text
from decopa.query.query import Query
from shuffler.rows.columns import Place
from shuffler.rows.events import EventConverter, EventFormat, TraceColumns, measured_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: Events that are brought to the driver for the selectivities of all queries with one window, about.
DEFAULT_SAMPLES = 400_000
#: Slices drawn for a type at least, if it occurs in so many: the error is told from differences between them.
MIN_SLICES = 40
#: Names of columns that no trace should have.
_TIME, _WINDOW, _SLICE, _TYPE = "__time_us", "__window", "__slice", "__type"
_THINNING = 2**20
#: Windows of a trace from which on their differences say something.
_LEAST_WINDOWS = 8


@dataclass(frozen=True, slots=True)
class TypeCounts:
    """Events of a type in the windows of a trace, laid end to end from its first event on.

    `windows` is how many windows there are, `peak` the most events in one, `squares` the sum of their squares.
    """

    events: int
    windows: int
    peak: int
    squares: int

    def profile(self, all_events: int) -> RateProfile:
        mean = self.events / self.windows
        variance = max(0.0, self.squares / self.windows - mean * mean)
        return RateProfile(float(self.peak), math.sqrt(variance) / mean, self.events / all_events)


@dataclass(frozen=True, slots=True)
class SamplePlan:
    """How many slices to draw for each type, and which share of the events in them to take."""

    slices: int
    share: float

    @classmethod
    def within(cls, samples: int, events_per_window: float, types: int) -> SamplePlan:
        """About `samples` events in all; few slices are thinned out rather than made fewer than MIN_SLICES."""
        if samples < 1:
            raise StatisticsError(f"a measurement needs at least one event to look at, got {samples}")
        per_slice = max(2 * events_per_window, 1.0)  # a slice is two windows long
        slices = max(MIN_SLICES, int(samples / (per_slice * types)))
        return cls(slices, min(1.0, samples / (slices * per_slice * types)))


def measure_on_spark(
    queries: Sequence[Query],
    trace: DataFrame | CleanTrace,
    columns: TraceColumns = DEFAULT_COLUMNS,
    *,
    seed: int = 0,
    samples: int = DEFAULT_SAMPLES,
    nan_as_null: bool = False,
) -> list[Estimate]:
    """Rates, selectivities and how rates vary, for each query; like `decopa.runs.preparation.measure`, for any size.

    Rates are counted over the whole trace. Selectivities come from about `samples` events in slices of the trace, with
    standard errors that allow for bursts; if the whole trace has fewer, they are as exact as `measure` makes them.
    The frame is gone through several times: cache it if it is costly to compute. NaN in an attribute of the queries is
    refused, or a missing value with `nan_as_null`, as in a run.
    """
    if not isinstance(trace, CleanTrace):
        trace = clean(trace, columns)
    if not trace.rows:
        raise StatisticsError(f"rates cannot be measured: {trace.name} has no events")
    found: dict[Query, Estimate] = {}
    for window_us in sorted({query.window_us for query in queries}):
        alike = [query for query in queries if query.window_us == window_us]
        found |= _Measurement(trace, alike, window_us, seed=seed, samples=samples, nan_as_null=nan_as_null).estimates()
    return [found[query] for query in queries]


class _Measurement:
    """Queries with one window over one trace."""

    def __init__(
        self,
        trace: CleanTrace,
        queries: Sequence[Query],
        window_us: int,
        *,
        seed: int,
        samples: int,
        nan_as_null: bool,
    ) -> None:
        from pyspark.sql import functions as F

        self._trace, self._queries, self._seed, self._samples = trace, queries, seed, samples
        self._nan_as_null = nan_as_null
        self._types = sorted({event_type for query in queries for event_type in query.event_types})
        self._first_us, last_us = trace.span_us
        self._span_us = last_us - self._first_us
        if not self._span_us:
            raise StatisticsError("rates cannot be measured: the trace needs events at two different times at least")
        self._query_window_us = window_us
        # Windows longer than the trace see it all, and are cut to it to keep times within 64 bits.
        self._window_us = min(window_us, self._span_us + 1)
        self._windows = self._span_us // self._window_us + 1
        # `/` would go through floats, which are too coarse for the times of this century.
        number = F.expr(f"({_TIME} - {self._first_us}L) div {self._window_us}L")
        self._relevant = (
            trace.frame.withColumn(_TYPE, named(trace.columns.type).cast("string"))
            .where(F.col(_TYPE).isin(self._types))
            .withColumn(_TIME, time_us(trace.frame, trace.columns))
            .withColumn(_WINDOW, number)
        )

    def estimates(self) -> dict[Query, Estimate]:
        counted = self._relevant.groupBy(_TYPE, _WINDOW).count().cache()
        try:
            with failing_as_trace_error(self._trace.name):
                counts = self._counts(counted)
                meetings = self._meetings(counted, counts)
                drawn, share = self._draw(counted, counts)
                table = self._fetch(drawn, share)
        finally:
            counted.unpersist()
        events = self._converted(table)
        events = replace(events, type_names=(*events.type_names, *(set(self._types) - set(events.type_names))))
        sliced = SlicedEvents.of(
            events,
            table.column(_SLICE).to_numpy(),
            origin_us=self._first_us,
            window_us=self._window_us,
            drawn=drawn,
        )
        sliced = replace(sliced, share=share, whole=self._whole_types())
        return {query: self._estimate(query, sliced, counts, meetings) for query in self._queries}

    def _converted(self, table: pa.Table) -> EventColumns:
        """The sample, converted and checked as the events of a run are."""
        rows = table.combine_chunks().to_batches()[0]
        nullable = [name for name in table.column_names if table.column(name).null_count]
        names = TraceColumns(self._trace.columns.id, _TIME, _TYPE)
        form = EventFormat.of(table.schema, names, nullable=nullable, nan_as_null=self._nan_as_null)
        converter = EventConverter(form)
        place = Place(f"a sample of {self._trace.name}")
        batch = converter.convert(rows, place, sorted(self._attributes()), 0)
        return measured_columns([batch], form, converter.strings)

    def _estimate(
        self,
        query: Query,
        sliced: SlicedEvents,
        counts: Mapping[str, TypeCounts],
        meetings: Mapping[Pair, float],
    ) -> Estimate:
        scale = self._query_window_us / self._span_us
        rates = {event_type: counts[event_type].events * scale for event_type in query.event_types}
        # A window that the trace does not fill has no peak that one could rely on.
        profiles = {
            event_type: counts[event_type].profile(self._trace.rows)
            for event_type in query.event_types
            if self._windows > 1
        }
        mine = {types: meetings[types] for types in type_pairs(query) if types in meetings}
        found = estimate_on_slices(
            query, sliced, rates, span_us=self._span_us, profiles=profiles, meetings=mine, seed=self._seed
        )
        if self._span_us >= self._query_window_us:
            return found
        notice = (
            f"the trace spans {duration_text(self._span_us)}, less than the window of "
            f"{duration_text(self._query_window_us)}: rates are extrapolated"
        )
        return Estimate(found.statistics, (notice, *found.notices))

    def _counts(self, counted: DataFrame) -> dict[str, TypeCounts]:
        """Of every type of the queries; StatisticsError for one that does not occur."""
        from pyspark.sql import functions as F

        n, wide = F.col("count"), F.col("count").cast("decimal(19,0)")
        rows = counted.groupBy(_TYPE).agg(F.sum(n), F.max(n), F.sum(wide * wide)).collect()
        counts = {row[0]: TypeCounts(int(row[1]), self._windows, int(row[2]), int(row[3])) for row in rows}
        for event_type in self._types:
            if event_type not in counts:
                kind = self._trace.frame.select(named(self._trace.columns.type).cast("string")).distinct().limit(200)
                raise StatisticsError(
                    f"the trace has no event of type '{event_type}', so its rate cannot be measured"
                    f"{did_you_mean(event_type, [row[0] for row in kind.collect()])}"
                )
        return counts

    def _meetings(self, counted: DataFrame, counts: Mapping[str, TypeCounts]) -> dict[Pair, float]:
        """As `costmodel.sampling.estimate.meeting_ratio`, told from windows laid end to end: of pairs in one window
        half are in this order, and of pairs in one window and the next half are a window apart at most.

        Which of two types comes first within a window is not seen, and if windows are few nothing can be told.
        """
        from pyspark.sql import functions as F

        windows = self._span_us / self._window_us
        if windows < _LEAST_WINDOWS:
            return {}
        n = F.col("count").cast("double")
        at = F.col(_WINDOW)
        near = F.explode(F.array(at, at + 1)).alias("then")  # the same window and the next, as an equality
        earlier = counted.select(F.col(_TYPE).alias("first"), at.alias("at"), n.alias("firsts"), near)
        later = counted.select(F.col(_TYPE).alias("second"), at.alias("then"), n.alias("seconds"))
        alike = (F.col("first") == F.col("second")) & (F.col("then") == F.col("at"))  # no event meets itself
        pairs = F.col("firsts") * (F.col("seconds") - alike.cast("double")) / 2
        rows = earlier.join(later, "then").groupBy("first", "second").agg(F.sum(pairs)).collect()
        met = {(row[0], row[1]): float(row[2]) for row in rows}
        found = {}
        for first, second in itertools.product(counts, repeat=2):
            possible = counts[first].events * (counts[second].events - (first == second))
            found[first, second] = tempered(met.get((first, second), 0.0), possible / windows)
        return found

    def _draw(self, counted: DataFrame, counts: Mapping[str, TypeCounts]) -> tuple[dict[str, SliceSample], float]:
        """Slices for each type, among those with an event of the type in either half, in the order of a seeded hash."""
        from pyspark.sql import Window
        from pyspark.sql import functions as F

        total = sum(count.events for count in counts.values())
        plan = SamplePlan.within(self._samples, total / self._windows, len(self._types))
        both = F.explode(F.array(F.col(_WINDOW), F.col(_WINDOW) - 1)).alias(_SLICE)
        numbers = counted.select(_TYPE, both).distinct().where(F.col(_SLICE) >= 0)  # nothing is before the first window
        rank = F.row_number().over(Window.partitionBy(_TYPE).orderBy(F.xxhash64(_SLICE, F.lit(self._seed)), _SLICE))
        many = F.count(_SLICE).over(Window.partitionBy(_TYPE))
        ranked = (
            numbers.withColumn("rank", rank)
            .withColumn("population", many)
            .where(F.col("rank") <= plan.slices + 1)
            .collect()
        )
        population = {row[_TYPE]: int(row["population"]) for row in ranked}
        chosen: dict[str, list[int]] = {event_type: [] for event_type in self._types}
        for row in sorted(ranked, key=lambda row: row["rank"]):
            chosen[row[_TYPE]].append(int(row[_SLICE]))
        drawn = {
            event_type: SliceSample(
                np.array(sorted(found[: plan.slices]), dtype=np.int64),
                len(found) <= plan.slices and plan.share >= 1,
                population.get(event_type),
            )
            for event_type, found in chosen.items()
        }
        return drawn, plan.share

    def _fetch(self, drawn: Mapping[str, SliceSample], share: float) -> pa.Table:
        """The events of all slices that were drawn, each with the number of its slice."""
        from pyspark.sql import functions as F

        spark, names = self._trace.frame.sparkSession, self._trace.columns
        wanted = sorted({int(number) for sample in drawn.values() for number in sample.slices})
        slices = spark.createDataFrame([(number,) for number in wanted], f"{_SLICE} long")
        relevant = self._relevant
        if share < 1:
            kept = F.pmod(F.xxhash64(named(names.id), F.lit(self._seed)), F.lit(_THINNING)) < int(share * _THINNING)
            # Of a part of the members there are far too few groups, and a part of what blocks blocks far too little.
            relevant = relevant.where(kept | F.col(_TYPE).isin(sorted(self._whole_types())))
        attributes = [named(name) for name in sorted(self._columns_needed() - {names.id})]
        events = relevant.select(
            named(names.id), *attributes, _TYPE, _TIME, F.explode(F.array(_WINDOW, F.col(_WINDOW) - 1)).alias(_SLICE)
        ).join(F.broadcast(slices), _SLICE)
        batches: list[pa.RecordBatch] = events._collect_as_arrow()  # without pandas; `toArrow` from Spark 4 on
        if not batches:
            raise StatisticsError("no event is in the sample; look at more events (samples)")
        # The order in which Spark hands rows over is any; the same seed shall give the same pairs.
        by = [(_SLICE, "ascending"), (_TIME, "ascending"), (names.id, "ascending")]
        return pa.Table.from_batches(batches).sort_by(by)

    def _whole_types(self) -> frozenset[str]:
        """Types of which a part would mislead: of groups and of what blocks."""
        found = ((query, query.kleene_aliases | query.negated_aliases) for query in self._queries)
        return frozenset(query.position(alias).type for query, aliases in found for alias in aliases)

    def _attributes(self) -> set[str]:
        return set().union(*(query.attributes for query in self._queries)) - {"ts"}  # a query is bound as a whole

    def _columns_needed(self) -> set[str]:
        """The trace's columns that the queries name; TraceError for one that is not there."""
        needed = self._attributes() - {"id"}
        known = self._trace.frame.columns
        for name in sorted(needed):
            if name not in known:
                raise TraceError(f"{self._trace.name} has no column '{name}'{did_you_mean(name, known)}")
        return needed
