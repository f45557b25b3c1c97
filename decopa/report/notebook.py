"""How queries, plans and results look in a notebook: `install` gives their classes a `_repr_html_`."""

from __future__ import annotations

import html

from decopa.planning.plan import Plan
from decopa.planning.price import price_plan
from decopa.query.query import Query
from decopa.report.drawing import escape
from decopa.report.explain import explain
from decopa.report.plan_page import NamedPlan, plan_page
from decopa.report.run_summary import figures, matches_text
from decopa.runs.preparation.planning import per_part
from decopa.runs.result import RunResult
from decopa.runs.spec import DEFAULT_CAPACITY

#: Matches shown of a result.
_ROWS = 10
_FRAME_PX = 640


def install() -> None:
    """Called once a notebook has loaded decopa."""
    Query._repr_html_ = query_html  # type: ignore[attr-defined]
    Plan._repr_html_ = plan_html  # type: ignore[attr-defined]
    RunResult._repr_html_ = result_html  # type: ignore[attr-defined]


def query_html(query: Query) -> str:
    """The text of the query."""
    return f"<pre>{escape(str(query))}</pre>"


def plan_html(plan: Plan) -> str:
    """The plan as a tree; without statistics there are no loads to draw."""
    return f"<pre>{escape(explain(plan, width=110))}</pre>"


def result_html(result: RunResult) -> str:
    """What was found, the first matches, and the plan drawn with its predicted loads."""
    lines = [("matches", matches_text(result)), *figures(result)]
    rows = "".join(
        f'<tr><th style="text-align:left">{escape(what)}</th><td style="text-align:left">{escape(value)}</td></tr>'
        for what, value in lines
    )
    notices = "".join(f"<p>Note: {escape(notice)}</p>" for notice in dict.fromkeys(result.notices))
    return f"<table><tbody>{rows}</tbody></table>{notices}{_matches(result)}{_plans(result)}"


def _matches(result: RunResult) -> str:
    if not result.matches.num_rows:
        return ""
    head = "".join(f"<th>{escape(name)}</th>" for name in result.matches.column_names)
    rows = "".join(
        "<tr>" + "".join(f"<td>{escape('' if value is None else str(value))}</td>" for value in row.values()) + "</tr>"
        for row in result.matches.slice(0, _ROWS).to_pylist()
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


def _plans(result: RunResult) -> str:
    """The plans on a page of their own inside the notebook, so that its style and the notebook's do not mix."""
    queries = tuple(dict.fromkeys(result.plan.queries))
    if not result.statistics or len(queries) != len(result.statistics):
        return plan_html(result.plan)
    known = zip(result.plan.parts, per_part(result.plan, queries, result.statistics))
    drawn = [NamedPlan(result.strategy, price_plan(part, one, DEFAULT_CAPACITY)) for part, one in known if one]
    if not drawn:
        return plan_html(result.plan)
    page = html.escape(plan_page(drawn, title="Plan"), quote=True)
    return f'<iframe srcdoc="{page}" style="width:100%;height:{_FRAME_PX}px;border:0" title="Plan"></iframe>'
