"""The one renderer of tables: aligned for a terminal, or as Markdown."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pyarrow as pa

from decopa.files import flat
from decopa.report.tree import columns_of, padded

GAP = "  "
Row = Sequence[str]


def widths_of(header: Row, rows: Sequence[Row]) -> list[int]:
    """Columns of the terminal that each column of the table takes; rows without cells are passed over."""
    lines = [header, *(row for row in rows if row)]
    return [max(columns_of(line[at]) for line in lines) for at in range(len(header))]


def aligned(cells: Row, widths: Sequence[int], *, words: Collection[int]) -> list[str]:
    """The cells of a row, columns of `words` to the left and numbers to the right."""
    return [
        padded(cell, width) if at in words else " " * (width - columns_of(cell)) + cell
        for at, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]


def text_table(header: Row, rows: Sequence[Row], *, words: Collection[int] = (0,)) -> str:
    """Rows under their header, without a newline at the end."""
    widths = widths_of(header, rows)
    return "\n".join(GAP.join(aligned(row, widths, words=words)).rstrip() for row in [header, *rows])


def markdown_table(header: Row, rows: Sequence[Row], *, words: Collection[int] = (0,)) -> str:
    """The same as Markdown, without a newline at the end."""
    rule = ["---" if at in words else "---:" for at in range(len(header))]
    return "\n".join("| " + " | ".join(row) + " |" for row in [header, rule, *rows])


def preview(table: pa.Table, rows: int) -> str:
    """The first rows of a table of matches as text."""
    head = flat(pa.Table.from_batches(table.slice(0, rows).to_batches(), table.schema), ",")
    columns = [
        ["" if cell is None else str(cell) for cell in one.cast(pa.string()).to_pylist()] for one in head.columns
    ]
    words = [at for at, kind in enumerate(head.schema.types) if not _is_number(kind)]
    return text_table(head.schema.names, list(zip(*columns, strict=True)), words=words)


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))
