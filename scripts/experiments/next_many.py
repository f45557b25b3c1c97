"""Many NEXT queries at once (section 6 of the NEXT CEP paper): measured on one core, computed for many nodes.

Random queries of five operators over 8 Poisson sources of 1, 2, 4, ... 128 events per second. Measured: processor time
of all of them over one stream, with brackets as issued, from left to right and rewritten, beside a loop that looks at
every waiting instance. Computed: how many queries nodes of one capacity carry before the first of them is overloaded,
by the engine's work. Operators and the rows that a node gets from others count; nothing runs.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count

import numpy as np
import pyarrow as pa
from numba import njit

import decopa
from actors.sinks.outlet import OutletSpec
from cluster.local import LocalRuntime
from costmodel.papers.next_cost import After, Expression, Stream, operators_of, profile
from decopa.choices import Order
from decopa.planning.placement.deployment import Deployment, Operator
from decopa.planning.placement.search import by_moves, greedy
from decopa.planning.plan import Plan, PlanOperator, QueryPlan
from decopa.planning.rewriter.trees import bracketings
from decopa.planning.subquery import SubQuery
from decopa.report.rewriting import work
from scripts.benchmarks.single_core.engine import pin_to_one_core
from scripts.benchmarks.single_core.ours import UNLIMITED
from scripts.experiments.next_curves import RATES, random_tree
from shuffler.source.trace import open_trace

OPERANDS = 6
WINDOW_US = 60_000_000
#: What a node does per second, in the unit of `work`: about six queries as issued.
NODE_CAPACITY = 3_000.0
NODES = (5, 10, 20, 40)
#: How far from its own best tree a query may go to share operators with others.
SLACK = 0.2


@dataclass(frozen=True)
class Drawn:
    """A query: its sources in order, and the brackets that it was issued with."""

    sources: tuple[str, ...]
    issued: Expression

    @property
    def operands(self) -> list[Expression]:
        return [Stream(name) for name in self.sources]


def draw(queries: int, seed: int) -> list[Drawn]:
    rng = random.Random(seed)
    found = []
    for _ in range(queries):
        sources = tuple(rng.choices(list(RATES), k=OPERANDS))
        found.append(Drawn(sources, random_tree(rng, [Stream(name) for name in sources], After)))
    return found


def least_work(query: Drawn) -> Expression:
    """The brackets with the least work of the engine; of equal ones those furthest to the left."""
    trees = list(bracketings(query.operands))
    return min(trees, key=lambda tree: (work(tree, RATES), -_left_depth(tree)))


def left_to_right(query: Drawn) -> Expression:
    tree, *others = query.operands
    for other in others:
        tree = After(tree, other)
    return tree


def _left_depth(tree: Expression) -> int:
    return 1 + _left_depth(tree.left) if isinstance(tree, After) else 0


# ------------------------------------------------------------------ measured on one core


def stream(events: int, seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    rates = np.array(list(RATES.values()))
    gaps = rng.exponential(1e6 / rates.sum(), events)
    codes = rng.choice(len(rates), events, p=rates / rates.sum()).astype(np.int32)
    ts = np.cumsum(np.maximum(gaps, 1.0)).astype(np.int64)
    types = pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(list(RATES)))
    return pa.table({"id": np.arange(events), "ts": ts, "type": types})


def plan_of(name: str, query: Drawn, tree: Expression) -> QueryPlan:
    """The tree as a plan on one unit."""
    aliases = [f"e{place}" for place in range(OPERANDS)]
    operators = [PlanOperator(alias, SubQuery(frozenset({alias}), frozenset()), (), 1, False) for alias in aliases]
    leaves, numbers = iter(aliases), count()

    def visit(node: Expression) -> tuple[str, frozenset[str]]:
        if not isinstance(node, After):
            alias = next(leaves)
            return alias, frozenset({alias})
        (left, before), (right, behind) = visit(node.left), visit(node.right)
        operator = PlanOperator(f"n{next(numbers)}", SubQuery(before | behind, frozenset()), (left, right), 1, False)
        operators.append(operator)
        return operator.name, before | behind

    visit(tree)
    pattern = ", ".join(f"{source} {alias}" for source, alias in zip(query.sources, aliases, strict=True))
    text = f"QUERY {name} PATTERN NEXT({pattern}) WITHIN {WINDOW_US} us"
    return QueryPlan(decopa.parse(text), tuple(operators))


def run(plan: Plan, events: pa.Table) -> tuple[float, int]:
    """Processor time and matches of all queries."""
    began = time.process_time()
    runtime = LocalRuntime(plan, open_trace(events), limits=UNLIMITED, outlet=OutletSpec(Order.ANY))
    runtime.run()
    return time.process_time() - began, runtime.matches


@njit(cache=True)
def _instances(types: np.ndarray, ts: np.ndarray, chain: np.ndarray, window: int) -> int:
    """Every event is shown to every instance that waits, as an automaton per instance would be."""
    first, state = np.empty(len(ts), np.int64), np.empty(len(ts), np.int64)
    waiting = found = 0
    for row in range(len(ts)):
        kept = 0
        for place in range(waiting):
            at = state[place]
            if ts[row] - first[place] > window:
                continue
            if types[row] == chain[at]:
                at += 1
                if at == len(chain):
                    found += 1
                    continue
            first[kept] = first[place]
            state[kept] = at
            kept += 1
        waiting = kept
        if types[row] == chain[0]:
            first[waiting] = ts[row]
            state[waiting] = 1
            waiting += 1
    return found


def instances(queries: Sequence[Drawn], events: pa.Table) -> tuple[float, int]:
    names = list(RATES)
    types = events.column("type").chunk(0).indices.to_numpy()
    ts = events.column("ts").chunk(0).to_numpy()
    began, found = time.process_time(), 0
    for query in queries:
        found += _instances(types, ts, np.array([names.index(source) for source in query.sources]), WINDOW_US)
    return time.process_time() - began, found


def measure(queries: Sequence[Drawn], events: pa.Table, repeat: int) -> list[str]:
    """The best of several turns of each way, in processor time."""
    ways: dict[str, Callable[[], tuple[float, int]]] = {}
    for title, tree_of in (("as issued", lambda one: one.issued), ("left to right", left_to_right),
                           ("rewritten", least_work)):  # fmt: skip
        parts = tuple(plan_of(f"q{number}", one, tree_of(one)) for number, one in enumerate(queries))
        ways[title] = lambda parts=parts: run(Plan(parts), events)  # type: ignore[misc]
    ways["every instance looked at"] = lambda: instances(queries, events)
    best: dict[str, tuple[float, int]] = {title: way() for title, way in ways.items()}  # compiles
    for turn in range(repeat):
        for title, way in ways.items():
            found = way()
            best[title] = found if turn == 0 else min(best[title], found)
    if len({matches for _, matches in best.values()}) > 1:
        raise AssertionError(f"the ways disagree: {best}")
    issued, span_s = best["as issued"][0], int(events.column("ts")[-1].as_py()) / 1e6
    return [
        f"{title:28} {seconds:8.3f} s, {len(queries) * span_s / seconds:12,.0f} queries in real time on a core, "
        f"{issued / seconds:5.2f} of as issued, {matches:,} matches"
        for title, (seconds, matches) in best.items()
    ]


# ------------------------------------------------------------------ computed for many nodes


class Cluster:
    """Nodes that get one query after the other; sources arise at nodes of their own."""

    def __init__(self, nodes: int) -> None:
        self.nodes = tuple(f"n{number}" for number in range(nodes))
        self.running: dict[str, dict[str, float]] = {node: {} for node in self.nodes}
        self.receives = dict.fromkeys(self.nodes, 0.0)
        self._turn = count()

    def add(self, tree: Expression, *, placing: str, reuse: bool, number: int) -> None:
        """Places the operators of a tree; those that run already are taken if `reuse` is set."""
        named = {id(one): str(one) if reuse else f"{one}#{number}" for one in operators_of(tree)}
        where = {name: node for node, there in self.running.items() for name in there}
        needed = _needed(tree, lambda one: named[id(one)] in where)

        def name_of(one: Expression) -> str:
            return str(one) if isinstance(one, Stream) else named[id(one)]

        operators = tuple(
            Operator(name_of(one), (name_of(one.left), name_of(one.right)), profile(one, RATES).rate, _own_work(one))
            for one in needed
        )
        sources = dict(RATES)
        elsewhere = dict.fromkeys(RATES, "sources")
        for one in operators_of(tree):
            if name_of(one) in where:
                sources[name_of(one)] = profile(one, RATES).rate
                elsewhere[name_of(one)] = where[name_of(one)]
        deployment = Deployment(operators, sources, elsewhere, self.nodes, self.running)
        if placing == "in turn":
            placed = {one.name: self.nodes[next(self._turn) % len(self.nodes)] for one in operators}
        else:
            placed = greedy(deployment) if placing == "greedy" else by_moves(deployment)
        for operator in operators:
            node = placed[operator.name]
            self.running[node][operator.name] = operator.cpu
            for name in operator.inputs:
                if elsewhere.get(name, placed.get(name)) != node:
                    self.receives[node] += deployment.rates[name]

    @property
    def overloaded(self) -> bool:
        return any(sum(self.running[node].values()) + self.receives[node] > NODE_CAPACITY for node in self.nodes)


def _own_work(one: After) -> float:
    return 2 * profile(one.left, RATES).rate + profile(one.right, RATES).rate


def _needed(tree: Expression, runs: Callable[[Expression], bool]) -> list[After]:
    """The operators to place, inputs first; each once, and nothing below one that runs."""
    found: dict[str, After] = {}

    def visit(node: Expression) -> None:
        if isinstance(node, After) and not runs(node) and str(node) not in found:
            visit(node.left)
            visit(node.right)
            found[str(node)] = node

    visit(tree)
    return list(found.values())


def least_added(query: Drawn, running: set[str]) -> Expression:
    """The brackets that add least to what runs, among those near the least work."""
    trees = list(bracketings(query.operands))
    limit = min(work(tree, RATES) for tree in trees) * (1 + SLACK)
    near = [tree for tree in trees if work(tree, RATES) <= limit]
    return min(near, key=lambda tree: sum(map(_own_work, _needed(tree, lambda one: str(one) in running))))


#: Title, how trees are chosen, how operators are placed, whether equal ones are shared.
STRATEGIES = (
    ("in turn", "issued", "in turn", False),
    ("greedy", "issued", "greedy", False),
    ("greedy, rewritten", "rewritten", "greedy", False),
    ("reuse", "issued", "greedy", True),
    ("reuse, rewritten", "rewritten", "greedy", True),
    ("by added work", "added", "greedy", True),
)


def carried(queries: Sequence[Drawn], nodes: int, trees: str, placing: str, reuse: bool) -> int:
    """How many of the queries fit before a node is overloaded."""
    cluster = Cluster(nodes)
    for number, query in enumerate(queries):
        if trees == "added":
            tree = least_added(query, {name for there in cluster.running.values() for name in there})
        else:
            tree = query.issued if trees == "issued" else least_work(query)
        cluster.add(tree, placing=placing, reuse=reuse, number=number)
        if cluster.overloaded:
            return number
    raise AssertionError(f"{len(queries)} queries do not overload {nodes} nodes; draw more")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="next_many", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--queries", type=int, default=40, help="measured together (default: 40)")
    parser.add_argument("--events", type=int, default=200_000, help="of the stream (default: 200000)")
    parser.add_argument("--repeat", type=int, default=3, help="turns, the best counts (default: 3)")
    parser.add_argument("--seeds", type=int, default=3, help="draws of queries for the nodes (default: 3)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=("measured", "nodes"))
    options = parser.parse_args(arguments)
    if options.only != "nodes":
        pin_to_one_core()
        print(f"measured: {options.queries} queries, {options.events:,} events, one core")
        queries = draw(options.queries, options.seed)
        print("\n".join(measure(queries, stream(options.events, options.seed), options.repeat)))
    if options.only != "measured":
        print(f"computed: queries until a node of {NODE_CAPACITY:,.0f} a second is overloaded, mean of {options.seeds}")
        print(f"{'nodes':24}" + "".join(f"{nodes:8}" for nodes in NODES))
        drawn = [draw(3_000, options.seed + number) for number in range(options.seeds)]
        for title, trees, placing, reuse in STRATEGIES:
            means = [sum(carried(one, nodes, trees, placing, reuse) for one in drawn) / len(drawn) for nodes in NODES]
            print(f"{title:24}" + "".join(f"{mean:8.1f}" for mean in means), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
