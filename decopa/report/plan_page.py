"""Priced plans -> one HTML page that needs nothing else: each plan as a graph, strategies side by side.

Everything that comes from a query is escaped on its way into the page (`escape`), and the page allows itself no
network access.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from string import Template

from decopa.errors import PlanError
from decopa.planning.price import PricedPlan
from decopa.report.drawing import MeasuredLoad, drawing, escape
from decopa.report.explain import (
    counted,
    limiting_text,
    quantity,
    scaling_text,
    shared_units,
    slices_text,
    verdict,
)

#: Strategies by this name are what others are compared with.
BASELINE = "centralized"


@dataclass(frozen=True, slots=True)
class NamedPlan:
    """A priced plan and the strategy that made it, with what its operators did, if it ran."""

    strategy: str
    priced: PricedPlan
    measured: Mapping[str, MeasuredLoad] | None = None


def plan_page(plans: Sequence[NamedPlan], *, title: str = "Plans") -> str:
    """The page; plans of the same query are shown side by side below a table that compares them."""
    if not plans:
        raise PlanError("there is no plan to draw; give at least one")
    by_query: dict[str, list[NamedPlan]] = {}
    for one in plans:
        by_query.setdefault(str(one.priced.plan.query), []).append(one)
    return whole_page(title, "\n".join(_section(query, same) for query, same in by_query.items()))


def whole_page(title: str, sections: str) -> str:
    """A page with these sections, which are HTML already, below the legend of plan graphs."""
    template = resources.files(__package__).joinpath("plan_page.html").read_text(encoding="utf-8")
    return Template(template).substitute(title=escape(title), sections=sections)


# ------------------------------------------------------------------ one query: table and figures


def _section(query: str, plans: Sequence[NamedPlan]) -> str:
    name = plans[0].priced.plan.query.name
    figures = "\n".join(plan_figure(one) for one in plans)
    return (
        f'<section aria-label="Query {escape(name)}">\n<h2>Query {escape(name)}</h2>\n'
        f'<pre>{escape(query)}</pre>\n<div class="scroll">{_comparison(plans)}</div>\n'
        f'<div class="plans">\n{figures}\n</div>\n</section>'
    )


def _comparison(plans: Sequence[NamedPlan]) -> str:
    """What the strategies sustain, next to each other; gains are over the baseline of the same reading of c."""
    best = max(one.priced.scaling.log_scaling for one in plans)
    rows = []
    for one in plans:
        priced = one.priced
        peers = [other for other in plans if other.priced.reading is priced.reading]
        baseline = next((other for other in peers if other.strategy == BASELINE), peers[0])
        limit = priced.scaling.limit
        cells = (
            (str(sum(1 for operator in priced.plan.operators if operator.inputs)), "number"),
            (str(priced.units), "number"),
            (scaling_text(priced), "number"),
            (priced.reading.value, ""),
            (_gain(priced, baseline) if len(plans) > 1 else "-", "number"),
            ("nothing" if limit is None else limiting_text(priced), ""),
            ("" if limit is None else limit.value, ""),
        )
        chosen = ' class="best"' if len(plans) > 1 and priced.scaling.log_scaling == best else ""
        body = "".join(f'<td class="{kind}">{escape(text)}</td>' for text, kind in cells)
        rows.append(f'<tr{chosen}><th scope="row">{escape(one.strategy)}</th>{body}</tr>')
    titles = ("Strategy", "Operators", "Units", "c", "Reading of c", "Gain", "Limited at", "Limit")
    numeric = ("Operators", "Units", "c", "Gain")
    head = "".join(
        f'<th scope="col"{" class=number" if title in numeric else ""}>{escape(title)}</th>' for title in titles
    )
    return (
        f'<table aria-label="Comparison of strategies"><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table>"
    )


def _gain(priced: PricedPlan, baseline: NamedPlan) -> str:
    if priced is baseline.priced:
        return "1x (baseline)"
    if priced.scaling.unlimited or baseline.priced.scaling.unlimited:
        return "-"
    return f"{quantity(math.exp(min(690, priced.scaling.log_scaling - baseline.priced.scaling.log_scaling)))}x"


def plan_figure(named: NamedPlan) -> str:
    """The graph of one plan with its caption."""
    priced = named.priced
    notes = [f"{counted(priced.units, 'unit')}; {verdict(priced)}", slices_text(priced.plan)]
    notes += [str(shared) for shared in shared_units(priced.plan, priced)]
    notes += [] if priced.at == 1 else [f"Rates and loads at scaling factor {quantity(priced.at)}"]
    captions = "".join(f"<p>{escape(note)}</p>" for note in notes if note)
    label = f"Plan of strategy {named.strategy}: {verdict(priced)}"
    return (
        f"<figure><figcaption><h3>{escape(named.strategy)}</h3>{captions}</figcaption>"
        f'<div class="scroll">{drawing(priced, label, named.measured)}</div></figure>'
    )
