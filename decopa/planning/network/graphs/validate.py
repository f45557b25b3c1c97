"""Validity of a network plan (MuSE 5.2): the last gate before it runs. Every way to fail has a name.

A plan that passes finds every match of each query, at exactly one sink.
"""

from __future__ import annotations

from collections.abc import Iterator

from decopa.errors import PlanError, QueryError
from decopa.planning.network.graphs.cover import NOTHING, Cover
from decopa.planning.network.graphs.graph import NetworkPlan, Vertex
from decopa.planning.validate import Violation
from decopa.query.pattern import ANY_TYPE
from decopa.query.query import Query


def check_network_plan(plan: NetworkPlan) -> None:
    """Raises PlanError with the first violation, if there is any."""
    for violation in violations(plan):
        raise PlanError(f"vertex {violation.operator}: {violation.message} [{violation.rule}]")


def unsupported(query: Query) -> str | None:
    """What of an OR-free query a network cannot evaluate, if there is something: matches are put together there from
    parts that know nothing of each other's candidates, and events are known by their one type."""
    if query.composites:
        return "a group of several events"
    if query.chosen_in_order:
        return "NEXT, STRICT and ITER choose among all candidates"
    if any(one.others or one.type == ANY_TYPE for one in query.positions):
        return "an event of several types"
    if any(one.delay_us for one in query.positions):
        return "a timer"
    return None


def check_network_query(query: Query) -> None:
    """Raises QueryError if a network cannot evaluate an OR-free query."""
    what = unsupported(query)
    if what is not None:
        raise QueryError(
            f"{query.pattern}: {what}, which a network cannot evaluate; gather events and use `decopa run`"
        )


def violations(plan: NetworkPlan) -> Iterator[Violation]:
    """Every violation: of queries as such, of single vertices, then of queries as they are evaluated."""
    for part, query in enumerate(plan.queries):
        if (what := unsupported(query)) is not None:
            yield Violation("not-in-networks", plan.vertices[0].name, f"query {part}: {what}; use `decopa run`")
            return
    for vertex in plan.ordered:
        for rule, message in _vertex(plan, vertex):
            yield Violation(rule, vertex.name, message)
    for part in range(len(plan.queries)):
        yield from _primitives(plan, part)
        yield from _sinks(plan, part)


def _vertex(plan: NetworkPlan, vertex: Vertex) -> Iterator[tuple[str, str]]:
    query = plan.queries[vertex.part]
    if not vertex.inputs:
        if len(vertex.sub_query.aliases) > 1 or vertex.sub_query.closed or vertex.forwards:
            yield "leaf", "reads nothing, so it must be the events of one position; give it inputs"
        elif vertex.node not in plan.producers.get(plan.event_type(vertex), ()):
            yield "not-produced", f"node '{vertex.node}' does not produce '{plan.event_type(vertex)}'"
        return
    inputs = plan.inputs(vertex)
    if any(source.part != vertex.part for source in inputs):
        yield "other-query", "reads a vertex of another query; name it in same_as of a vertex of its own"
        return
    provided = frozenset[str]().union(*(source.provides for source in inputs))
    if provided != vertex.sub_query.aliases:
        missing, extra = sorted(vertex.sub_query.aliases - provided), sorted(provided - vertex.sub_query.aliases)
        what = (
            f"position {missing[0]} ({query.position(missing[0]).type}) is in no input"
            if missing
            else (f"input position {extra[0]} is not in it")
        )
        yield "cover", f"{what}; the inputs must make up {vertex.sub_query.text(query)} (Def. 6)"
        return
    if any(not source.sub_query.aliases <= vertex.sub_query.aliases for source in inputs):
        yield "cover", "reads a reducer that looks at positions which it does not have itself"
    if vertex.forwards is not None and vertex.forwards not in vertex.sub_query.aliases:
        yield "forwards", f"forwards '{vertex.forwards}', which is no position of it"
    yield from _negation_closed(plan, vertex)
    yield from _all_origins(plan, vertex)
    yield from _twice(plan, inputs)
    if vertex.same_as is not None and plan.vertex(vertex.same_as).node != vertex.node:
        yield "same-as", f"is at another node than {vertex.same_as}, whose matches it takes"
    if not len(plan.covers[vertex.name]):
        yield "nothing", "covers no binding: its inputs have no origin in common (Property 2)"


def _negation_closed(plan: NetworkPlan, vertex: Vertex) -> Iterator[tuple[str, str]]:
    query, sub_query = plan.queries[vertex.part], vertex.sub_query
    if sub_query.scope(query):
        yield "negation-closed", "is a part of a NOT only; evaluate that where the match around it is known (Def. 9)"
        return
    for negation in sub_query.negations(query):
        missing = (negation.aliases | query.context_of(negation)) - sub_query.aliases
        if missing:
            yield (
                "negation-closed",
                f"includes negated positions but not {sorted(missing)}, which they depend on (Def. 9)",
            )


def _all_origins(plan: NetworkPlan, vertex: Vertex) -> Iterator[tuple[str, str]]:
    """A NOT must see every event that could block, a KL every event that could be a member."""
    query = plan.queries[vertex.part]
    for position in query.positions:
        if position.alias in vertex.sub_query.aliases and (position.scope or position.kleene):
            everywhere = frozenset(plan.producers[position.type])
            if any(box[position.alias] != everywhere for box in plan.covers[vertex.name].boxes):
                kind = "negated" if position.scope else "KL"
                yield "all-origins", f"does not see every origin of the {kind} position '{position.alias}'"


def _twice(plan: NetworkPlan, inputs: tuple[Vertex, ...]) -> Iterator[tuple[str, str]]:
    """Two inputs that provide the same rows make every match of them twice."""
    seen: dict[frozenset[str], list[tuple[Vertex, Cover]]] = {}
    for source in inputs:
        boxes = plan.covers[source.name].onto(source.provides)
        for other, cover in seen.get(source.provides, []):
            if any(cover.overlap(Cover((box,))) for box in boxes):
                yield "twice", f"reads the same matches from {other.name} and {source.name}; keep one"
                return
        seen.setdefault(source.provides, []).append((source, Cover(boxes)))


def _primitives(plan: NetworkPlan, part: int) -> Iterator[Violation]:
    """Def. 7 (i)."""
    query = plan.queries[part]
    have = {(min(v.sub_query.aliases), v.node) for v in plan.vertices if v.part == part and not v.inputs}
    for position in query.positions:
        for node in plan.producers.get(position.type, ()):
            if (position.alias, node) not in have:
                yield Violation(
                    "primitive", "-", f"no vertex for the events of '{position.alias}' at node '{node}' (Def. 7)"
                )


def _sinks(plan: NetworkPlan, part: int) -> Iterator[Violation]:
    """Def. 8, and no match at two sinks."""
    query = plan.queries[part]
    # One that lacks a position covers nothing, which was told of it already.
    sinks = tuple(one for one in plan.sinks(part) if plan.covers[one.name].aliases in (frozenset(), set(query.aliases)))
    together = NOTHING
    for place, sink in enumerate(sinks):
        for other in sinks[:place]:
            shared = plan.covers[sink.name].overlap(plan.covers[other.name])
            if shared is not None:
                where = ", ".join(f"{alias} from {node}" for alias, node in sorted(shared.items()))
                yield Violation("two-sinks", sink.name, f"finds the matches with {where} that {other.name} finds, too")
                return
        together = together.united(plan.covers[sink.name])
    missing = plan.bindings(part, query.aliases).without(together) if sinks else plan.bindings(part, query.aliases)
    if len(missing):
        first = next(missing.bindings())
        where = ", ".join(f"{alias} from {node}" for alias, node in sorted(first.items()))
        yield Violation(
            "incomplete",
            sinks[0].name if sinks else "-",
            f"no sink of query '{query.name}' finds the matches with {where}, and {len(missing) - 1} other "
            "combinations of origins (Def. 8)",
        )
    for vertex in plan.vertices:
        if vertex.part == part and vertex.inputs and vertex not in sinks and not plan.readers(vertex):
            yield Violation("unused", vertex.name, "nothing reads it and it is no sink; remove it")
