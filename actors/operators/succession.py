"""NEXT: each match of the first input with its successor among the matches of the second.

State is what is undecided: matches of the first input whose successor has not come yet, and rows of either input that
lie beyond what both have reached. Neither grows with the window.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Protocol

import numpy as np

from actors.columnar import jit
from actors.columnar.output import BLOCK, CHUNK, Counters, OutputBlocks
from actors.columnar.pair_writer import PairWriter, Side
from actors.operators.arrivals import Arrivals, by_end, in_time_order, sliced
from actors.operators.base import LogicState, OperatorSpec
from actors.operators.join import write_outputs
from actors.operators.pairing import Pairing, equality_columns
from actors.operators.row_sets import CANDIDATES, WAITING
from actors.operators.succession_chain import ChainGatherer, ChainStep
from actors.operators.succession_source import HELPERS, needs_lists, succession_source
from decopa.query.binding import BoundQuery, Condition
from shuffler.routing.table import END_OF_STREAM, NOTHING_YET
from shuffler.rows.batch import Array, Batch, Indices, joined
from shuffler.rows.hashing import hash_columns
from shuffler.rows.layout import Layout

#: Matches that are only counted take no room.
_ANY_NUMBER = 2**62


class Scan(Protocol):
    """What is held for a step by who reads events for it."""

    @property
    def rows(self) -> int: ...

    @property
    def nbytes(self) -> int: ...


class SuccessionLogic:
    """Goes through both inputs in order of time, as far as both are complete.

    A first match waits from its last event on. The first row of the second input that begins later and passes FILTER
    is its successor, with all rows of the same time; deciding conditions then say whether the two are a match. Rows
    of the second input are of no more use once they have been gone through.

    A step that has taken over those before it (`take_over`) goes through the inputs of all of them at once. They then
    hold their inputs until it asks for them.
    """

    def __init__(self, spec: OperatorSpec) -> None:
        self.counters = Counters()
        self.late_side: int | None = None
        bound, query = spec.bound, spec.bound.query
        self.window_us = query.window_us
        roles = spec.plan.roles(spec.operator)
        assert roles.succession is not None
        self._left_side = roles.main
        inputs = [Side.of(bound, source.sub_query) for source in spec.plan.inputs(spec.operator)]
        left, right = inputs[roles.main], inputs[roles.other]
        self._left, self._right = Arrivals(left.layout), Arrivals(right.layout)
        output = Side.of(bound, spec.operator.sub_query).layout
        self._groups = output.groups
        self._kernel = _SuccessionKernel(spec, left, right, roles.succession.chosen, output)
        self._waiting = left.layout.empty()
        self._watermarks = [NOTHING_YET, NOTHING_YET]
        self._done_us = NOTHING_YET
        self._query = query
        #: The inputs and the matches.
        self.shape = ChainStep(left, right, output)
        #: The steps that are gone through at once, this one last, and the step that does so.
        self._steps: list[SuccessionLogic] = [self]
        self._leader = self
        self._gatherer: ChainGatherer | None = None
        #: What finds the matches of all steps in events that are not split, if that can be done here.
        self.scan: Scan | None = None

    @property
    def steps(self) -> Sequence[SuccessionLogic]:
        """The steps that are gone through at once, this one last."""
        return self._steps

    @property
    def by_time_alone(self) -> bool:
        """Whether times alone say what follows."""
        return self._kernel.by_time_alone and not self._groups

    @property
    def origins(self) -> Mapping[str, tuple[int, str]] | None:
        """Where the columns of a match come from, if several steps are gone through at once."""
        return None if self._gatherer is None else self._gatherer.origins

    @property
    def blocks(self) -> OutputBlocks | None:
        """Where matches are written; None if they are only counted."""
        return self._kernel.blocks

    def can_take_over(self, before: SuccessionLogic) -> bool:
        """Whether times alone say what follows, here and in the step before."""
        return self.by_time_alone and before.by_time_alone

    def take_over(self, before: SuccessionLogic) -> None:
        """Goes through the inputs of a step, whose matches come to this one only, together with its own."""
        self._steps = [*before._steps, self]
        for step in before._steps:
            step._leader = self
        self._gatherer = ChainGatherer(self._query, [step.shape for step in self._steps], self._kernel.blocks)

    def on_batch(self, side: int, batch: Batch) -> Iterator[Batch]:
        (self._left if side == self._left_side else self._right).add(batch)
        yield from ()

    def on_watermark(self, side: int, watermark_us: int) -> Iterator[Batch]:
        self._watermarks[side] = watermark_us
        if min(self._watermarks) > self._done_us:
            self._done_us = min(self._watermarks)
            if self._leader is not self:
                return
            if self._gatherer is not None:
                yield from self._advance_chain(self._gatherer, self._done_us)
            else:
                yield from self._advance(self._done_us)

    @property
    def output_watermark_us(self) -> int:
        return self._done_us

    @property
    def state_bytes(self) -> int:
        scanned = 0 if self.scan is None else self.scan.nbytes
        return self._waiting.nbytes + self._left.nbytes + self._right.nbytes + scanned

    @property
    def state_rows(self) -> int:
        scanned = 0 if self.scan is None else self.scan.rows
        return self._waiting.length + self._left.rows + self._right.rows + scanned

    @property
    def held_since_us(self) -> int:
        """When the earliest of the rows that are held began."""
        held = [self._waiting, *self._left.batches, *self._right.batches]
        return min((int(rows.columns["min_ts"].min()) for rows in held if rows.length), default=END_OF_STREAM)

    def forget(self) -> int:
        """Drops what is held, and returns how many matches of the first input there were."""
        count = self._waiting.length + self._left.rows
        self._waiting = self._left.empty
        self._left.clear()
        self._right.clear()
        return count

    def snapshot(self) -> LogicState:
        self._leader._catch_up()
        left = joined([self._waiting, *self._left.batches])
        return LogicState({WAITING: left, CANDIDATES: joined([self._right.empty, *self._right.batches])},
                          tuple(self._watermarks))  # fmt: skip

    def restore(self, state: LogicState) -> None:
        self._watermarks = list(state.watermarks)
        self._done_us = min(self._watermarks)
        # A row that waited is gone through again; what it has seen did not fit, so it waits on.
        self._left.add(state.rows[WAITING])
        self._right.add(state.rows[CANDIDATES])

    def _advance(self, complete_us: int) -> Iterator[Batch]:
        """Decides what rows that end before `complete_us` decide."""
        left = self._take_left(complete_us)
        return self._decide(left, self._right.take_before(complete_us), complete_us)

    def _advance_chain(self, gatherer: ChainGatherer, complete_us: int) -> Iterator[Batch]:
        """As `_advance`, for all steps: first rows that have all successors become matches at once, others step by
        step. So do all where several events of a step have the same time."""
        first = self._steps[0]
        left = first._take_left(complete_us)
        events = [step._right.take_before(complete_us) for step in self._steps]
        at_once = 0
        if all(_rising(batch.columns["min_ts"]) for batch in events):
            links = gatherer.complete(left, events)
            at_once = len(links[-1])
        rest = left if not at_once else sliced(left, at_once, left.length)
        for step, candidates, following in zip(self._steps, events, [*self._steps[1:], None], strict=True):
            some = rest if step is first else step._take_left(complete_us)
            for batch in step._decide(some, candidates, complete_us):
                if following is None:
                    yield batch
                else:
                    _hand_over(step, following, batch)
        if at_once:
            rows = 0
            for count, columns in gatherer.matches(left, events, links):
                rows += count
                yield Batch(count, columns, {})
            self.counters.comparisons += rows
            for (step, following), batch, link in zip(pairwise(self._steps), events, links):
                pairs = at_once if rows == at_once else gatherer.within(left, batch, link)
                step.counters.comparisons += pairs
                step.counters.emitted += pairs
                following.counters.ingested += pairs

    def _catch_up(self) -> None:
        """Steps that were taken over decide what they can: whoever goes on from a snapshot may be on its own."""
        for step, following in pairwise(self._steps):
            for batch in step._advance(step._done_us):
                _hand_over(step, following, batch)

    def _take_left(self, complete_us: int) -> Batch:
        arrived = self._left.take_before(complete_us)
        return by_end(arrived if not self._waiting.length else joined([self._waiting, arrived]), self._left.end)

    def _decide(self, left: Batch, candidates: Batch, complete_us: int) -> Iterator[Batch]:
        """The matches of left rows with their successors; left rows that have none yet wait on."""
        open_rows = np.ones(left.length, dtype=np.bool_)
        if left.length and candidates.length:
            candidates = in_time_order(candidates, self._right.end, self._kernel.chosen_end)
            heaps = {alias: left.heaps[alias] for alias in self._groups}
            for rows, columns in self._kernel.matches(left, candidates, open_rows, self.counters):
                yield Batch(rows, columns, heaps if columns else {})
        if complete_us == END_OF_STREAM:
            open_rows[:] = False
        else:
            open_rows &= left.columns["min_ts"] >= complete_us - self.window_us
        self._waiting = left if bool(open_rows.all()) else joined([left.take(np.flatnonzero(open_rows))])


def _hand_over(step: SuccessionLogic, following: SuccessionLogic, batch: Batch) -> None:
    """Matches of a step that was taken over go to the next one without a message."""
    step.counters.emitted += batch.length
    following.counters.ingested += batch.length
    following._left.add(batch)


def _rising(times: Array) -> bool:
    """Whether there are times, all in order and all different."""
    return bool(len(times)) and bool((times[1:] > times[:-1]).all())


class _SuccessionKernel:
    """The compiled loop and the columns that it reads and writes."""

    def __init__(self, spec: OperatorSpec, left: Side, right: Side, chosen: str, output: Layout) -> None:
        bound = spec.bound
        self.window_us, self._ends = bound.query.window_us, (left.layout.place("max_ts"), right.layout.place("max_ts"))
        self.chosen_end = right.layout.place(f"{chosen}.last")
        writer = PairWriter(bound, right, left)
        self._equal: list[tuple[str, str]] = []
        pairing = Pairing(bound, left, right)
        skipping, deciding = decided_by(bound, pairing, chosen)
        for condition in skipping:
            self._equal += equality_columns(bound, pairing, condition.predicate)
            writer.add(condition.predicate)
        skips = writer.take_checks()
        for condition in deciding:
            writer.add(condition.predicate)
        decides = writer.take_checks()
        if not spec.counting:
            write_outputs(writer, output)
        self.writer = writer
        moments = right.layout.place("max_ts") == "min_ts"
        self._lists = needs_lists(skips, moments=moments)
        #: Whether no condition chooses among events, or decides about a match.
        self.by_time_alone = not self._lists and not decides.plain and not decides.groups
        self._source = succession_source(writer, skips, decides, moments=moments)
        self._constants = writer.constants.arrays(spec.code_of)
        rows = BLOCK if spec.operator == spec.plan.root else CHUNK
        self.blocks = None if spec.counting else OutputBlocks(output.columns, rows)
        self._room = _ANY_NUMBER if spec.counting else CHUNK

    def matches(
        self, left: Batch, right: Batch, open_rows: Array, counters: Counters
    ) -> Iterator[tuple[int, dict[str, Array]]]:
        """(rows, columns) of the matches, in chunks, without columns if they are only counted.

        Clears `open_rows` where a left row has found its successor.
        """
        hashes = [self._hashes(left, 0), self._hashes(right, 1)]
        size = 1 if not self._equal else 1 << (2 * left.length - 1).bit_length()
        head, link = np.full(size, -1, dtype=np.int64), np.empty(left.length, dtype=np.int64)
        found_at = np.full((2, left.length if self._lists else 0), NOTHING_YET, dtype=np.int64)
        places = np.zeros(4, dtype=np.int64)  # next left row, next right row, and what the loop keeps between calls
        inputs = [left.columns["min_ts"], left.columns[self._ends[0]], hashes[0]]
        inputs += [right.columns["min_ts"], right.columns[self.chosen_end], right.columns[self._ends[1]], hashes[1]]
        inputs += [head, link, found_at[0], found_at[1], open_rows, *self._columns(left, right), *self._constants]
        call = jit.load(self._source, helpers=HELPERS).succeed
        while places[1] < right.length:
            columns = {} if self.blocks is None else self.blocks.room(self._room)
            written = [read.of(columns) for read, _ in self.writer.outputs]
            found, compared = call(places, self._room, self.window_us, *inputs, *written)
            found = int(found)
            counters.comparisons += int(compared)
            if found:
                if self.blocks is not None:
                    self.blocks.take(found)
                yield found, {name: column[:found] for name, column in columns.items()}
            elif places[1] < right.length:  # one right row, or those of one time, may have more matches than fit
                self._room *= 2

    def _hashes(self, batch: Batch, side: int) -> Indices:
        if not self._equal:
            return np.empty(0, dtype=np.int64)
        return hash_columns([batch.columns[pair[side]] for pair in self._equal], batch.length)

    def _columns(self, left: Batch, right: Batch) -> Sequence[Array]:
        writer = self.writer
        found = [read.of(right.columns) for read in writer.probe_columns]
        found += [read.of(left.columns) for read in writer.store_columns]
        found += [right.heaps[alias][name] for alias, name in writer.probe_heaps]
        return found + [left.heaps[alias][name] for alias, name in writer.store_heaps]


def decided_by(bound: BoundQuery, pairing: Pairing, chosen: str) -> tuple[list[Condition], list[Condition]]:
    """The FILTER conditions on the chosen event, and the conditions that the two inputs together decide."""
    both = pairing.left_aliases | pairing.right_aliases
    inputs = (pairing.left.sub_query.aliases, pairing.right.sub_query.aliases)
    stated = [one for one in bound.conditions if not one.through and one.aliases <= both]
    skipping = [one for one in stated if one.skips == chosen]
    deciding = [one for one in stated if one.skips is None and not any(one.decided_in(aliases) for aliases in inputs)]
    return skipping, deciding
