"""As `tests.support.crashing`, on a live source: after a crash it is opened again at the position of the checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from random import Random

import pyarrow as pa

from decopa.planning.plan import Plan
from decopa.query.binding import bind
from shuffler.exchange.codecs import needed_attributes
from shuffler.exchange.node import ReplayStart
from shuffler.source.block import Block
from shuffler.source.lateness import Lateness
from shuffler.source.trace import TraceSource
from tests.support.crashing import BLOCK_ROWS, CrashingCluster
from tests.support.scripted_source import ScriptedSource, dealt_out, scripted_trace


class CrashingStream(CrashingCluster):
    """`opened` opens the source that has the events, again after every crash; `crashed` is called in between."""

    #: Polls bring few rows, so there are more of them between two crashes.
    odds = (0.004, 0.05, 0.12)

    def __init__(
        self,
        plan: Plan,
        events: pa.Table,
        opened: Callable[[], TraceSource],
        *,
        shufflers: int,
        chaos: Random,
        crashes: int,
        crashed: Callable[[], None] = lambda: None,
    ) -> None:
        self._opened, self._crashed = opened, crashed
        #: The positions of complete and pending checkpoints, by number; None is the beginning.
        self._positions: dict[int, bytes | None] = {}
        self._arriving: Generator[Block | None, None, None] | None = None
        super().__init__(plan, events, shufflers=shufflers, chaos=chaos, crashes=crashes)

    def _start(self) -> None:
        if self._arriving is not None:
            self._arriving.close()
            self._crashed()
        super()._start()
        saved = None if self._complete is None else self._positions[self._complete.number]
        source = self._opened()
        bounds = [bind(part.query, source.schema) for part in self.topology.plan.parts]
        attributes = needed_attributes(bounds, source.schema)
        self._arriving = _generator(source.arrivals(attributes, BLOCK_ROWS, saved))
        self._position, self._over, self._fed, self._begun = saved, False, 0, 0

    def _feed(self) -> None:
        assert self._arriving is not None
        if self._over:
            super()._feed()
            return
        block = next(self._arriving, self)
        if block is self:
            self._over = True
            self._block = len(self._blocks)  # what the end of the trace is to the other simulation
        elif block is None:
            for shuffler in self.shufflers:
                shuffler.flush()
        else:
            assert isinstance(block, Block) and block.position is not None
            shuffler = self.shufflers[self._fed % len(self.shufflers)]
            shuffler.feed(block.rows, block.place, self._events, ReplayStart(0.0, 0))
            self._fed += 1
            self._events += block.rows.num_rows
            self._position = block.position.encode()

    def _begin_checkpoint(self) -> None:
        # Blocks have no fixed places in the stream, so checkpoints are numbered here.
        self._begun += 1
        self._positions[self._attempt * 1_000 + self._begun] = self._position
        at, self._block = self._block, self._begun
        super()._begin_checkpoint()
        self._block = at


def _generator(blocks: Iterator[Block | None]) -> Generator[Block | None, None, None]:
    yield from blocks


def scripted(events: pa.Table, chaos: Random, *, partitions: int, disorder_us: int = 0) -> Callable[[], TraceSource]:
    """Opens a source in memory: each partition out of order by at most `disorder_us`, and read in any order."""
    arrival = [ts + chaos.randint(0, disorder_us) for ts in events["ts"].to_pylist()]
    order = sorted(range(events.num_rows), key=arrival.__getitem__)
    tables = dealt_out(events.take(pa.array(order, pa.int64())), partitions, chaos)
    return lambda: scripted_trace(ScriptedSource(tables, chaos), Lateness(disorder_us))
