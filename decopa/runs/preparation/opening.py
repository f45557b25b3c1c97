"""Events, whatever they come as -> a source that was checked, and blocks of it for Ray."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from decopa.errors import TraceError
from decopa.query.output import EVERY_ATTRIBUTE
from decopa.query.query import Query
from decopa.runs.spec import RunSpec, TraceOptions
from shuffler.source.stopping import Stop
from shuffler.source.trace import TraceSource, open_trace

if TYPE_CHECKING:
    from cluster.feeding import BlockSource
    from cluster.spark.traces import LoadedTrace

#: CPUs that the executors of Spark take at most on a Ray that is started for the run.
SPARK_CPUS = 4


@dataclass(frozen=True)
class OpenedEvents:
    """Events that were opened and checked; `loaded` if they came through Spark."""

    source: TraceSource
    loaded: LoadedTrace | None = None

    @property
    def live(self) -> bool:
        return self.source.row_count is None

    def blocks(self, rows: int, publish_every_s: float = 0.0) -> BlockSource:
        """The events as Ray's shufflers take them, `rows` at a time where this process reads them."""
        from cluster.feeding import TraceBlocks, gather_s

        if self.loaded is None:
            return TraceBlocks(self.source, rows, gather_s=gather_s(publish_every_s))
        from cluster.spark.feeding import SparkBlocks

        return SparkBlocks(self.loaded.blocks, self.source.format, self.source.name)


def open_events(
    trace: TraceOptions, events: Any = None, queries: Sequence[Query] = (), *, stop: Stop | None = None
) -> OpenedEvents:
    """Opens the events given, or the trace that the options name; of a data frame only what the queries read."""
    if isinstance(events, TraceSource):
        return OpenedEvents(events)
    if is_spark_frame(events):
        from cluster.spark.traces import load_trace

        needed = frozenset[str]().union(*(query.attributes for query in queries))
        loaded = load_trace(events, trace.columns, attributes=None if EVERY_ATTRIBUTE in needed else needed)
        return OpenedEvents(loaded.source(nan_as_null=trace.nan_as_null), loaded)
    if events is None and trace.path is None:
        raise TraceError("no events: name a trace, or pass a table, a path or record batches")
    return OpenedEvents(
        open_trace(
            trace.path if events is None else events,
            columns=trace.columns,
            assume_sorted=trace.assume_sorted,
            nan_as_null=trace.nan_as_null,
            lateness=trace.lateness,
            bad_rows=trace.bad_rows,
            kinds=trace.kinds,
            stop=stop,
        )
    )


def is_spark_frame(events: object) -> bool:
    """Whether events are a data frame of Spark, without importing it."""
    return type(events).__module__.startswith("pyspark.sql.") and hasattr(events, "sparkSession")


@contextmanager
def spark_frame(spec: RunSpec) -> Iterator[Any]:
    """The trace of a spec as a data frame of a Spark on Ray; both stop at the end if they were started here."""
    from cluster.ray_session import ray_session
    from cluster.spark.session import spark_on_ray
    from cluster.spark.traces import read_trace

    assert spec.trace.path is not None
    cpus = (spec.planning.units or 1) + spec.ray.shufflers + SPARK_CPUS
    with ray_session(address=spec.ray.address, cpus=cpus), spark_on_ray(app_name="decopa") as spark:
        yield read_trace(spark, spec.trace.path, spec.trace.columns)
