"""What Parquet files, damaged ones among them, say about their columns."""

from __future__ import annotations

from collections.abc import Collection

import pyarrow as pa
import pyarrow.parquet as pq


def nullable_columns(file: pq.ParquetFile) -> Collection[str]:
    """Columns of a Parquet file for which the statistics do not rule out missing values."""
    metadata = file.metadata
    nullable = {field.name for field in file.schema_arrow if field.nullable}
    paths = [metadata.schema.column(index).path for index in range(metadata.num_columns)]
    proven = dict.fromkeys(paths, True)
    for group in range(metadata.num_row_groups):
        # Damaged metadata of a column makes Arrow abort the process where it is looked at, but an error where it is
        # read, so a row is read first. That does not look at the type, which must be right for the statistics.
        next(file.iter_batches(1, row_groups=[group]), None)
        for index, path in enumerate(paths):
            chunk = metadata.row_group(group).column(index)
            if chunk.physical_type != metadata.schema.column(index).physical_type:
                raise ValueError(f"column '{path}' has two types")
            found = chunk.statistics
            proven[path] &= found is not None and found.has_null_count and found.null_count == 0
    return {name for name in nullable if not proven.get(name, False)}


def groups_after(file: pq.ParquetFile, skip: int) -> tuple[list[int], int]:
    """The row groups that hold rows after the first `skip`, and how many rows of the first of them come before; if the
    file has no more than that, no groups and how many are left to skip in the next file."""
    for group in range(file.metadata.num_row_groups):
        rows = file.metadata.row_group(group).num_rows
        if skip < rows:
            return list(range(group, file.metadata.num_row_groups)), skip
        skip -= rows
    return [], skip


def whole(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch, if its dictionaries have all that its rows refer to: Arrow reads damaged files without a look."""
    for column in batch.columns:
        if pa.types.is_dictionary(column.type):
            column.validate(full=True)
    return batch
