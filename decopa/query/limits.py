"""How large a query may be. Whatever is asked for, planning and compiling it end soon and in little memory."""

from __future__ import annotations

from collections.abc import Iterable

from decopa.errors import QueryError
from decopa.query.conditions.predicate import Among, Attr, Compare, Node, Predicate, aliases_of, children

#: Comparisons of a query, each value of an IN list counted; in all alternatives of OR together ten times as many.
MAX_COMPARISONS = 4_096
#: Those that name several events, in all and for one set of events. They are compiled together, and a compiler takes
#: more than twice as long for twice as many.
MAX_JOINING = 512
MAX_JOINING_TOGETHER = 128


def check_conditions(where: Iterable[Predicate], alternatives: int) -> None:
    """Bounds the number of comparisons: of all, and of those that are compiled into one loop."""
    total = joining = 0
    together: dict[frozenset[str], int] = {}
    for predicate in where:
        comparisons, named = comparison_count(predicate), aliases_of(predicate)
        total += comparisons
        if len(named) > 1:
            joining += comparisons
            together[named] = together.get(named, 0) + comparisons
    if total > MAX_COMPARISONS or total * alternatives > 10 * MAX_COMPARISONS:
        among = f" in each of {alternatives} alternatives of OR" if total <= MAX_COMPARISONS else ""
        raise QueryError(
            f"{total} comparisons (with the values of IN){among} are more than a query may have ({MAX_COMPARISONS}); "
            "filter the events before, or split the query"
        )
    if joining > MAX_JOINING:
        raise QueryError(f"{joining} comparisons between events; a query may have {MAX_JOINING}; split the query")
    for named, comparisons in together.items():
        if comparisons > MAX_JOINING_TOGETHER:
            raise QueryError(
                f"{comparisons} comparisons between {', '.join(sorted(named))} (with the values of IN); at most "
                f"{MAX_JOINING_TOGETHER} may name the same events; compute a column in the trace instead"
            )


def comparison_count(node: Node) -> int:
    """Comparisons in a condition; an IN list has one for each value."""
    if isinstance(node, Among):
        return len(node.values)
    if isinstance(node, Compare | Attr):
        return int(isinstance(node, Compare))
    return sum(map(comparison_count, children(node)))
