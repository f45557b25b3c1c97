"""Payloads of a broker's records -> rows, a batch at a time: no payload is looked at by Python on its own.

A batch in which something does not fit the schema is halved until the payloads that do not fit stand alone. These are
put aside with the reason, or stop the run, as the user wants it.
"""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.json

from decopa.errors import TraceError
from shuffler.rows.columns import Ints, is_text
from shuffler.source.kinds import KINDS

#: Payloads in, a table out; it may raise an Arrow error, and may have any number of rows.
Parse = Callable[[Sequence[bytes], pa.Schema], pa.Table]


@dataclass(frozen=True, slots=True)
class Decoded:
    """Rows, the index of the payload that each came from, and the payloads that could not be read, with the reason."""

    rows: pa.RecordBatch
    payloads: Ints
    bad: tuple[tuple[int, str], ...] = ()


class Decoder:
    """Reads payloads of one format; `columns` says which columns there are and what they hold."""

    def __init__(self, form: str, columns: Mapping[str, str]) -> None:
        self.columns = dict(columns)
        self.schema = schema_of(columns)
        self._form = form

    def decode(self, payloads: Sequence[bytes | None], names: Sequence[str]) -> Decoded:
        """The rows of these payloads, in their order, with these columns."""
        schema = self.schema if self._form == "csv" else pa.schema([self.schema.field(name) for name in names])
        if self._form == "arrow":
            decoded = _decode_arrow(payloads, schema)
        else:
            decoded = _decode_lines(payloads, schema, _parse_json if self._form == "json" else _parse_csv)
        return Decoded(decoded.rows.select(list(names)), decoded.payloads, decoded.bad)


def decode_json(lines: Sequence[bytes], schema: pa.Schema) -> Decoded:
    """A row for each line that fits the schema."""
    return _decode_lines(lines, schema, _parse_json)


def schema_of(columns: Mapping[str, str]) -> pa.Schema:
    return pa.schema([(name, KINDS[kind]) for name, kind in columns.items()])


def infer_columns(form: str, payloads: Sequence[bytes], ts: str, source: str) -> dict[str, str]:
    """What columns the first payloads have and what they hold; columns that no query can use are left out.

    ISO 8601 strings in the time column of JSON are times; those with a zone become UTC.
    """
    if form == "csv":
        raise TraceError(
            f"{source}: CSV payloads do not name their columns; name them in their order, as in "
            "--schema id=int,ts=time,type=string,x=float"
        )
    found: Counter[tuple[str, str]] = Counter()
    failure: Exception | None = None
    if form == "json":
        with contextlib.suppress(pa.ArrowException, OSError, ValueError):
            return _kinds_of_json(payloads, ts)
    for payload in payloads:  # something among them is bad: what most of them hold counts
        try:
            kinds = _kinds_of_json([payload], ts) if form == "json" else kinds_of(pa.ipc.open_stream(payload).schema)
            found.update(kinds.items())
        except (pa.ArrowException, OSError, ValueError) as err:
            failure = failure or err
    if not found:
        reason = "nothing came" if failure is None else _reason(failure)
        raise TraceError(f"{source}: its first payload cannot be read as {form}: {reason}") from failure
    columns = dict(pair for pair, _ in reversed(found.most_common()))
    return {name: "float" if found[name, "float"] and kind == "int" else kind for name, kind in columns.items()}


def _kinds_of_json(payloads: Sequence[bytes], ts: str) -> dict[str, str]:
    columns = kinds_of(_parse_json(payloads, None).schema)
    if columns.get(ts) == "string":  # Arrow takes only whole seconds for times by itself
        with contextlib.suppress(pa.ArrowInvalid):
            _parse_json(payloads, pa.schema([(ts, KINDS["time"])]))
            columns[ts] = "time"
    return columns


def kinds_of(schema: pa.Schema) -> dict[str, str]:
    """What the columns hold; those that no query can use are left out."""
    kinds = {field.name: _kind(field.type) for field in schema}
    return {name: kind for name, kind in kinds.items() if kind is not None}


def _kind(found: pa.DataType) -> str | None:
    if pa.types.is_dictionary(found):
        found = found.value_type
    if is_text(found):
        return "string"
    if pa.types.is_timestamp(found) or pa.types.is_date(found):
        return "utc" if pa.types.is_timestamp(found) and found.tz is not None else "time"
    kinds = {"int": pa.types.is_integer, "float": pa.types.is_floating, "bool": pa.types.is_boolean}
    return next((kind for kind, fits in kinds.items() if fits(found)), None)


# ------------------------------------------------------------------ a line each: JSON and CSV


def _decode_lines(payloads: Sequence[bytes | None], schema: pa.Schema, parse: Parse) -> Decoded:
    """One row for each payload. Payloads that are empty, such as the tombstones of a compacted topic, are bad."""
    bad: list[tuple[int, str]] = []
    good: list[int] = []
    tables: list[pa.Table] = []

    def read(first: int, stop: int) -> None:
        some = payloads[first:stop]
        reason = "the payload is empty"
        if all(some):
            try:
                table = parse(some, schema)  # type: ignore[arg-type]  # none of them is None
                if table.num_rows == len(some):
                    tables.append(table)
                    good.extend(range(first, stop))
                    return
                reason = f"the payload holds {table.num_rows} rows instead of one"
            except (pa.ArrowException, OSError, ValueError) as err:
                reason = _reason(err)
        if stop - first == 1:
            bad.append((first, reason))
            return
        middle = (first + stop) // 2
        read(first, middle)
        read(middle, stop)

    if payloads:
        read(0, len(payloads))
    table = pa.concat_tables(tables) if tables else schema.empty_table()
    return Decoded(_one_batch(table.select(schema.names)), np.array(good, dtype=np.int64), tuple(bad))


def _parse_json(payloads: Sequence[bytes], schema: pa.Schema | None) -> pa.Table:
    text = b"\n".join(payloads)
    options = pyarrow.json.ParseOptions(
        explicit_schema=schema, unexpected_field_behavior="infer" if schema is None else "ignore"
    )
    reading = pyarrow.json.ReadOptions(use_threads=False, block_size=len(text) + 1)
    table = pyarrow.json.read_json(pa.BufferReader(text), reading, options)
    _ = table.schema.names  # those that are not UTF-8 end in a UnicodeDecodeError
    return table


def _parse_csv(payloads: Sequence[bytes], schema: pa.Schema) -> pa.Table:
    text = b"\n".join(payloads)
    return pyarrow.csv.read_csv(
        pa.BufferReader(text),
        pyarrow.csv.ReadOptions(use_threads=False, block_size=len(text) + 1, column_names=schema.names),
        pyarrow.csv.ParseOptions(newlines_in_values=b'"' in text),
        pyarrow.csv.ConvertOptions(
            column_types=schema, null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False
        ),
    )


# ------------------------------------------------------------------ many rows each: Arrow


def _decode_arrow(payloads: Sequence[bytes | None], schema: pa.Schema) -> Decoded:
    """Any number of rows for each payload, which is an Arrow IPC stream with its schema."""
    bad: list[tuple[int, str]] = []
    counts: list[int] = []
    batches: list[pa.RecordBatch] = []
    for index, payload in enumerate(payloads):
        rows = 0
        try:
            with pa.ipc.open_stream(payload or b"") as reader:
                found = [_fitted(batch, schema) for batch in reader]
            rows = sum(batch.num_rows for batch in found)
            batches += found
        except (pa.ArrowException, OSError, ValueError) as err:
            bad.append((index, _reason(err)))
        counts.append(rows)
    table = pa.Table.from_batches(batches, schema)
    return Decoded(_one_batch(table), np.repeat(np.arange(len(counts)), counts), tuple(bad))


def _fitted(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The batch with the columns of the schema; those that it has not are missing values."""
    if batch.schema.equals(schema):
        return batch
    columns = []
    for field in schema:
        place = batch.schema.get_field_index(field.name)
        column = pa.nulls(batch.num_rows, field.type) if place < 0 else batch.column(place)
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        columns.append(column if column.type == field.type else column.cast(field.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def fit_rows(batch: pa.RecordBatch, schema: pa.Schema) -> tuple[pa.RecordBatch, list[tuple[int, str]]]:
    """The rows whose values fit the schema, and the others, by index, with the reason."""
    found: list[pa.RecordBatch] = []
    bad: list[tuple[int, str]] = []

    def fit(first: int, stop: int) -> None:
        try:
            found.append(_fitted(batch.slice(first, stop - first), schema))
        except (pa.ArrowException, ValueError) as err:
            if stop - first == 1:
                bad.append((first, _reason(err)))
                return
            middle = (first + stop) // 2
            fit(first, middle)
            fit(middle, stop)

    fit(0, batch.num_rows)
    return _one_batch(pa.Table.from_batches(found, schema)), bad


def _one_batch(table: pa.Table) -> pa.RecordBatch:
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)


def _reason(err: Exception) -> str:
    text = next(iter(str(err).splitlines()), type(err).__name__)
    return re.sub(r",? in row \d+\.?$|(?<=: )Row #\d+: ", "", text)
