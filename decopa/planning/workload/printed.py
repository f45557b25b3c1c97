"""Plans of workloads as DecoPa describes them (5.5, 6.3).

All queries are read as AND over their events in the longest window, so that neither order nor windows prevent sharing.
They are added in the order of falling comparison cost of their left-deep plans. For each, the cheapest tree made of
sub-queries that are in use and the cheapest of all are found, and the one that adds less stays. A sub-query that one
query alone uses is turned back: it belongs to that query's own part, with its order and its window. Units are assigned
in the end, over all operators.

The paper lets a shared sub-query demand the disjunction of its users' conditions; here sub-queries with different
conditions are different ones.
"""

from __future__ import annotations

from dataclasses import replace

from decopa.planning.workload.trees.multitree import Chosen, MultiTree
from decopa.planning.workload.trees.problem import QueryProblem
from decopa.planning.workload.trees.response import Responder
from decopa.query.canonical import shareable_aliases
from decopa.query.pattern import And, EventRef
from decopa.query.query import Query


class UnorderedProblem(QueryProblem):
    """The queries as AND over their plain events, all in the longest of their windows."""

    def _demand(self, query: Query) -> Query:
        aliases = shareable_aliases(query)
        events = tuple(EventRef(query.position(alias).type, alias) for alias in aliases)
        return replace(query.project(aliases), pattern=And(events))

    def window(self, pattern: int) -> int:
        return max(query.window_us for query in self.queries)


def shared_as_printed(problem: QueryProblem) -> MultiTree:
    """Trees of all queries, chosen one after the other."""
    responder, trees = Responder(problem), MultiTree()
    for pattern in sorted(range(problem.patterns), key=lambda one: (-_left_deep_cost(problem, responder, one), one)):
        reusing = _of_used(problem, responder, trees, pattern)
        everything = responder.best(pattern)
        trees.add(pattern, min(reusing, everything, key=lambda one: _added(trees, one)))
    return trees


def _of_used(problem: QueryProblem, responder: Responder, trees: MultiTree, pattern: int) -> Chosen:
    """The cheapest tree of sub-queries in use; infinitely dear if there is none."""
    window = problem.window(pattern)
    return responder.constrained(pattern, trees, fits=lambda mask: (problem.form(pattern, mask), window) in trees.nodes)


def _added(trees: MultiTree, chosen: Chosen) -> float:
    """What a tree costs beyond what is there."""
    return sum(node.cost for key, node in chosen.tree if key not in trees.nodes) + chosen.views


def _left_deep_cost(problem: QueryProblem, responder: Responder, pattern: int) -> float:
    """Of joining events in the order in which the query is written."""
    full = problem.full(pattern)
    prefixes = {full >> shift for shift in range(full.bit_length())}
    chosen = responder.constrained(pattern, fits=prefixes.__contains__)
    return sum(node.cost for _, node in chosen.tree)
