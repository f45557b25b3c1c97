"""How far back a plan looks: what rebuilds it in the middle of a stream, and when all plans have reported a match.

Counted in windows back from the watermark, which all senders share. A match that is still to come ends at the watermark
or later, so its events lie in the last window; this holds for NEXT, runs and timers, too, since what lies between two
events of a match lies within the match. NOT reaches further:

- A NOT at the end of a SEQ holds a match for a window from its start. A NOT at the start of that SEQ looks back one
  window from the match's end, so one level of NOT takes one more window.
- Where NOTs lie inside each other, plans differ in when they are certain of a match: one that decides the inner NOT
  early knows sooner how far the outer one may decide. So does NEXT behind a NOT that is open at its end. Such a match
  is certain under every plan once `nesting_of_not` windows have passed since its end (`uncertain_windows`). A plan that
  takes over must therefore find all matches of that time again, with what blocks them and what lifts the block.
"""

from __future__ import annotations

from decopa.planning.plan import Plan
from decopa.query.query import Query


def history_windows(query: Query, *, sliced: bool = False) -> int:
    """How many windows of events before the watermark rebuild all that a plan of the query holds."""
    nesting = query.nesting_of_not
    reach = 2 * nesting + 1 if uncertain_windows(query) else nesting + 1
    return reach + 1 if sliced else reach


def uncertain_windows(query: Query) -> int:
    """For how many windows after the end of a match it depends on the plan whether the match is out; 0 if every plan
    reports it at the same watermark."""
    open_ended = any(not negation.before for negation in query.negations)
    if query.nesting_of_not > 1 or (open_ended and query.chosen_in_order):
        return query.nesting_of_not
    return 0


def history_us(plan: Plan) -> int:
    """How far before the watermark the events begin that rebuild all that a plan holds."""
    return max(
        (history_windows(part.query, sliced=part.slices > 1) * part.query.window_us for part in plan.parts), default=0
    )
