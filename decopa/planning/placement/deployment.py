"""What a placement costs: rows that cross between nodes, and processor time where operators run together (4.4)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from decopa.errors import PlanError

#: Operator -> node.
Placement = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator to be placed: what it takes in, the rows per second that it puts out, and its processor cost."""

    name: str
    inputs: tuple[str, ...]
    rate: float
    cpu: float


@dataclass(frozen=True)
class Deployment:
    """Operators of one query, inputs before what takes them; sources have their rate and a fixed node.

    `running` says for each node what runs there already, with its cost. An operator of the query that is among them is
    reused: it costs no processor time, though its inputs still travel.
    """

    operators: tuple[Operator, ...]
    source_rates: Mapping[str, float]
    source_nodes: Placement
    nodes: tuple[str, ...]
    running: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        known = set(self.source_rates)
        for operator in self.operators:
            for name in operator.inputs:
                if name not in known:
                    raise PlanError(f"operator {operator.name} takes '{name}', which is no source and comes no earlier")
            known.add(operator.name)
        for name in self.source_rates:
            if name not in self.source_nodes:
                raise PlanError(f"the source '{name}' has no node; say where its events arise")

    @cached_property
    def rates(self) -> dict[str, float]:
        return {**self.source_rates, **{one.name: one.rate for one in self.operators}}

    def term(self, operator: Operator, node: str, placed: Placement) -> float:
        """What an operator costs on a node, given where its inputs and other operators are: their rows that must
        travel, its own time unless it runs there already, and the time of everything else there."""
        running = self.running.get(node, {})
        travelling = sum(self.rates[name] for name in operator.inputs if self._node_of(name, placed) != node)
        own = 0.0 if operator.name in running else operator.cpu
        beside = sum(cost for name, cost in running.items() if name != operator.name)
        beside += sum(
            other.cpu
            for other in self.operators
            if other.name != operator.name and placed.get(other.name) == node and other.name not in running
        )
        return travelling + own + beside

    def cost(self, placed: Placement) -> float:
        """The sum of the terms of all operators."""
        return sum(self.term(operator, placed[operator.name], placed) for operator in self.operators)

    def printed_cost(self, placed: Placement) -> float:
        """As `cost`, with the indicator as printed: rows between operators on the *same* node are charged."""
        total = self.cost(placed)
        for operator in self.operators:
            for name in operator.inputs:
                together = self._node_of(name, placed) == placed[operator.name]
                total += self.rates[name] if together else -self.rates[name]
        return total

    def _node_of(self, name: str, placed: Placement) -> str | None:
        return self.source_nodes.get(name) or placed.get(name)

    @cached_property
    def useful_nodes(self) -> tuple[str, ...]:
        """The nodes that a best placement can do with: where sources are or operators can be reused, and of the others
        the least busy ones, one for each operator. Any other node can be replaced by one of these at no more cost."""
        names = {one.name for one in self.operators}
        special = [
            node for node in self.nodes if node in self.source_nodes.values() or names & set(self.running.get(node, {}))
        ]
        others = sorted(
            (node for node in self.nodes if node not in special),
            key=lambda node: sum(self.running.get(node, {}).values()),
        )
        chosen = {*special, *others[: len(self.operators)]}
        return tuple(node for node in self.nodes if node in chosen)

    def neighbours(self, placed: Placement, moves: int) -> Iterator[dict[str, str]]:
        """Every placement that differs in one operator or, with `moves` 2, in two."""
        names = [one.name for one in self.operators]
        for place, name in enumerate(names):
            for node in self.useful_nodes:
                changed = {**placed, name: node}
                if node != placed[name]:
                    yield changed
                if moves > 1 and node != placed[name]:
                    for other in names[place + 1 :]:
                        for second in self.useful_nodes:
                            if second != placed[other]:
                                yield {**changed, other: second}
