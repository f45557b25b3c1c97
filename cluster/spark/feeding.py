"""A trace that Spark has prepared, as the Ray runtime takes it: blocks go to the shufflers without passing here."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from cluster.feeding import FeedBlock
from cluster.spark.blocks import Block
from shuffler.rows.columns import Place
from shuffler.rows.events import EventFormat


class SparkBlocks:
    """A `BlockSource` over blocks in time order."""

    def __init__(self, blocks: Sequence[Block], form: EventFormat, name: str) -> None:
        self._blocks, self._form, self._name = tuple(blocks), form, name

    @property
    def format(self) -> EventFormat:
        return self._form

    @property
    def replayable(self) -> bool:
        return True

    def stored_blocks(
        self, attributes: Collection[str], skip: int = 0, *, whole_groups: bool, timed: bool = False
    ) -> None:
        """Blocks lie in Ray's object store already."""

    def feed_blocks(
        self, attributes: Collection[str], skip: int = 0, saved: bytes | None = None
    ) -> Iterator[FeedBlock]:
        """Blocks go out whole, so `skip` must be the end of one: only that is where a stream of them is cut. They hold
        the attributes that `load_trace` was asked for, which are those of the queries."""
        first_row = 0
        for block in self._blocks:
            if first_row >= skip:
                place = Place(self._name, first_row)
                yield FeedBlock(block.table, block.rows, place, block.first_ts_us, block.last_ts_us)
            first_row += block.rows
