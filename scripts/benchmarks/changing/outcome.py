"""What came of changes of one kind, and the tables that are printed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from decopa.report.table import markdown_table
from scripts.benchmarks.changing.paced import Record, least_per_second, per_second
from scripts.benchmarks.changing.watching import Memory

#: What belongs to a change: from a while before its cut on.
_BEFORE_S = 0.2
_MIB = 2**20


@dataclass(frozen=True)
class Outcome:
    """What changes of one kind took."""

    kind: str
    pauses_s: Sequence[float]
    #: The longest time without progress of the sinks, beyond what is usual.
    extra_stalls_s: Sequence[float]
    warm_ups_s: Sequence[float]
    seeded: Sequence[int]
    #: Events that were fed in a second from the request until all was done, as a share of those before: on saturated
    #: processors that is not the rate at which they are due. And how far the sinks came in the second in which that was
    #: least, until the wake of the change was over, by what is usual; `least_before` is that of a calm second.
    throughputs: Sequence[float]
    least_shares: Sequence[float]
    least_before: float
    p99_before_s: float
    p99_during_s: float
    same_matches: bool
    pss: Sequence[Memory] = ()
    state: Sequence[Memory] = ()


def outcome_of(kind: str, record: Record) -> Outcome:
    setting, spans, made = record.setting, record.spans, record.made
    if len(made) < setting.times:
        raise SystemExit(f"{kind}: the stream ended after {len(made)} of {setting.times} changes; take a lower --rate")
    watch = record.watermarks
    assert record.paced is not None
    begin_s, end_s = record.paced[0] + setting.after_s, spans[0].asked_s
    usual, usual_us = (per_second(seen, begin_s, end_s) for seen in (record.fed, watch.advanced))
    calm = watch.gaps_s(watch.advanced[0][0] + 1.0, spans[0].asked_s)
    usual_s = float(np.quantile(calm, 0.99))
    stalls, throughputs, least = [], [], []
    for span, one in zip(spans, made, strict=True):
        gaps = watch.gaps_s(span.cut_s - one.pause_s - _BEFORE_S, span.cut_s + setting.after_s)
        stalls.append(max(0.0, float(gaps.max()) - usual_s))
        throughputs.append(per_second(record.fed, span.asked_s, span.done_s) / usual)
        least.append(least_per_second(watch.advanced, span.asked_s, span.done_s + setting.after_s) / usual_us)
    before_s, during_s = record.latencies.p99_s
    memory = record.memory
    return Outcome(
        kind,
        [one.pause_s for one in made],
        stalls,
        [one.warm_up_s for one in made],
        [one.seeded for one in made],
        throughputs,
        least,
        least_per_second(watch.advanced, begin_s, end_s) / usual_us,
        before_s,
        during_s,
        record.same_matches,
        [] if memory is None else [memory.pss.around(one.asked_s, one.cut_s) for one in spans],
        [] if memory is None else [memory.state.around(one.asked_s, one.cut_s) for one in spans],
    )


def table(outcomes: Sequence[Outcome]) -> str:
    """Medians and 95th percentiles, in milliseconds; building in seconds."""
    header = (
        "", "changes", "feed pause p50 / p95", "extra stall p50 / p95", "until level p50", "events replayed p50",
        "throughput mean / least", "least in 1 s before / during", "latency p99 before", "during", "ratio", "matches",
    )  # fmt: skip
    rows = [
        [
            one.kind,
            str(len(one.pauses_s)),
            _milliseconds(one.pauses_s, digits=1),
            _milliseconds(one.extra_stalls_s),
            f"{np.median(one.warm_ups_s):.1f} s",
            f"{np.median(one.seeded):,.0f}",
            f"{100 * np.mean(one.throughputs):.1f} / {100 * min(one.throughputs):.1f} %",
            f"{100 * one.least_before:.0f} / {100 * min(one.least_shares):.0f} %",
            f"{1000 * one.p99_before_s:.1f} ms",
            f"{1000 * one.p99_during_s:.1f} ms",
            f"{one.p99_during_s / one.p99_before_s:.2f}" if one.p99_before_s else "-",
            "the same" if one.same_matches else "NOT the same",
        ]
        for one in outcomes
    ]
    return markdown_table(header, rows)


def memory_table(outcomes: Sequence[Outcome]) -> str:
    """Processes of all actors together, and the state in them: medians of the changes, and the worst of them."""
    header = ("", "memory", "before", "peak", "5 s after the cut", "peak / before", "after / before p50 / most")
    rows = []
    for one in outcomes:
        for name, found in (("PSS", one.pss), ("state", one.state)):
            if found:
                sizes = np.array([(each.before, each.peak, each.after) for each in found])
                ratios = np.array([each.ratios for each in found])
                rows.append(
                    [
                        one.kind,
                        name,
                        *(f"{size / _MIB:,.0f} MiB" for size in np.median(sizes, axis=0)),
                        f"{np.median(ratios[:, 0]):.2f}",
                        f"{np.median(ratios[:, 1]):.2f} / {ratios[:, 1].max():.2f}",
                    ]
                )
    return markdown_table(header, rows, words=(0, 1))


def _milliseconds(seconds: Sequence[float], digits: int = 0) -> str:
    middle, most = (1000 * np.quantile(seconds, share) for share in (0.5, 0.95))
    return f"{middle:.{digits}f} / {most:.{digits}f} ms"
