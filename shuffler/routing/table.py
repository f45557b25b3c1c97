"""plan -> who sends what to whom, with which partitioner."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from decopa.errors import CheckpointError
from decopa.planning.plan import PlanOperator, QueryPlan
from decopa.planning.roles import Rule
from decopa.planning.subquery import SubQuery
from decopa.query.query import Query
from shuffler.routing.partitioner import Broadcast, HashByEventIds, Partitioner, RoundRobin, Stay
from shuffler.rows.batch import Batch, key_of

#: A watermark above every timestamp: the end of the stream.
END_OF_STREAM = 2**63 - 1
#: Below every timestamp: nothing is known yet.
NOTHING_YET = -(2**63)


@dataclass(frozen=True, slots=True)
class Edge:
    """Matches of `source` go to side `side` of `target`; `hashed` names the columns that decide to which unit, for a
    unary Kleene split and for inputs with a key. With `stays`, unit n gets those of unit n."""

    source: PlanOperator
    target: PlanOperator
    side: int
    units: int
    partitioned: bool
    hashed: tuple[str, ...] | None
    stays: bool = False

    def receivers(self, sender: int) -> Sequence[int]:
        """The units that sender number `sender` sends to."""
        return (sender,) if self.stays else range(self.units)

    def partitioner(self, sender: int = 0) -> Partitioner:
        """A fresh partitioner; every sender has its own, so that each deals out its matches in turn."""
        if self.stays:
            return Stay(sender)
        if not self.partitioned:
            return Broadcast(self.units)
        return RoundRobin(self.units) if self.hashed is None else HashByEventIds(self.units, self.hashed)


@dataclass(frozen=True, slots=True)
class Delivery:
    """Rows, or a watermark, on their way along an edge to one unit; without an edge they go to the sink."""

    sender: str
    edge: Edge | None
    unit: int
    content: Batch | int


@dataclass(frozen=True, slots=True)
class SenderState:
    """The last watermark sent, and whose turn it is on each edge."""

    watermark_us: int
    turns: tuple[int, ...]


class Sender:
    """Where the matches of one process and operator go; every sender deals out its own in turn. `number` is its
    place among the senders of the operator.

    A watermark promises that all rows sent later have max_ts >= it.
    """

    def __init__(self, name: str, edges: tuple[Edge, ...], number: int = 0) -> None:
        self.name, self._number = name, number
        self._routes = [(edge, edge.partitioner(number)) for edge in edges]
        self.watermark_us = NOTHING_YET

    def rows(self, batch: Batch) -> Iterator[Delivery]:
        if not self._routes:
            yield Delivery(self.name, None, 0, batch)
        for edge, partitioner in self._routes:
            for unit, part in partitioner.split(batch):
                yield Delivery(self.name, edge, unit, part)

    def watermark(self, watermark_us: int) -> Iterator[Delivery]:
        """To everyone, if it is later than the last one."""
        if watermark_us <= self.watermark_us:
            return
        self.watermark_us = watermark_us
        if not self._routes:
            yield Delivery(self.name, None, 0, watermark_us)
        for edge, _ in self._routes:
            for unit in edge.receivers(self._number):
                yield Delivery(self.name, edge, unit, watermark_us)

    def snapshot(self) -> SenderState:
        return SenderState(self.watermark_us, tuple(partitioner.turn for _, partitioner in self._routes))

    def restore(self, state: SenderState) -> None:
        """Goes on from a snapshot of a sender with the same edges."""
        units = [edge.units for edge, _ in self._routes]
        if len(units) != len(state.turns) or not all(0 <= turn < n for turn, n in zip(state.turns, units)):
            raise CheckpointError(f"the state of sender {self.name} was saved with other receivers; rescale it first")
        self.watermark_us = state.watermark_us
        for (_, partitioner), turn in zip(self._routes, state.turns):
            partitioner.turn = turn


@dataclass(frozen=True)
class RoutingTable:
    """`shufflers` share the events among them, batch by batch, so every leaf has that many senders. `viewed` is how
    many units send the matches that each view takes."""

    plan: QueryPlan
    shufflers: int = 1
    viewed: Mapping[str, int] = field(default_factory=dict)

    def edges_from(self, operator: PlanOperator) -> tuple[Edge, ...]:
        return tuple(
            Edge(
                operator,
                target,
                target.inputs.index(operator.name),
                self.plan.roles(target).active_units,
                operator.partitioned,
                self._hashed(operator, target),
                self.plan.stays(operator),
            )
            for target in self.plan.successors(operator)
        )

    def senders(self, operator: PlanOperator) -> tuple[str, ...]:
        """Names of those who send an operator's matches: its active units, the shufflers for a leaf, the units of
        another part for a view."""
        if operator.view is not None:
            return tuple(f"{operator.name}/{unit}" for unit in range(self.viewed[operator.name]))
        if not operator.inputs:
            return tuple(f"{operator.name}/shuffler{number}" for number in range(self.shufflers))
        return tuple(f"{operator.name}/{unit}" for unit in range(self.plan.roles(operator).active_units))

    def senders_to(self, operator: PlanOperator, unit: int) -> tuple[str, ...]:
        """The senders of an operator's matches that unit `unit` of a successor hears of."""
        senders = self.senders(operator)
        return senders[unit : unit + 1] if self.plan.stays(operator) else senders

    def _hashed(self, source: PlanOperator, target: PlanOperator) -> tuple[str, ...] | None:
        roles = self.plan.roles(target)
        if roles.hashed is not None:
            return (roles.hashed[target.inputs.index(source.name)],)
        if roles.rule is not Rule.KLEENE_UNARY:
            return None
        return identity_columns(self.plan.query, source.sub_query, roles.formed)


def identity_columns(query: Query, sub_query: SubQuery, formed: frozenset[str]) -> tuple[str, ...]:
    """The columns in which strip matches of one family agree: the ids of everything but the Kleene positions whose
    groups are formed."""
    rest = sorted(sub_query.positive(query) - formed)
    return tuple(key_of(alias) if alias in sub_query.closed else f"{alias}.id" for alias in rest)
