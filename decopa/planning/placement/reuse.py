"""Many NEXT queries on shared operators: equal sub-expressions run once, and trees are chosen by what they add.

The window is no part of an operator here: it never changes which event is the next, so a shared operator runs with the
largest one and each query filters by its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from costmodel.papers.next_cost import Delayed, Expression, Filtered, Stream, operators_of, profile
from decopa.planning.rewriter.next_chain import as_printed, cheapest
from decopa.planning.rewriter.trees import bracketings

#: Up to so many operands all trees of a chain are looked at.
_ENUMERATED = 8


@dataclass
class Deployed:
    """The operators that run: each expression once, with its own cost."""

    rates: Mapping[str, float]
    costs: dict[str, float] = field(default_factory=dict)
    _own: dict[str, float] = field(default_factory=dict, repr=False)

    @property
    def cost(self) -> float:
        return sum(self.costs.values())

    def added(self, tree: Expression) -> dict[str, float]:
        """The operators that a tree needs beside those that run. Looked for from the top down: below an expression
        that runs nothing is needed."""
        needed: dict[str, float] = {}

        def visit(node: Expression) -> None:
            if isinstance(node, Stream) or str(node) in self.costs or str(node) in needed:
                return
            needed[str(node)] = self._own_cost(node)
            for child in (node.inner,) if isinstance(node, Filtered | Delayed) else (node.left, node.right):
                visit(child)

        visit(tree)
        return needed

    def deploy(self, tree: Expression) -> None:
        self.costs |= self.added(tree)

    def _own_cost(self, node: Expression) -> float:
        key = str(node)
        if key not in self._own:
            self._own[key] = profile(node, self.rates).operator_cost
        return self._own[key]


def tree_of(operands: Sequence[Expression], deployed: Deployed, *, slack: float = 0.05) -> Expression:
    """The tree that adds least to what runs, among those whose own cost is within `slack` of the cheapest one's."""
    own_best = cheapest(operands, deployed.rates)
    if len(operands) > _ENUMERATED:
        return own_best.tree
    limit = own_best.profile.cost * (1 + slack) * (1 + 1e-12)
    within = [tree for tree in bracketings(operands) if profile(tree, deployed.rates).cost <= limit]
    return min(within, key=lambda tree: (sum(deployed.added(tree).values()), profile(tree, deployed.rates).cost))


def deploy_all(
    queries: Iterable[Sequence[Expression]], rates: Mapping[str, float], *, method: str, slack: float = 0.05
) -> tuple[Deployed, list[Expression]]:
    """Deploys chains one after the other: `issued` trees from left to right, `printed` after the paper's program,
    `optimal` after the exact one, `shared` by what they add."""
    deployed = Deployed(rates)
    trees: list[Expression] = []
    for operands in queries:
        match method:
            case "printed":
                tree = as_printed(operands, rates).tree
            case "optimal":
                tree = cheapest(operands, rates).tree
            case "shared":
                tree = tree_of(operands, deployed, slack=slack)
            case _:
                raise ValueError(f"unknown method {method}")
        deployed.deploy(tree)
        trees.append(tree)
    return deployed, trees


def operator_count(trees: Iterable[Expression]) -> int:
    return sum(1 for tree in trees for _ in operators_of(tree))
