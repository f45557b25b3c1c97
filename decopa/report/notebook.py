"""How queries, plans and results look in a notebook: `install` gives their classes a `_repr_html_`."""

from __future__ import annotations

from decopa.planning.plan import Plan
from decopa.planning.price import price_plan
from decopa.query.query import Query
from decopa.report.drawing import drawing, escape
from decopa.report.explain import explain, verdict
from decopa.report.run_summary import figures, matches_text
from decopa.runs.planning import per_part
from decopa.runs.result import RunResult
from decopa.runs.spec import DEFAULT_CAPACITY

#: Matches shown of a result.
_ROWS = 10


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
    if not result.statistics:
        return plan_html(result.plan)
    queries = tuple(dict.fromkeys(part.query for part in result.plan.parts))
    known = per_part(queries, result.statistics) if len(queries) == len(result.statistics) else []
    drawn = []
    for part, one in zip(result.plan.parts, known):
        if one is not None:
            priced = price_plan(part, one, DEFAULT_CAPACITY)
            drawn.append(
                f"<figure><figcaption>{escape(verdict(priced))}</figcaption>{drawing(priced, 'Plan')}</figure>"
            )
    return "".join(drawn) or plan_html(result.plan)
