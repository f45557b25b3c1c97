"""Block: rows on their way from a source."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from shuffler.rows.columns import Place

if TYPE_CHECKING:
    from shuffler.source.live.position import Position


@dataclass(frozen=True, slots=True)
class Block:
    """Rows as they were read, and where. `position` says where a source that can be read again goes on after them."""

    rows: pa.RecordBatch
    place: Place
    position: Position | None = None


def gathered(blocks: Iterable[Block], rows: int) -> Iterator[Block]:
    """The same rows in fewer blocks: small ones are joined, up to `rows` rows."""
    waiting: list[Block] = []
    count = 0
    for block in blocks:
        if waiting and count + block.rows.num_rows > rows:
            yield _joined(waiting)
            waiting, count = [], 0
        waiting.append(block)
        count += block.rows.num_rows
    if waiting:
        yield _joined(waiting)


def _joined(blocks: Sequence[Block]) -> Block:
    if len(blocks) == 1:
        return blocks[0]
    (rows,) = pa.Table.from_batches([one.rows for one in blocks]).unify_dictionaries().combine_chunks().to_batches()
    numbers = np.concatenate([one.place.numbers(one.rows.num_rows) for one in blocks])
    return Block(rows, replace(blocks[0].place, order=numbers), blocks[-1].position)
