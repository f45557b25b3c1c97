"""Who shares what in a plan of several queries, what it saves, and where queries look for the same on their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from decopa.planning.plan import Plan, PlanOperator, QueryPlan
from decopa.planning.price import PricedPlan
from decopa.planning.workload.packing import part_order
from decopa.query.canonical import CanonicalForm, canonical, shareable_aliases
from decopa.query.names import duration_text

#: Queries that a line names before it counts the others.
_MOST_NAMED = 4
#: Lines about what is not shared.
_MOST_DECLINED = 10


@dataclass(frozen=True, slots=True)
class SharedFragment:
    """A fragment, the queries that its matches reach, and the share of a unit's time that these save by not looking
    for them on their own; None without statistics."""

    key: str
    sub_query: str
    queries: tuple[str, ...]
    saved: float | None = None

    def __str__(self) -> str:
        saves = "" if self.saved is None else f"; saves {100 * self.saved:.3g} % of a unit"
        return f"{self.key} {self.sub_query} is found once for {named(self.queries)}{saves}"


def shared_fragments(plan: Plan, priced: Sequence[PricedPlan] | None = None) -> list[SharedFragment]:
    """The fragments of a plan, with what they save."""
    users: dict[int, set[int]] = {place: set() for place in range(len(plan.parts))}
    direct: dict[int, int] = dict.fromkeys(users, 0)
    for place in reversed(part_order(plan)):
        part = plan.parts[place]
        reached = users[place] | ({place} if not part.fragment else set())
        for operator in part.views:
            assert operator.view is not None
            source = plan.place_of[operator.view.part]
            users[source] |= reached
            direct[source] += 1
    found = []
    for place, part in enumerate(plan.parts):
        if part.fragment:
            busy = None if priced is None else sum(one.busy_share for one in priced[place].operators)
            saved = None if busy is None else (direct[place] - 1) * busy
            queries = tuple(plan.keys[user] for user in sorted(users[place]))
            found.append(SharedFragment(plan.keys[place], part.root.sub_query.text(part.query), queries, saved))
    return found


def declined(plan: Plan) -> list[str]:
    """Sub-queries that several parts look for on their own, and why."""
    found: dict[CanonicalForm, list[tuple[str, QueryPlan, PlanOperator]]] = {}
    for key, part in zip(plan.keys, plan.parts, strict=True):
        plain = set(shareable_aliases(part.query))
        for operator in part.operators:
            if operator.inputs and operator.sub_query.aliases <= plain:
                form, _ = canonical(part.query, operator.sub_query.aliases)
                found.setdefault(form, []).append((key, part, operator))
    lines = []
    for same in found.values():
        if len(same) > 1:
            windows = sorted({part.query.window_us for _, part, _ in same})
            reason = "to share it would cost more" if len(windows) == 1 else (
                f"their windows are {' and '.join(map(duration_text, windows))}, and a wide one would cost more"
            )  # fmt: skip
            _, part, operator = same[0]
            text = operator.sub_query.text(part.query)
            lines.append(f"{text} is looked for by {named([key for key, _, _ in same])} on their own: {reason}")
    more = len(lines) - _MOST_DECLINED
    return lines[:_MOST_DECLINED] + ([f"and {more:,} more"] if more > 0 else [])


def sharing_lines(plan: Plan, priced: Sequence[PricedPlan] | None = None) -> list[str]:
    """All of it as lines; none for a plan of one query."""
    if len(plan.reported) < 2:
        return []
    return [*map(str, shared_fragments(plan, priced)), *declined(plan)]


def named(keys: Sequence[str]) -> str:
    """`q1, q2 and 7 more`."""
    shown = ", ".join(keys[:_MOST_NAMED])
    return shown if len(keys) <= _MOST_NAMED else f"{shown} and {len(keys) - _MOST_NAMED:,} more"
