"""Plan -> indented tree for the terminal: sub-queries, units, how matches travel, predicted loads, the bottleneck."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from costmodel.logarithms import MAX_VALUE
from decopa.choices import Reading
from decopa.errors import PlanError
from decopa.planning.plan import Plan, PlanOperator, QueryPlan
from decopa.planning.price import OperatorFigures, PricedPlan, plan_units, units_of
from decopa.report.rewriting import rewriting_lines
from decopa.report.sharing import sharing_lines
from decopa.report.table import GAP, aligned, widths_of
from decopa.report.tree import columns_of, padded, printable, tree_rows, wrapped

#: A sub-query is not wrapped to fewer columns than this, however narrow the terminal.
_NARROWEST = 16
#: Columns beside the tree that hold words: rule and matches.
_WORDS = (0, 2)
_BOLD, _DIM, _RED, _YELLOW, _PLAIN = "\x1b[1m", "\x1b[2m", "\x1b[1;31m", "\x1b[33m", "\x1b[0m"


def explain(
    plan: Plan | QueryPlan, priced: Sequence[PricedPlan] | None = None, *, color: bool = False, width: int = 100
) -> str:
    """The plan as a tree, root first, ending in a newline.

    `priced` holds one priced plan for each query of the plan and adds rates, loads and the bottleneck. Sub-queries
    that do not fit into `width` columns continue on the next line; nothing is cut off.
    """
    parts = plan.parts if isinstance(plan, Plan) else (plan,)
    if priced is not None and tuple(one.plan for one in priced) != parts:
        raise PlanError(f"the prices are of other plans; give {len(parts)}, one for each query of the plan, in order")
    paint = _Paint(color)
    blocks = []
    for index, part in enumerate(parts):
        blocks.append("\n".join(_block(part, None if priced is None else priced[index], paint, width)))
    if len(parts) > 1 and isinstance(plan, Plan):
        slowest = min(priced, key=lambda one: one.scaling.log_scaling) if priced else None
        sustained = f"; {slowest.plan.query.name}: {verdict(slowest)}" if slowest else ""
        fragments = len(parts) - len(plan.reported)
        shared = f" and {counted(fragments, 'fragment')} that they share" if fragments else ""
        units = counted(plan_units(plan), "unit")
        total = f"{len(plan.reported)} queries{shared} on {units} in total{printable(sustained)}"
        sharing = [printable(line) for line in sharing_lines(plan, priced)]
        lines = [more for line in sharing for more in textwrap.wrap(line, width, subsequent_indent="  ")]
        blocks.append("\n".join([paint(total, _BOLD), *lines]))
    return "\n\n".join(blocks) + "\n"


# ------------------------------------------------------------------ words and numbers, also for the page


def verdict(priced: PricedPlan) -> str:
    """`c = 0.667, limited by comparison at o6 SEQ(A,B,C)`: what the plan sustains and why not more."""
    limit = priced.scaling.limit
    if limit is None:
        return "c is unlimited"
    return f"c = {scaling_text(priced)}, limited by {limit.value} at {limiting_text(priced)}"


def scaling_text(priced: PricedPlan) -> str:
    """The largest c; never a plain 0, which would say that the plan does nothing."""
    if priced.scaling.unlimited:
        return "unlimited"
    return quantity(priced.scaling.scaling_factor) if priced.scaling.scaling_factor > 1e-300 else "under 1e-300"


def limiting(priced: PricedPlan) -> tuple[OperatorFigures, ...]:
    """The operators that bind: none if the plan is unlimited, several if they share the units that are full."""
    return tuple(figures for figures in priced.operators if figures.limit is not None)


def limiting_text(priced: PricedPlan) -> str:
    """`o6 SEQ(A,B,C)`, or the shared units with the operators on them."""
    binding = limiting(priced)
    if len(binding) == 1:
        return f"{binding[0].operator.name} {binding[0].sub_query}"
    names = ", ".join(figures.operator.name for figures in binding)
    return f"{hosts_text(binding[0].operator)}, shared by {names}" if binding else ""


@dataclass(frozen=True, slots=True)
class SharedUnits:
    """Operators that run on the same units, and what each of these units has to do for all of them together."""

    operators: tuple[PlanOperator, ...]
    ingestion_share: float | None = None
    comparison_share: float | None = None

    def __str__(self) -> str:
        names = ", ".join(operator.name for operator in self.operators)
        text = f"{hosts_text(self.operators[0])} shared by {names}"
        if self.ingestion_share is None or self.comparison_share is None:
            return text
        return (
            f"{text}: together {percent(self.ingestion_share)} ingestion, {percent(self.comparison_share)} comparison"
        )


def shared_units(plan: QueryPlan, priced: PricedPlan | None = None) -> tuple[SharedUnits, ...]:
    """The groups of operators that share units, as the cost model adds them up."""
    groups: dict[tuple[int, ...], list[PlanOperator]] = {}
    for operator in plan.operators:
        if operator.hosts and operator.inputs:
            groups.setdefault(operator.hosts, []).append(operator)
    together = [tuple(group) for group in groups.values() if len(group) > 1]
    if priced is None:
        return tuple(SharedUnits(group) for group in together)
    by_name = {figures.operator.name: figures for figures in priced.operators}
    return tuple(
        SharedUnits(
            group,
            sum(by_name[operator.name].ingestion_share for operator in group),
            sum(by_name[operator.name].comparison_share for operator in group),
        )
        for group in together
    )


def slices_text(plan: QueryPlan) -> str:
    """What slices mean for the reader; empty if there is but one."""
    if plan.slices == 1:
        return ""
    turns = f"each gets two of every {plan.slices} windows" if plan.slices > 2 else "each gets every window"
    return f"{plan.slices} slices: copies of the plan take turns on batches of two windows, {turns}"


def hosts_text(operator: PlanOperator) -> str:
    """`unit 0` or `units 0-2, 5`."""
    runs: list[list[int]] = []
    for host in sorted(operator.hosts):
        if runs and host == runs[-1][1] + 1:
            runs[-1][1] = host
        else:
            runs.append([host, host])
    numbers = ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
    return f"unit{'' if len(operator.hosts) == 1 else 's'} {numbers}"


def travel(plan: QueryPlan, operator: PlanOperator) -> str:
    """How the operator's matches leave it: `partitioned` or `broadcast`, or as `result` of the plan."""
    if not plan.successors(operator):
        return "result"
    return "partitioned" if operator.partitioned else "broadcast"


def quantity(value: float) -> str:
    """A rate, load or scaling factor to three digits: 0.667, 1,000, 2.5e9."""
    if value >= MAX_VALUE:
        return "over 1e300"
    if value >= 1e7 or 0 < value < 1e-3:
        return _scientific(value, 2)
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def percent(share: float) -> str:
    """A share of a limit in at most nine letters: `67 %`; small ones do not become 0."""
    if 0 < share < 0.001:
        return "<0.1 %"
    if share < 0.1:
        return f"{100 * share:.1f} %" if share else "0 %"
    if share < 1e3:
        return f"{100 * share:,.0f} %"
    return f"{_scientific(100 * share, 1)} %" if share < MAX_VALUE / 1e3 else ">1e299 %"


def _scientific(value: float, digits: int) -> str:
    mantissa, exponent = f"{value:.{digits}e}".split("e")
    return f"{mantissa.rstrip('0').rstrip('.')}e{int(exponent)}"


def counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


# ------------------------------------------------------------------ the tree


@dataclass(frozen=True, slots=True)
class _Paint:
    color: bool

    def __call__(self, text: str, style: str) -> str:
        return f"{style}{text}{_PLAIN}" if self.color and style and text else text


def _block(part: QueryPlan, priced: PricedPlan | None, paint: _Paint, width: int) -> list[str]:
    """Head and tree of one query."""
    query = printable(" ".join(str(part.query).split()))
    if part.fragment:
        query = query.replace("QUERY", "FRAGMENT", 1)
    lines = []
    working = sum(1 for operator in part.operators if operator.inputs)
    head = f"{counted(working, 'operator')} on {counted(units_of(part), 'unit')}"
    if priced is None:
        lines.append(head)
    else:
        reading = "" if priced.reading is Reading.LINEAR else f" ({priced.reading.value} reading)"
        lines.append(f"{head}; {printable(verdict(priced))}{reading}")
        at = "" if priced.at == 1 else f", at scaling factor {quantity(priced.at)}"
        lines.append(f"rates per window, loads in % of what a unit sustains ({priced.capacity}){at}")
    lines += [slices_text(part)] if part.slices > 1 else []
    lines += [printable(line) for line in rewriting_lines(part, priced, quantity)]
    lines += [printable(str(shared)) for shared in shared_units(part, priced)]
    head_lines = [wrapped for line in lines for wrapped in textwrap.wrap(line, width, subsequent_indent="  ")]
    query_lines = textwrap.wrap(query, width, subsequent_indent="  ")
    return [*(paint(line, _BOLD) for line in query_lines), *head_lines, "", *_table(part, priced, paint, width)]


def _table(part: QueryPlan, priced: PricedPlan | None, paint: _Paint, width: int) -> Iterator[str]:
    rows = list(tree_rows(part))
    figures = {} if priced is None else {one.operator.name: one for one in priced.operators}
    header = ["rule", "units", "matches"] + (["rate", "ingestion", "comparison"] if priced else [])
    cells = [[] if row.again else _cells(part, row.operator, figures.get(row.operator.name)) for row in rows]
    marks = ["" if row.again else _mark(figures.get(row.operator.name)) for row in rows]
    widths = widths_of(header, cells)

    taken = sum(widths) + len(GAP) * len(widths)
    longest = max(len(row.lead) + columns_of(row.label) for row in rows)
    marks_fit = longest + taken + len(GAP) + max(map(len, marks)) <= width  # else they go below their operators
    labels = [wrapped(row.label, max(_NARROWEST, width - taken - len(row.lead))) for row in rows]
    first = max([len("operator"), *(len(row.lead) + columns_of(line) for row, ls in zip(rows, labels) for line in ls)])
    yield paint(GAP.join([padded("operator", first), *aligned(header, widths, words=_WORDS)]).rstrip(), _DIM)
    for row, lines, line, mark in zip(rows, labels, cells, marks, strict=True):
        shown = aligned(line, widths, words=_WORDS) if line else []
        if row.again:
            shown = [paint("see above", _DIM)]
        elif priced is not None:
            one = figures[row.operator.name]
            for at, share in ((4, one.ingestion_share), (5, one.comparison_share)):
                # A load is too high if it is beyond what rounding explains.
                shown[at] = paint(shown[at], _YELLOW if share > 1 + 1e-9 else "")
        label = padded(lines[0], first - len(row.lead))
        styled = paint(label, _RED if mark else "")
        ending = [paint(mark, _RED)] if mark and marks_fit else []
        yield (paint(row.lead, _DIM) + GAP.join([styled, *shown, *ending])).rstrip()
        for more in [*lines[1:], *([mark] if mark and not marks_fit else [])]:
            yield paint(row.below, _DIM) + paint(more, _RED if mark else "")


def _cells(part: QueryPlan, operator: PlanOperator, figures: OperatorFigures | None) -> list[str]:
    """What stands to the right of the operator; events come from outside, so leaves take no units and no load."""
    units = str(operator.units) if operator.inputs else "-"
    cells = [part.rule(operator).value, units, travel(part, operator)]
    if figures is None:
        return cells
    cells.append(quantity(figures.output_rate))
    if not operator.inputs:
        return [*cells, "-", "-"]
    return [*cells, percent(figures.ingestion_share), percent(figures.comparison_share)]


def _mark(figures: OperatorFigures | None) -> str:
    return "" if figures is None or figures.limit is None else f"<- {figures.limit.value} limit"
