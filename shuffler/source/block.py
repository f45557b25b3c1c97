"""Block: rows on their way from a source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

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
