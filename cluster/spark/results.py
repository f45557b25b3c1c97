"""Matches back into Spark: an Arrow table, or blocks in Ray's object store, as a DataFrame with the same values.

Both ways hand Arrow to Spark as it is. `Dataset.to_spark` of Ray goes through pandas, where an integer column with a
missing value becomes one of floats and large ids change.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from cluster.spark.failures import failing_as_trace_error
from decopa.errors import OutputError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


def to_spark(spark: SparkSession, matches: Any) -> DataFrame:
    """A pyarrow Table, a Ray Dataset, or a list of ObjectRefs of Arrow tables with one schema, as a Spark DataFrame.

    Lists (of KL aliases) stay lists. Dictionaries are decoded; times are microseconds, those without a zone become
    TIMESTAMP_NTZ. A table goes through this process; blocks of a dataset go from Ray to Spark's executors directly and
    are held until Spark stops.
    """
    if isinstance(matches, pa.Table):
        return _from_table(spark, plain_table(matches))
    refs = list(matches) if isinstance(matches, Sequence) else matches.to_arrow_refs()
    if not refs:
        raise OutputError("there is no block to make a Spark frame of, so its columns are unknown; pass an empty table")
    return _from_blocks(spark, refs)


def plain_table(table: pa.Table) -> pa.Table:
    """The same values in the Arrow types that Spark knows."""
    return table.cast(plain_schema(table.schema))


def plain_schema(schema: pa.Schema) -> pa.Schema:
    return pa.schema([pa.field(field.name, plain_type(field.type)) for field in schema])


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Dictionaries, large and view types, unsigned integers and other units of time as what Spark can read."""
    if pa.types.is_dictionary(kind):
        return plain_type(kind.value_type)
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_large_list(kind) or pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind):
        return pa.list_(plain_type(kind.value_type))
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz and "UTC")
    if pa.types.is_date64(kind):
        return pa.date32()
    unsigned = {pa.uint8(): pa.int16(), pa.uint16(): pa.int32(), pa.uint32(): pa.int64(), pa.uint64(): pa.int64()}
    # A column without any value has no type; text can hold what comes later.
    return pa.string() if pa.types.is_null(kind) else unsigned.get(kind, kind)


def _spark_schema(schema: pa.Schema) -> StructType:
    from pyspark.sql.pandas.types import from_arrow_type
    from pyspark.sql.types import StructField, StructType

    fields = [StructField(one.name, from_arrow_type(one.type, prefer_timestamp_ntz=True)) for one in schema]
    return StructType(fields)


def _from_table(spark: SparkSession, table: pa.Table) -> DataFrame:
    """As PySpark does it for pandas, less the pandas (Spark 4 has this as `createDataFrame`)."""
    from pyspark.sql import DataFrame
    from pyspark.sql.pandas.serializers import ArrowStreamSerializer

    context, jvm = spark.sparkContext, spark._jvm
    assert jvm is not None
    with failing_as_trace_error("the matches cannot be given to Spark"):
        schema = _spark_schema(table.schema)
        if not table.num_rows:
            return spark.createDataFrame([], schema)
        rows = context._serialize_to_jvm(
            table.to_batches(max_chunksize=65_536),
            ArrowStreamSerializer(),
            jvm.PythonSQLUtils.readArrowStreamFromFile,
            jvm.ArrowIteratorServer,
        )
        return DataFrame(jvm.PythonSQLUtils.toDataFrame(rows, schema.json(), spark._jsparkSession), spark)


def _from_blocks(spark: SparkSession, refs: Sequence[Any]) -> DataFrame:
    """As RayDP does it, with `mapInArrow` for its `mapInPandas`: executors fetch the blocks from Ray."""
    import ray
    from pyspark.sql import DataFrame
    from raydp.spark.dataset import get_locations

    schema = plain_schema(ray.get(ray.remote(num_cpus=0)(_schema_of).remote(refs[0])))
    holder_name = f"{spark.sparkContext.appName}_SPARK_MASTER"
    holder = ray.get_actor(holder_name)
    key, namespace = uuid.uuid4(), ray.get_runtime_context().namespace
    ray.get(holder.add_objects.remote(key, list(refs)))
    address = ray.get(holder.get_ray_address.remote())

    def fetch(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import logging

        import ray

        if not ray.is_initialized():
            ray.init(address=address, namespace=namespace, logging_level=logging.WARNING, log_to_driver=False)
        holder = ray.get_actor(holder_name)
        for batch in numbers:
            for number in batch.column("idx").to_pylist():
                table = ray.get(ray.get(holder.get_object.remote(key, number)))
                yield from table.cast(schema).to_batches()

    with failing_as_trace_error("the matches cannot be given to Spark"):
        reader = spark.sparkContext._jvm.org.apache.spark.sql.raydp.ObjectStoreReader
        numbered = DataFrame(reader.createRayObjectRefDF(spark._jsparkSession, get_locations(list(refs))), spark)
        return numbered.mapInArrow(fetch, _spark_schema(schema))


def _schema_of(table: pa.Table) -> pa.Schema:
    return table.schema
