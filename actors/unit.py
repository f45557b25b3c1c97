"""ProcessingUnit: one instance of an operator; the same class runs in every runtime."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, replace

from actors.columnar.memory import Spill, StateMemory
from actors.columnar.output import Counters
from actors.operators.base import LogicState, OperatorLogic, OperatorSpec
from actors.operators.having import having_of
from actors.operators.join import JoinLogic
from actors.operators.kleene import KleeneBinaryLogic, KleeneUnaryLogic
from actors.operators.negation import NegationLogic
from actors.operators.succession import SuccessionLogic
from decopa.choices import DEFAULT_MAX_GROUPS
from decopa.errors import CheckpointError, LimitError
from decopa.planning.roles import Rule
from shuffler.routing.table import NOTHING_YET
from shuffler.rows.batch import Batch

_LOGIC: dict[Rule, type[OperatorLogic]] = {
    Rule.JOIN: JoinLogic,
    Rule.KLEENE_UNARY: KleeneUnaryLogic,
    Rule.KLEENE_BINARY: KleeneBinaryLogic,
    Rule.NEGATION: NegationLogic,
    Rule.NEXT: SuccessionLogic,
}


@dataclass(frozen=True, slots=True)
class Channel:
    """An input of a unit: the side it feeds and who sends on it."""

    side: int
    sender: str


@dataclass(frozen=True)
class UnitState:
    """What a unit holds between two messages; nobody writes to it."""

    logic: LogicState
    watermarks: Mapping[Channel, int]
    counters: Counters


class ProcessingUnit:
    """Feeds batches and watermarks of its channels to the operator's logic and counts what happens.

    A side's watermark is the least over its senders, so results do not depend on how senders interleave.
    """

    def __init__(
        self,
        spec: OperatorSpec,
        number: int,
        channels: Sequence[Channel],
        *,
        max_state_bytes: int,
        max_groups: int = DEFAULT_MAX_GROUPS,
        spill: Spill | None = None,
    ) -> None:
        self.name = f"{spec.operator.name}/{number}"
        self._spec = spec
        self._max_state_bytes, self._spills = max_state_bytes, spill is not None
        forms_groups = spec.plan.rule(spec.operator) in (Rule.KLEENE_UNARY, Rule.KLEENE_BINARY)
        # Groups that are only counted are not under way: nothing is made of them.
        self._max_groups = max_groups if forms_groups and not spec.counting else None
        self.memory = StateMemory(max_state_bytes, spill)
        spec = replace(spec, memory=self.memory)
        self.logic = _LOGIC[spec.roles.rule](spec)  # type: ignore[call-arg]
        self._having = having_of(spec)
        self._watermarks = dict.fromkeys(channels, NOTHING_YET)
        self._sides = dict.fromkeys({channel.side for channel in channels}, NOTHING_YET)

    @property
    def _title(self) -> str:
        """The operator in messages; writing it out takes longer than most things that are done for a unit."""
        return self._spec.plan.text(self._spec.operator)

    @property
    def counters(self) -> Counters:
        return self.logic.counters

    @property
    def decides_afterwards(self) -> bool:
        """Whether not all that its matching rule finds are matches."""
        return self._having is not None

    @property
    def output_watermark_us(self) -> int:
        return self.logic.output_watermark_us

    @property
    def newest_input_us(self) -> int:
        """How far the sender that is ahead of the others has come."""
        return max(self._watermarks.values())

    def on_batch(self, channel: Channel, batch: Batch) -> Iterator[Batch]:
        """Matches that arise from a batch, chunk by chunk."""
        self.counters.ingested += batch.length
        yield from self._counted(self.logic.on_batch(channel.side, batch))
        self._check_state()

    def on_watermark(self, channel: Channel, watermark_us: int) -> Iterator[Batch]:
        """Matches that become certain because a sender has passed a point in time."""
        self._watermarks[channel] = max(watermark_us, self._watermarks[channel])
        side = min(mark for other, mark in self._watermarks.items() if other.side == channel.side)
        if side > self._sides[channel.side]:
            self._sides[channel.side] = side
            yield from self._counted(self.logic.on_watermark(channel.side, side))

    def _counted(self, matches: Iterator[Batch]) -> Iterator[Batch]:
        under_way = 0
        try:
            for found in matches:
                match = found if self._having is None else self._having.passing(found)
                self.counters.emitted += match.length
                under_way += match.length
                if self._max_groups is not None and under_way > self._max_groups:
                    raise LimitError(
                        f"more than {self._max_groups:,} groups out of one batch are under way; use a shorter window, "
                        "a condition on the members or a plan that closes the KL later, or raise the limit "
                        "(--max-groups, Limits.max_groups)"
                    )
                yield match
        except LimitError as err:  # of the memory, which does not know whose it is
            raise LimitError(f"unit {self.name} of operator {self._title}: {err}") from None

    def snapshot(self) -> UnitState:
        return UnitState(self.logic.snapshot(), dict(self._watermarks), replace(self.counters))

    def restore(self, state: UnitState) -> None:
        """Goes on from a snapshot of a unit with the same inputs; for a unit that has not seen anything yet."""
        if state.watermarks.keys() != self._watermarks.keys():
            raise CheckpointError(
                f"the state of unit {self.name} was saved with other senders than the plan has now; rescale it first"
            )
        self.logic.restore(state.logic)
        self._watermarks.update(state.watermarks)
        for side in self._sides:
            self._sides[side] = min(mark for channel, mark in self._watermarks.items() if channel.side == side)
        # In place: the matching rule and its parts count in the same object.
        counters = self.counters
        counters.ingested, counters.comparisons, counters.emitted = astuple(state.counters)

    def _check_state(self) -> None:
        held = self.logic.state_bytes
        if held > self._max_state_bytes and not self._spills:  # else the rest is on disk, which has its own limit
            raise LimitError(
                f"unit {self.name} of operator {self._title} holds {held / 2**20:,.0f} MiB of partial matches "
                f"({self.logic.state_rows:,} rows), more than the limit of {self._max_state_bytes / 2**20:,.0f} MiB; "
                "use more units, a shorter window or a more selective condition, or raise the limit "
                "(--max-state-mb, Limits.max_state_bytes)"
            )
