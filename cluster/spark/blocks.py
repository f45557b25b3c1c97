"""Rows of Spark as Arrow tables in Ray's object store: partition by partition, without passing through the driver.

One Ray task per partition fetches the rows from the executor that holds them and looks at them on the way: are they
in time order, do ids increase, which types occur. `ray.data.from_spark` goes the same way, but then starts two more
rounds of tasks to describe the blocks, all tasks of a round at once: on a small machine that is several times slower.

The rows stay cached in Spark as well, so that Ray makes a block again if its node is lost; `release` ends that.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from cluster.spark.failures import failing_as_trace_error
from decopa.errors import TraceError
from shuffler.rows.columns import Place, identities, timestamps_us, type_labels
from shuffler.rows.events import TraceColumns
from shuffler.source.checks import IdOrder, TimeOrder
from shuffler.source.readers import Reader

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: An executor of RayDP answers two calls at a time; more tasks would only start more processes.
_FETCHES_PER_EXECUTOR = 2


@dataclass(frozen=True, slots=True)
class Summary:
    """What was seen in the rows of one partition; times in microseconds, `ids_increase` strictly."""

    rows: int
    schema: pa.Schema
    first_ts_us: int = 0
    last_ts_us: int = 0
    disorder: str | None = None
    event_types: frozenset[str] = frozenset()
    nullable: frozenset[str] = frozenset()
    ids_increase: bool = True
    first_id: int | str | None = None
    last_id: int | str | None = None


@dataclass(frozen=True, slots=True)
class Block:
    """An Arrow table in Ray's object store (`table` is its ObjectRef), and what is in it.

    Columns are named and typed as in Spark: string, int8 to int64, float, double, bool, decimal128; times are
    timestamp[us, tz=UTC], or timestamp[us] for TIMESTAMP_NTZ, or integers if they were. `cached_as` is Spark's number
    for the rows that it keeps to make the block again.
    """

    table: Any
    summary: Summary
    cached_as: int

    @property
    def rows(self) -> int:
        return self.summary.rows

    @property
    def first_ts_us(self) -> int:
        return self.summary.first_ts_us

    @property
    def last_ts_us(self) -> int:
        return self.summary.last_ts_us


def arrow_blocks(df: DataFrame, columns: TraceColumns, *, name: str = "the data frame") -> list[Block]:
    """A block for every partition that has rows, in time order; TraceError if the rows are not in time order.

    Rows keep their order within a partition, and the blocks are in the order of their times, so it is enough that
    partitions are ordered within and do not overlap. `df` must come from a Spark on Ray (`spark_on_ray`).
    """
    blocks = fetched_blocks(df, columns, name=name)
    disorder = disorder_of([block.summary for block in blocks], name)
    if disorder is not None:
        release(df.sparkSession, blocks)
        raise TraceError(f"{disorder}; sort the frame with time_sorted")
    return blocks


def fetched_blocks(df: DataFrame, columns: TraceColumns, *, name: str) -> list[Block]:
    """As `arrow_blocks`, in whatever order the rows are; blocks are sorted by their first times all the same."""
    import ray
    from pyspark import StorageLevel

    context: Any = df.sparkSession.sparkContext
    writer = context._jvm.org.apache.spark.sql.raydp.ObjectStoreWriter
    with failing_as_trace_error(name):
        info = writer.prepareRecoverableRDD(df._jdf, context._getJavaStorageLevel(StorageLevel.MEMORY_AND_DISK))
    cached_as, schema, agent = info.rddId(), info.schemaJson(), info.driverAgentUrl()
    executors = list(info.locations())
    most = _FETCHES_PER_EXECUTOR * len(set(executors))
    # No CPU is asked for, or blocks could neither be made nor made again while units hold all of them.
    task: Any = ray.remote(num_returns=2, num_cpus=0, max_retries=-1)(_fetch)
    made: list[tuple[Any, Any]] = []
    under_way: list[Any] = []
    try:
        for partition, executor in enumerate(executors):
            if len(under_way) >= most:
                _, under_way = ray.wait(under_way, num_returns=1, fetch_local=False)
            actor = f"raydp-executor-{executor}"
            table, summary = task.remote(actor, cached_as, partition, schema, agent, columns, name)
            made.append((table, summary))
            under_way.append(summary)
        summaries: list[Summary] = ray.get([summary for _, summary in made])
    except BaseException as err:
        writer.releaseRecoverableRDD(cached_as)
        cause = getattr(err, "cause", None)  # of an error in a task
        if isinstance(cause, TraceError):
            raise cause from None
        raise
    blocks = [
        Block(table, summary, cached_as) for (table, _), summary in zip(made, summaries, strict=True) if summary.rows
    ]
    if not blocks:
        writer.releaseRecoverableRDD(cached_as)
    return sorted(blocks, key=lambda block: (block.first_ts_us, block.last_ts_us))


def release(spark: SparkSession, blocks: Iterable[Block]) -> None:
    """Frees what Spark keeps for these blocks and all others made with them; the tables stay in the object store.

    From then on a table that is lost with its node cannot be made again.
    """
    writer = spark.sparkContext._jvm.org.apache.spark.sql.raydp.ObjectStoreWriter  # type: ignore[union-attr]
    for cached_as in sorted({block.cached_as for block in blocks}):
        writer.releaseRecoverableRDD(cached_as)


def summarize(table: pa.Table, columns: TraceColumns, place: Place) -> Summary:
    """What a partition holds, checked as `shuffler.source.trace` checks it; raises TraceError for what it refuses."""
    order, ids = TimeOrder(columns.ts), IdOrder()
    disorder, types = None, set[str]()
    earliest: list[int] = []
    latest: list[int] = []
    rows = 0
    for batch in table.to_batches():
        if not batch.num_rows:
            continue
        here = Place(place.source, place.first_row + rows)
        ts = timestamps_us(batch.column(columns.ts), columns.ts, here)
        disorder = disorder or order.see(ts, batch.column(columns.ts), here)
        ids.see(identities(batch.column(columns.id), columns.id, here))
        types.update(pc.unique(type_labels(batch.column(columns.type), columns.type, here)).to_pylist())
        earliest.append(int(ts.min()))
        latest.append(int(ts.max()))
        rows += batch.num_rows
    if not rows:
        return Summary(0, table.schema)
    id_column = table.column(columns.id)
    return Summary(
        rows,
        table.schema,
        min(earliest),
        max(latest),
        disorder,
        frozenset(types),
        frozenset(field for field in table.column_names if table.column(field).null_count),
        ids.increasing,
        id_column[0].as_py(),
        id_column[-1].as_py(),
    )


def disorder_of(summaries: Sequence[Summary], name: str) -> str | None:
    """Where time goes back within a partition or between two; None if partitions, as listed, are in time order."""
    within = next((summary.disorder for summary in summaries if summary.disorder is not None), None)
    if within is not None:
        return within
    for before, after in itertools.pairwise(summaries):
        if after.first_ts_us < before.last_ts_us:
            return (
                f"{name}: two partitions overlap in time ({before.first_ts_us} to {before.last_ts_us} us and "
                f"{after.first_ts_us} to {after.last_ts_us} us)"
            )
    return None


def ids_increase(summaries: Sequence[Summary]) -> bool:
    """True if ids strictly increase over all partitions as listed, which proves that they are unique."""
    # Ids of one trace are of one type, so neighbours can be compared.
    return all(summary.ids_increase for summary in summaries) and all(
        before.last_id < after.first_id  # type: ignore[operator]
        for before, after in itertools.pairwise(summaries)
    )


class BlockReader(Reader):
    """Reads blocks in any process of the cluster, one after the other; tables on the same node are not copied."""

    def __init__(self, blocks: Sequence[Block], schema: pa.Schema, name: str = "the data frame") -> None:
        self.name, self.schema, self.unreadable = name, schema, {}
        self.nullable = frozenset().union(*(block.summary.nullable for block in blocks))
        self._blocks = tuple(blocks)

    def read(self, columns: Sequence[str], rows: int, skip: int = 0) -> Iterator[pa.RecordBatch]:
        import ray

        for block, following in zip(self._blocks, [*self._blocks[1:], None]):
            if skip >= block.rows:
                skip -= block.rows
                continue
            if following is not None:  # is brought to this node while this block is worked on
                ray.wait([following.table], timeout=0, fetch_local=True)
            table: pa.Table = ray.get(block.table)
            yield from table.select(list(columns)).slice(skip).to_batches(max_chunksize=rows)
            skip = 0


def _fetch(
    executor: str, cached_as: int, partition: int, schema: str, agent: str, columns: TraceColumns, name: str
) -> tuple[pa.Table, Summary]:
    """Runs as a Ray task: the rows of a partition and their summary. RayDP's own task does the first half of it."""
    import ray
    from ray._private.worker import global_worker

    # Ray calls Java actors from Python only with this. It is taken back, or this process would import the user's script
    # (and so run it) to find the functions of later tasks.
    global_worker.set_load_code_from_local(True)  # type: ignore[no-untyped-call]
    try:
        actor: Any = ray.get_actor(executor)
        encoded: Any = ray.get(actor.getRDDPartition.remote(cached_as, partition, schema, agent))
    finally:
        global_worker.set_load_code_from_local(False)  # type: ignore[no-untyped-call]
    table = pa.ipc.open_stream(pa.BufferReader(encoded)).read_all().replace_schema_metadata()
    return table, summarize(table, columns, Place(f"{name}, partition {partition}"))
