"""What was measured by `plan_regret`, stored as JSON between portions and told as a page."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from scripts.benchmarks.regret.regret_cases import all_cases, paper_cases
from scripts.benchmarks.regret.regret_runs import STRATEGIES, CaseResult, Measured

GOALS = {"median": 1.1, "worst": 1.5}
AGAINST_LEFT_DEEP = 1.5
CASES, PAPER_CASES = len(all_cases()), len(paper_cases())


def report(found: Sequence[CaseResult], papers: Sequence[CaseResult], command: str) -> str:
    endless = [one.name for one in (*found, *papers) if not one.ended]
    found, papers = ([one for one in results if one.ended] for results in (found, papers))
    plans = sum(len(one.plans) for one in found)
    lines = [
        "# Plan regret: the chosen plan against the best plan found",
        "",
        f"Command: `{command}`. {len(found)} queries, {plans:,} different plans; each query was run with the plan of "
        "every strategy and with random valid plans, in one process, loops compiled before, each cut off at four times "
        "the best so far. Time is processor time of a run; regret is the time of the choice over that of the "
        "best plan found, by anybody. Plans within 1.3 times the best, and the choice of `decopa`, ran up to five more "
        "times in turn; the least time of each counts.",
        "",
        "| strategy | queries | median regret | worst | did not end | longest planning |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for strategy in STRATEGIES:
        planned = [one for one in found if strategy in one.chosen]
        regrets = [regret for one in planned if (regret := one.regret(strategy)) is not None]
        slowest = max((one.planning_s.get(strategy, 0.0) for one in planned), default=0.0)
        if regrets:
            cells = [strategy, str(len(planned)), f"{statistics.median(regrets):.2f}", f"{max(regrets):.2f}"]
            lines.append("| " + " | ".join([*cells, str(len(planned) - len(regrets)), f"{slowest:.2f} s"]) + " |")
    own = [one.regret("decopa") or float("inf") for one in found]
    if own:
        for what, value in (("median", statistics.median(own)), ("worst", max(own))):
            verdict = _verdict(value <= GOALS[what], len(found), CASES)
            lines.append(f"\nGoal for `decopa`, {what} at most {GOALS[what]}: {value:.2f}, {verdict}.")
    lines += [
        "",
        "| query | plans | matches | best, s | " + " | ".join(STRATEGIES) + " | comparisons: decopa / least |",
        "| --- | ---: | ---: | ---: |" + " ---: |" * (len(STRATEGIES) + 1),
    ]
    for one in found:
        cells = [one.name, str(len(one.plans)), f"{one.matches:,}", f"{one.best.seconds:.3f}"]
        cells += ["-" if (regret := one.regret(name)) is None else f"{regret:.2f}" for name in STRATEGIES]
        chosen = one.of("decopa")
        cells.append("-" if chosen is None else f"{chosen.comparisons / max(1, one.least_comparisons):.2f}")
        lines.append("| " + " | ".join(cells) + " |")
    lines += ["", "A dash: no plan (`exhaustive` has a largest query), or cut off.", ""]
    lines += [f"No plan ended within the bound: {', '.join(endless)}.", ""] if endless else []
    return "\n".join([*lines, *(_against_left_deep(papers) if papers else [])])


def one_line(result: CaseResult) -> str:
    if not result.ended:
        return f"{result.name}: no plan ended"
    own = result.regret("decopa")
    return f"{result.name}: decopa {'cut off' if own is None else f'{own:.2f}'}, best {result.best.seconds:.3f} s"


def _against_left_deep(found: Sequence[CaseResult]) -> list[str]:
    """The paper's six queries: the choice against the plan that looks at nothing."""
    lines = [
        "## The paper's six queries against `left-deep`",
        "",
        "Table 3 of the paper on the recovered traces: several windows, distances of 3 to 6 km, with and without a "
        "condition between the members of a KL. Two types are not in the Citi Bike trace: in Q1 E stands for C, in Q2 "
        "B for F. Both plans ran in turn, five times if short.",
        "",
        "| query | matches | decopa, s | left-deep, s | decopa / left-deep | comparisons, decopa | left-deep |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    worst = 0.0
    for one in found:
        own, other = one.of("decopa"), one.of("left-deep")
        assert own is not None and other is not None
        ratio = own.seconds / other.seconds if own.ended else float("inf")
        worst = max(worst, ratio)
        cut = "" if other.ended else "> "
        cells = [one.name.removeprefix("paper "), f"{one.matches:,}", f"{own.seconds:.3f}", f"{cut}{other.seconds:.3f}"]
        cells += [f"{'< ' if cut else ''}{ratio:.2f}", f"{own.comparisons:,}"]
        lines.append("| " + " | ".join([*cells, f"{other.comparisons:,}" if other.ended else "cut off"]) + " |")
    verdict = _verdict(worst <= AGAINST_LEFT_DEEP, len(found), PAPER_CASES)
    return [*lines, "", f"Goal, at most {AGAINST_LEFT_DEEP} times `left-deep`: {worst:.2f} at worst, {verdict}.", ""]


def _verdict(held: bool, measured: int, wanted: int) -> str:
    """Whether a goal is reached; of a part of the queries nothing more is said than that."""
    part = "" if measured >= wanted else f" on the {measured} of {wanted} queries measured so far"
    return ("reached" if held else "MISSED") + part


def load_results(path: Path) -> dict[str, CaseResult]:
    if not path.exists():
        return {}
    documents = json.loads(path.read_text(encoding="utf-8"))
    return {
        one["name"]: CaseResult(
            one["name"],
            one["measuring_s"],
            {values["shape"]: Measured(**values) for values in one["plans"]},
            one["chosen"],
            one["planning_s"],
        )
        for one in documents
    }


def save_results(path: Path, found: dict[str, CaseResult]) -> None:
    documents = [{**asdict(one), "plans": [asdict(plan) for plan in one.plans.values()]} for one in found.values()]
    path.write_text(json.dumps(documents, indent=1) + "\n", encoding="utf-8")
