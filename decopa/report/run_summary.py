"""What a run did, for people: the plan as a tree with predicted and measured loads, then the figures of the whole."""

from __future__ import annotations

import textwrap
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from actors.reports import OperatorReport
from costmodel.logarithms import MAX_VALUE
from decopa.planning.plan import Plan, PlanOperator, QueryPlan
from decopa.planning.predict import Prediction, Total
from decopa.planning.price import PricedPlan, units_of
from decopa.query.names import duration_text
from decopa.report.explain import counted, percent, shared_units, slices_text, verdict
from decopa.report.table import GAP, aligned, widths_of
from decopa.report.tree import TreeRow, columns_of, padded, printable, tree_rows, wrapped
from decopa.runs.result import RunResult

_NARROWEST = 16
_BOLD, _DIM, _RED, _PLAIN = "\x1b[1m", "\x1b[2m", "\x1b[1;31m", "\x1b[0m"
#: Marks the operator whose unit was busiest; what the model takes for the limit is in the line above the tree.
BUSIEST = "<- busiest unit"
#: The share of a run from which on its busiest unit was what limited it.
_ALWAYS_BUSY = 0.9
_FIGURES = ("ingested", "comparisons", "matches")
_KINDS = ("predicted", "measured", "error")


@dataclass(frozen=True)
class PartSummary:
    """One OR-free query of a run; without statistics there are no predictions and no price.

    `busy` is the share of the run that the units of an operator were expected to be busy, by operator; empty if what a
    unit can do is not known. `events_per_s` is the rate of the trace in event time, which c multiplies.
    """

    plan: QueryPlan
    reports: dict[str, OperatorReport]
    predictions: dict[str, Prediction] | None = None
    price: PricedPlan | None = None
    busy: Mapping[str, float] = field(default_factory=dict)
    events_per_s: float | None = None

    @property
    def busiest(self) -> str | None:
        """The operator with the busiest unit, where that was measured and says something."""
        busy = {name: report.busiest for name, report in self.reports.items()}
        most = max(busy.values(), default=0.0)
        busiest = [name for name, share in busy.items() if share == most]
        return busiest[0] if most > 0 and len(busiest) == 1 else None  # several: they share a unit


def reports_of(plan: Plan, reports: Sequence[OperatorReport]) -> list[dict[str, OperatorReport]]:
    """The reports of each part: they come in the plan's order, and parts of one query share its name."""
    waiting = deque(reports)
    found: list[dict[str, OperatorReport]] = []
    for part in plan.parts:
        mine = {}
        for operator in part.operators:
            if waiting and operator.inputs and waiting[0].name == operator.name:
                mine[operator.name] = waiting.popleft()
        found.append(mine)
    return found


def load_tree(part: PartSummary, *, color: bool = False, width: int = 100) -> str:
    """The plan as a tree with what each operator was expected to do and did over the whole run."""
    return "\n".join(_Tree(part, color, width).lines())


class _Tree:
    def __init__(self, part: PartSummary, color: bool, width: int) -> None:
        self._part, self._color, self._width = part, color, width
        self._rows = list(tree_rows(part.plan))
        self._timed = any(report.busiest for report in part.reports.values())
        self._header = ["units", *([""] if part.predictions else []), *(["busy"] if self._timed else []), *_FIGURES]
        self._cells = [[] if row.again else self._cells_of(row.operator) for row in self._rows]

    def lines(self) -> Iterator[str]:
        yield from self._head()
        yield ""
        widths = widths_of(self._header, [line for cells in self._cells for line in cells])
        marked = len(GAP + BUSIEST) if self._part.busiest else 0
        taken = sum(widths) + len(GAP) * len(widths) + marked
        labels = [wrapped(row.label, max(_NARROWEST, self._width - taken - len(row.lead))) for row in self._rows]
        first = max(
            len("operator"),
            *(len(row.lead) + columns_of(line) for row, label in zip(self._rows, labels) for line in label),
        )
        yield self._paint(GAP.join([padded("operator", first), *self._aligned(self._header, widths)]).rstrip(), _DIM)
        for row, label, cells in zip(self._rows, labels, self._cells, strict=True):
            yield from self._block(row, label, cells, first, widths)

    def _head(self) -> Iterator[str]:
        part, plan = self._part, self._part.plan
        kind = "fragment " if plan.fragment else ""
        query = f"{kind}{plan.query.name}: {plan.query.pattern} WITHIN {duration_text(plan.query.window_us)}"
        for line in textwrap.wrap(printable(query), self._width, subsequent_indent="  "):
            yield self._paint(line, _BOLD)
        working = sum(1 for operator in plan.operators if operator.inputs)
        texts = [f"{counted(working, 'operator')} on {counted(units_of(plan), 'unit')}"]
        if part.price is not None:
            texts[0] += f"; predicted: {printable(_sustained(part))}{printable(verdict(part.price))}"
        texts += [slices_text(plan)] if plan.slices > 1 else []
        texts += [printable(str(shared)) for shared in shared_units(plan)]
        if part.predictions and any(_is_rough(one) for one in part.predictions.values()):
            texts.append("~ is a rough prediction, mostly too high: NOT, derived equalities or slices make it fewer")
        for text in texts:
            yield from textwrap.wrap(text, self._width, subsequent_indent="  ")

    def _block(
        self, row: TreeRow, label: list[str], cells: list[list[str]], first: int, widths: list[int]
    ) -> Iterator[str]:
        """An operator: its label beside its figures, each over as many lines as it takes."""
        if row.again:
            label, cells = [f"{label[0]} (see above)", *label[1:]], []
        busiest = row.operator.name == self._part.busiest
        for at in range(max(len(label), len(cells))):
            lead = row.lead if at == 0 else row.below
            text = padded(label[at] if at < len(label) else "", max(0, first - len(lead)))
            line = self._aligned(cells[at], widths) if at < len(cells) else []
            mark = [self._paint(BUSIEST, _RED)] if busiest and at == 0 else []
            styled = self._paint(text, _RED if busiest else "")
            yield (self._paint(lead, _DIM) + GAP.join([styled, *line, *mark])).rstrip()

    def _cells_of(self, operator: PlanOperator) -> list[list[str]]:
        predictions = self._part.predictions
        report = self._part.reports.get(operator.name)
        expected = None if predictions is None else predictions[operator.name]
        if report is None:  # a leaf: events come from outside
            known = [] if expected is None else [_KINDS[0]]
            shown = "" if expected is None else _total_text(expected.emitted)
            return [["-", *known, *(["-"] if self._timed else []), "-" if known else "", "-" if known else "", shown]]
        measured = (report.ingested, report.comparisons, report.emitted)
        if expected is None:
            busy = [percent(report.busiest)] if self._timed else []
            return [[f"{report.units:,}", *busy, *map(count_text, measured)]]
        totals = (expected.ingested, expected.comparisons, expected.emitted)
        lines = [
            list(map(_total_text, totals)),
            list(map(count_text, measured)),
            [_error_text(total, count) for total, count in zip(totals, measured, strict=True)],
        ]
        busy = list(busy_texts(self._part, operator.name, report)) if self._timed else [""] * len(_KINDS)
        return [
            [f"{report.units:,}" if at == 0 else "", kind, *([busy[at]] if self._timed else []), *lines[at]]
            for at, kind in enumerate(_KINDS)
        ]

    def _aligned(self, cells: Sequence[str], widths: Sequence[int]) -> list[str]:
        """The kind of a line is a word, everything else a number."""
        return aligned(cells, widths, words=[at for at, title in enumerate(self._header) if not title])

    def _paint(self, text: str, style: str) -> str:
        return f"{style}{text}{_PLAIN}" if self._color and style and text.strip() else text


def _sustained(part: PartSummary) -> str:
    """`1.5M events/s, `: what c means for this trace."""
    if part.events_per_s is None or part.price is None or part.price.scaling.unlimited:
        return ""
    return f"{count_text(part.events_per_s * part.price.scaling.scaling_factor)} events/s, "


def busy_texts(part: PartSummary, name: str, report: OperatorReport) -> tuple[str, str, str]:
    """The share of the run that the busiest unit of an operator was expected to be busy, was, and the error."""
    expected = part.busy.get(name)
    if expected is None or not report.busiest:
        return "-", percent(report.busiest) if report.busiest else "-", "-"
    return percent(expected), percent(report.busiest), error_text(Total(expected).error(report.busiest))


# ------------------------------------------------------------------ the figures of the whole


@dataclass(frozen=True, slots=True)
class Sustainable:
    """The largest rate (events/s) that a plan is expected to sustain, and the process that limits it."""

    rate: float
    limited_by: str

    def text(self, measured: float, busiest: float) -> str:
        """Against a run that went as fast as it could, if a unit was busy throughout."""
        predicted = f"{self.rate:,.0f} events/s predicted, limited by {self.limited_by}"
        if busiest < _ALWAYS_BUSY:
            return (
                f"{predicted}; not reached, something else was the limit: no unit was busy more than {percent(busiest)}"
            )
        return f"{predicted}; {measured:,.0f} measured ({error_text(Total(self.rate).error(measured))})"


def figures(
    result: RunResult, *, paced: bool = False, emulated: str | None = None, sustainable: Sustainable | None = None
) -> list[tuple[str, str]]:
    """Lines of (what, value) about a run as a whole; `emulated` is the capacity that units pretended to have.

    Unless it was `paced`, a trace is played as fast as possible, and latency is mostly time spent in queues.
    """
    lines = [("events", f"{result.events:,}" + (f" over {span_text(result.span_us)}" if result.span_us else ""))]
    lines.append(("comparisons", f"{result.comparisons:,}"))
    if result.seconds > 0:
        speed = result.span_us / 1e6 / result.seconds
        faster = f", {count_text(speed)} times as fast as it happened" if speed >= 2 else ""
        rate = f" ({result.events / result.seconds:,.0f} events/s{faster})"
        start = f"; {result.start_s:.1f} s to start" if result.start_s >= 0.05 else ""
        lines.append(("time", f"{result.seconds:.2f} s{rate}{', emulated' if emulated else ''}{start}"))
        if sustainable is not None and not paced:
            busiest = max((report.busiest for report in result.operators), default=0.0)
            lines.append(("sustainable", sustainable.text(result.events / result.seconds, busiest)))
    if emulated:
        lines.append(("emulated", f"each unit takes as long as one of {emulated}; times are not this machine's"))
    spilled = max(result.operators, key=lambda report: report.most_spilled_bytes, default=None)
    if spilled is not None and spilled.most_spilled_bytes:
        lines.append(("spilled", f"up to {spilled.most_spilled_bytes / 2**20:,.0f} MiB by a unit of {spilled.name}"))
    for number, switch in enumerate(result.switches, 1):
        lines.append((f"change {number}", str(switch)))
    latency = result.latency
    if latency.count:
        shown = f"p50 {time_text(latency.p50_s)}, p99 {time_text(latency.p99_s)}, max {time_text(latency.max_s)}"
        how = "from the arrival of a match's last event" if paced else "at full speed; see --speed and --rate"
        lines.append(("latency", f"{shown} ({how}{', emulated' if emulated else ''})"))
    return lines


def matches_text(result: RunResult) -> str:
    """`12 (far_apart 5, same_bike 7)`: how many, and of which query if there are several."""
    total = f"{result.match_count:,}"
    names = list(dict.fromkeys(query.name for query in result.plan.queries))
    if len(names) < 2 or result.published is not None or result.counted is not None:
        return total
    found = {one["values"]: one["counts"] for one in result.matches.column("query").value_counts().to_pylist()}
    return f"{total} ({', '.join(f'{printable(name)} {found.get(name, 0):,}' for name in names)})"


# ------------------------------------------------------------------ numbers


def count_text(value: float) -> str:
    """A count in at most seven letters: 16,048, 835k, 1.59M, 2.1e13."""
    if value >= MAX_VALUE:
        return ">1e299"
    if 0 < value < 9.95:
        return f"{value:.1f}".removesuffix(".0")
    if value < 99_999.5:
        return f"{value:,.0f}"
    for size, letter in ((1e3, "k"), (1e6, "M"), (1e9, "G")):
        if value < 999.5 * size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.1e}".replace("e+", "e")


def error_text(error: float | None) -> str:
    """`+13 %`; factors from ten on, `x23`."""
    if error is None:
        return "-"
    if error >= 9:
        return f"x{count_text(error + 1)}"
    return "0 %" if abs(error) < 0.005 else f"{100 * error:+.0f} %"


def time_text(seconds: float) -> str:
    """Three digits: 850 us, 12.1 ms, 1.25 s."""
    for size, unit in ((1e-6, "us"), (1e-3, "ms")):
        if seconds < 999.5 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:,.3g} s" if seconds < 1e3 else f"{seconds:,.0f} s"


def span_text(span_us: int) -> str:
    """Event time in the largest unit of which there are two: 13.9 d, 31 h, 5 min."""
    for unit, size in (("d", 86_400e6), ("h", 3_600e6), ("min", 60e6)):
        if span_us >= 2 * size:
            return f"{span_us / size:.3g} {unit}"
    return time_text(span_us / 1e6)


def _total_text(total: Total) -> str:
    return ("~" if total.rough else "") + count_text(total.value)


def _error_text(total: Total, measured: int) -> str:
    if not measured and total.value < 0.5:
        return "0 %"
    return error_text(total.error(measured))


def _is_rough(prediction: Prediction) -> bool:
    return prediction.ingested.rough or prediction.comparisons.rough or prediction.emitted.rough
