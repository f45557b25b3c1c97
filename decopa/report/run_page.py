"""The report of a run: one HTML page that needs nothing else.

The query, the plan with predicted and measured loads, throughput, latency and busy time while it ran, matches per
minute of event time, and the busiest unit.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from actors.reports import OperatorReport
from cluster.deploy.recorder import Sample
from decopa.planning.predict import Total
from decopa.planning.price import PricedPlan
from decopa.report.chart import STYLE, Series, line_chart
from decopa.report.drawing import MeasuredLoad, escape
from decopa.report.explain import percent
from decopa.report.plan_page import NamedPlan, plan_figure, whole_page
from decopa.report.run_summary import (
    PartSummary,
    Sustainable,
    busy_texts,
    count_text,
    error_text,
    figures,
    matches_text,
)
from decopa.runs.result import RunResult

#: Processes whose busy time is drawn: the busiest ones.
_BUSIEST = 5
_MINUTE_US = 60_000_000
#: Minutes that are taken together in the curve of matches: the least with which it has so many points.
_TOGETHER = (1 / 600, 1 / 60, 1 / 6, 1, 10, 60)
_MOST_POINTS = 300


@dataclass(frozen=True)
class RunReport:
    """All that the page shows. `emulated` is the capacity that units pretended to have, if so."""

    result: RunResult
    parts: tuple[PartSummary, ...]
    samples: tuple[Sample, ...]
    strategy: str
    paced: bool = False
    emulated: str | None = None
    sustainable: Sustainable | None = None


def report_page(report: RunReport) -> str:
    names = ", ".join(dict.fromkeys(part.plan.query.name for part in report.parts))
    label = " (emulated)" if report.emulated else ""
    sections = [STYLE, _summary(report), *(_part(report, part) for part in report.parts), _curves(report)]
    return whole_page(f"Run of {names}{label}", "\n".join(sections))


# ------------------------------------------------------------------ the whole


def _summary(report: RunReport) -> str:
    lines = figures(report.result, paced=report.paced, emulated=report.emulated, sustainable=report.sustainable)
    lines.append(("matches", matches_text(report.result)))
    lines.append(("busiest unit", busiest_text(report)))
    rows = "".join(
        f'<tr><th scope="row">{escape(what)}</th><td class="big">{escape(value)}</td></tr>' for what, value in lines
    )
    notices = "".join(f"<p>Note: {escape(notice)}</p>" for notice in dict.fromkeys(report.result.notices))
    return f'<section aria-label="Summary"><table><tbody>{rows}</tbody></table>{notices}</section>'


def busiest_text(report: RunReport) -> str:
    """The process that was busy for the largest share of the run, and what runs on it."""
    if not report.samples or not report.samples[-1].busy_s:
        return "not measured: units have a process each on Ray only"
    last = report.samples[-1]
    name = max(last.busy_s, key=lambda one: last.busy_s[one])
    share = last.busy_s[name] / last.seconds if last.seconds > 0 else 0.0
    operators = {operator.name: part for part in report.parts for operator in part.plan.operators}
    hosted = [one for one in name.split("/") if one in operators]
    text = f", {operators[hosted[0]].plan.text(operators[hosted[0]].plan.operator(hosted[0]))}" if hosted else ""
    return f"{name}{text}: busy {percent(share)} of the time"


# ------------------------------------------------------------------ one query


def _part(report: RunReport, part: PartSummary) -> str:
    query = str(part.plan.query)
    drawn = ""
    if part.price is not None:
        named = NamedPlan(report.strategy, _at_speed(part, part.price, report.result), measured_loads(part))
        drawn = (
            "<p>Ingestion and comparison are predicted, as shares of a unit's capacity at this run's speed, by the "
            "model nearest to the engine; busy is measured. c is the planner's, which counts every pair twice.</p>"
            f'<div class="plans">{plan_figure(named)}</div>'
        )
    return (
        f'<section aria-label="Query {escape(part.plan.query.name)}"><h2>Query {escape(part.plan.query.name)}</h2>'
        f'<pre>{escape(query)}</pre>{drawn}<div class="scroll">{_loads(part)}</div></section>'
    )


def _at_speed(part: PartSummary, price: PricedPlan, result: RunResult) -> PricedPlan:
    """The plan with what its operators were predicted to do at the speed of this run: so many seconds of event time
    passed in each."""
    speed = result.span_us / 1e6 / result.seconds if result.seconds > 0 else 0.0
    if speed <= 0 or part.predictions is None:
        return price
    capacity, windows = price.capacity, result.span_us / part.plan.query.window_us
    figures = []
    for one in price.operators:
        expected, report = part.predictions[one.operator.name], part.reports.get(one.operator.name)
        if report is not None and report.units:
            totals = (expected.ingested.value, expected.comparisons.value, expected.emitted.value)
            ingested, compared, emitted = (speed * total / windows / report.units for total in totals)
            one = replace(
                one,
                ingestion=ingested,
                comparisons=compared,
                ingestion_share=ingested / capacity.max_ingestion,
                comparison_share=compared / capacity.max_comparisons,
                emission=emitted,
                emission_share=0.0 if capacity.max_emission is None else emitted / capacity.max_emission,
            )
        figures.append(one)
    return replace(price, operators=tuple(figures), at=speed)


def measured_loads(part: PartSummary) -> dict[str, MeasuredLoad]:
    """What operators did, for the boxes of the plan graph."""
    found = {}
    for name, report in part.reports.items():
        counts = (("ingested", report.ingested), ("comparisons", report.comparisons), ("matches", report.emitted))
        busy = report.busiest or None
        details = [f"measured: {count:,} {what}" for what, count in counts]
        details += [] if busy is None else [f"measured: busiest unit {percent(busy)} busy"]
        found[name] = MeasuredLoad(busy, f"compared {count_text(report.comparisons)}", "\n".join(details))
    return found


def _loads(part: PartSummary) -> str:
    """Predicted and measured loads of every operator, with the relative error."""
    kinds = ("busy", "ingested", "comparisons", "matches")
    head = '<th scope="col">operator</th><th scope="col">units</th>' + "".join(
        f'<th scope="col" class="number">{kind}, predicted</th><th scope="col" class="number">measured</th>'
        '<th scope="col" class="number">error</th>'
        for kind in kinds
    )
    rows = [_load_row(part, name, report) for name, report in part.reports.items()]
    return (
        f'<table class="loads" aria-label="Loads"><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table>'
    )


def _load_row(part: PartSummary, name: str, report: OperatorReport) -> str:
    expected = None if part.predictions is None else part.predictions[name]
    totals: Sequence[Total | None] = (None, None, None)
    if expected is not None:
        totals = (expected.ingested, expected.comparisons, expected.emitted)
    cells = [str(report.units), *busy_texts(part, name, report)]
    for total, measured in zip(totals, (report.ingested, report.comparisons, report.emitted), strict=True):
        rough = "~" if total is not None and total.rough else ""
        cells.append("-" if total is None else rough + count_text(total.value))
        cells.append(count_text(measured))
        cells.append("-" if total is None else error_text(total.error(measured)))
    body = "".join(f'<td class="number">{escape(cell)}</td>' for cell in cells)
    return f'<tr><th scope="row">{escape(part.plan.text(part.plan.operator(name)))}</th>{body}</tr>'


# ------------------------------------------------------------------ curves


def _curves(report: RunReport) -> str:
    label = ", emulated" if report.emulated else ""
    samples = report.samples
    charts = [
        line_chart(
            f"Throughput{label}", [_throughput(samples)], x_label="seconds of the run", y_label="events per second"
        ),
        line_chart(f"Latency{label}", _latencies(samples), x_label="seconds of the run", y_label="milliseconds"),
        line_chart(
            f"Busy share of the busiest units{label}", _busy(samples), x_label="seconds of the run", y_label="% of time"
        ),
    ]
    minutes = matches_per_minute(report.result.matches)
    charts.append(
        line_chart(
            "Matches per minute of event time", [minutes], x_label=f"{minutes.name} of event time", y_label="per minute"
        )
    )
    return f'<section aria-label="Curves"><h2>While it ran</h2><div class="charts">{"".join(charts)}</div></section>'


def _throughput(samples: Sequence[Sample]) -> Series:
    x, y = [], []
    for before, after in itertools.pairwise(samples):
        if after.seconds > before.seconds:
            x.append(after.seconds)
            y.append(max(0.0, (after.events - before.events) / (after.seconds - before.seconds)))
    return Series("events/s", x, y)


def _latencies(samples: Sequence[Sample]) -> list[Series]:
    timed = [sample for sample in samples if sample.latency.count]
    x = [sample.seconds for sample in timed]
    return [
        Series("p50", x, [1e3 * sample.latency.p50_s for sample in timed]),
        Series("p99", x, [1e3 * sample.latency.p99_s for sample in timed]),
    ]


def _busy(samples: Sequence[Sample]) -> list[Series]:
    if len(samples) < 2 or not samples[-1].busy_s:
        return []
    names = sorted(samples[-1].busy_s, key=lambda name: -samples[-1].busy_s[name])[:_BUSIEST]
    found = []
    for name in names:
        x, y = [], []
        for before, after in itertools.pairwise(samples):
            if after.seconds > before.seconds:
                done_s = after.busy_s.get(name, 0.0) - before.busy_s.get(name, 0.0)
                x.append(after.seconds)
                y.append(100 * max(0.0, done_s) / (after.seconds - before.seconds))
        found.append(Series(name, x, y))
    return found


def matches_per_minute(matches: pa.Table) -> Series:
    """By the time at which a match ends; means over parts of a minute in short runs, over several in long ones.

    The name is the unit of x.
    """
    ends = matches.column("end_ts").cast(pa.int64()).to_numpy() if matches.num_rows else np.empty(0, dtype=np.int64)
    if not len(ends):
        return Series("minutes", [], [])
    first = int(ends.min())
    minutes = (int(ends.max()) - first) / _MINUTE_US
    together = next((size for size in _TOGETHER if minutes / size <= _MOST_POINTS), minutes / _MOST_POINTS)
    counts = np.bincount((ends - first) // max(1, round(together * _MINUTE_US)))
    unit, size = ("hours", 60) if minutes > 300 else ("minutes", 1)
    return Series(unit, [place * together / size for place in range(len(counts))], (counts / together).tolist())
