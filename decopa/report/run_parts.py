"""What a run was expected to do and did, part by part: the material of summaries and reports."""

from __future__ import annotations

from collections.abc import Sequence

from decopa.planning.predict import predict
from decopa.planning.price import price_plan
from decopa.query.query import Query
from decopa.report.run_summary import PartSummary, Sustainable, reports_of
from decopa.runs.model_check import predicted_rate, predicted_shares
from decopa.runs.preparation.planning import per_part
from decopa.runs.result import RunResult
from decopa.runs.spec import Planning


def part_summaries(
    queries: Sequence[Query], result: RunResult, planning: Planning, *, busy: bool = False
) -> list[PartSummary]:
    """One for each part of the plan; with `busy` also the share of the run that its units should have been busy."""
    changed = any(one.given_up is None for one in result.switches)  # predictions are about a whole run of one plan
    statistics = per_part(result.plan, queries, () if changed else result.statistics)
    known = [one for one in statistics if one is not None]
    shares: list[dict[str, float]] = [{} for _ in result.plan.parts]
    if busy and len(known) == len(statistics) and result.seconds > 0:
        shares = predicted_shares(result.plan, known, result.span_us, result.seconds, planning.capacity)
    found = []
    reports = reports_of(result.plan, result.operators)
    for part, mine, one, expected in zip(result.plan.parts, reports, statistics, shares, strict=True):
        if one is None:
            found.append(PartSummary(part, mine))
        else:
            price = price_plan(part, one, planning.capacity, reading=planning.reading)
            rate = result.events / (result.span_us / 1e6) if result.span_us > 0 else None
            found.append(PartSummary(part, mine, predict(part, one, result.span_us), price, expected, rate))
    return found


def sustainable_rate(queries: Sequence[Query], result: RunResult, planning: Planning) -> Sustainable | None:
    """The highest event rate that the plan should sustain, if statistics tell."""
    changed = any(one.given_up is None for one in result.switches)  # predictions are about a whole run of one plan
    statistics = per_part(result.plan, queries, () if changed else result.statistics)
    known = [one for one in statistics if one is not None]
    if not known or len(known) < len(statistics):
        return None
    rate, process = predicted_rate(result.plan, known, result.span_us, result.events, planning.capacity)
    return None if process is None else Sustainable(rate, process)
