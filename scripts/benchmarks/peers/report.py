"""Results as Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from scripts.benchmarks.peers.contenders import CONTENDERS
from scripts.benchmarks.peers.results import TARGETS, CaseResult, Target

HOW = """\
Every figure of a case is measured in the same run, one contender after the other, each in a process of its own that is
pinned to one and the same core, with all its threads (the row "decopa ray, all cores" is the exception). Each has seen
the query on a shorter trace before the clock starts; of several runs the fastest counts. Matches are made, not just
counted. **Every number of matches is checked against decopa's on the same events; the run fails if one differs.**

- **decopa local**: from the Arrow table, checks and split by type included, to all matches as columns in memory. The
  plan joins rare types first. "Batches of N" hands it N events at a time, as the DuckDB rows of that name.
- **decopa, table, folder, count**: a whole call of `decopa.run`: an Arrow table of the matches in canonical order,
  Parquet files, or `count=True`. Rows of these names for DuckDB and Polars do the same with the time-bucket join: an
  Arrow table or data frame, COPY or `sink_parquet`, and a count.
- **decopa ray**: the same plan, one unit per operator, until all matches are in the sink, in canonical order.
- **FlinkCEP**: `scripts/benchmarks/peers/flink`, `followedByAny`, event time, `within`, parallelism 1, a watermark
  every 100 events (every 1, 10 or 1,000 makes little difference), object reuse, heap state. From the first event to the
  end of the job, without starting Java, reading the trace and deploying. Queries with a key run on a keyed stream.
- **Polars**: lazy, on its streaming engine, one thread. It joins on equality only, so that the rest of the conditions
  filters the joined rows.
- **DuckDB** and **Spark SQL**, plain join: self-join with bounds on the times. Time-bucket join: rewritten by hand, the
  window as an equi-join. The events are loaded before the clock starts. Spark's rows go to its `noop` sink.
- **DuckDB in batches**: the time-bucket join for each batch with the window before it, both as Arrow slices; the
  matches that end in the batch are appended to a table.

Who cannot do the whole trace in {limit} s does its beginning, as far as the column "events" says. That flatters the
plain joins, whose time grows with the square of the trace. "decopa is faster by" compares events per second with decopa
local (for batches: with decopa in batches of that size; for rows named table, folder or count: with decopa's of that
name; for decopa ray: with its table); below 1 decopa is slower."""


def markdown(
    results: Sequence[CaseResult],
    machine: Mapping[str, str],
    *,
    commands: Sequence[str],
    limit_s: float,
    skipped: Mapping[str, str],
    plots: Mapping[str, str],
) -> str:
    """The report; `plots` are files by title, `skipped` the cases that could not run, with the reason."""
    lines = ["# decopa and its peers on one core", "", *_block(commands), ""]
    lines += [f"- {name}: {value}" for name, value in machine.items()]
    lines += ["", HOW.format(limit=f"{limit_s:g}"), "", "## Targets", "", *target_table(results)]
    for title, file in plots.items():
        lines += ["", f"## {title}", "", f"![{title}]({file})"]
    for result in results:
        lines += ["", f"## {result.title}", "", f"`{result.query_text}`", ""]
        lines.append(
            f"{result.trace_events:,} events, {result.trace_matches:,} matches, "
            f"{result.trace_matches / result.trace_events:.3g} an event."
        )
        lines += ["", *case_table(result)]
        lines += [f"\n{name} gave no answer: {reason.splitlines()[0]}" for name, reason in result.failures.items()]
    if skipped:
        lines += ["", "## Not run", "", *(f"- {name}: {reason}" for name, reason in skipped.items())]
    return "\n".join(lines) + "\n"


def target_table(results: Sequence[CaseResult]) -> list[str]:
    """Which targets were reached."""
    by_name = {result.name: result for result in results}
    rows = []
    for target in TARGETS:
        result = by_name.get(target.case)
        ratio = result.ratio(target.contender) if result else None
        shown = "not measured" if ratio is None else ratio_text(ratio)
        rows.append(
            [
                result.title if result else target.case,
                target.contender,
                f"{target.least:,g}x",
                shown,
                verdict(target, ratio),
            ]
        )
    return table(["case", "decopa local against", "at least", "measured", ""], rows)


def verdict(target: Target, ratio: float | None) -> str:
    if ratio is None:
        return "-"
    return "reached" if ratio >= target.least else "MISSED"


def case_table(result: CaseResult) -> list[str]:
    rows = []
    for contender in CONTENDERS:
        outcome = result.outcomes.get(contender.name)
        if outcome is None:
            continue
        ratio = result.ratio(contender.name)
        own = contender.name == contender.baseline
        rows.append(
            [
                contender.name,
                f"{outcome.events:,}",
                f"{outcome.matches:,}",
                f"{outcome.seconds:.3f}",
                str(outcome.runs),
                f"{outcome.events_per_s:,.0f}",
                "" if ratio is None or own else ratio_text(ratio),
            ]
        )
    return table(["", "events", "matches, equal", "s", "runs", "events/s", "decopa is faster by"], rows)


def ratio_text(ratio: float) -> str:
    """Three digits, and a word where decopa loses."""
    shown = f"{ratio:,.0f}x" if ratio >= 100 else f"{ratio:.3g}x"
    return shown if ratio >= 1 else f"{shown} (slower)"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(cells)} |" for cells in [header, ["---"] * len(header), *rows]]


def _block(lines: Sequence[str]) -> list[str]:
    return ["```", *lines, "```"]
