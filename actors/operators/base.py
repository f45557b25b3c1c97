"""What every matching rule offers to its processing unit. No Ray, no clock, no network."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from actors.columnar.memory import StateMemory
from actors.columnar.output import Counters
from decopa.planning.plan import PlanOperator, QueryPlan
from decopa.planning.roles import Roles
from decopa.query.binding import BoundQuery
from shuffler.rows.batch import Batch


@dataclass(frozen=True)
class OperatorSpec:
    """All that is needed to build the logic of one unit of an operator."""

    bound: BoundQuery
    plan: QueryPlan
    operator: PlanOperator
    #: The code of a string constant in the columns that this unit sees.
    code_of: Callable[[str], int]
    memory: StateMemory = field(default_factory=StateMemory)
    #: Matches are not asked for, only their number: batches that are yielded have a length and no columns.
    counting: bool = False
    #: Loops find pairs of rows only and are written by the form of their conditions, so that many queries share them;
    #: the columns of matches are gathered afterwards.
    gathering: bool = False

    @property
    def roles(self) -> Roles:
        return self.plan.roles(self.operator)


@dataclass(frozen=True)
class LogicState:
    """What a logic holds between two messages; nobody writes to it.

    `rows` are the sets of rows that `actors.operators.row_sets` names for the operator, without those that nothing can
    meet any more; `watermarks` are those of the sides. Indexes and sorted order follow from them.
    """

    rows: Mapping[str, Batch]
    watermarks: tuple[int, ...]


class OperatorLogic(Protocol):
    """Matches one sub-query from its inputs; side 0 and 1 are the operator's inputs in plan order.

    A watermark on a side promises that every later row on it has max_ts >= watermark. Batches are yielded as they
    are found, and must be used before the next one is asked for.
    """

    counters: Counters
    #: The side whose rows end the matches they are part of, if there is one. Matches come in the order of their ends if
    #: its rows come in time order and after all those of the other side that they may meet; nothing else depends on it.
    late_side: int | None

    def on_batch(self, side: int, batch: Batch) -> Iterator[Batch]: ...

    def on_watermark(self, side: int, watermark_us: int) -> Iterator[Batch]: ...

    @property
    def output_watermark_us(self) -> int:
        """Every later match has max_ts >= this."""
        ...

    @property
    def state_bytes(self) -> int: ...

    @property
    def state_rows(self) -> int: ...

    def snapshot(self) -> LogicState:
        """What is held now: one copy of the live rows."""
        ...

    def restore(self, state: LogicState) -> None:
        """Goes on from a snapshot; for a logic that has not seen anything yet."""
        ...
