"""The first line of an explanation: the reason why there is no match, in one sentence."""

from __future__ import annotations

from collections.abc import Sequence

from decopa.query.query import Query
from decopa.runs.why.parts import Branch, Relaxation, Stage


def verdict(query: Query, matches: int | None, branches: Sequence[Branch], tried: Sequence[Relaxation]) -> str:
    """Names what stands in the way. What a change of the query shows counts more than where candidates were lost."""
    if matches is None or matches:
        return _matching(matches, branches)
    reasons = [_without_events(branch) for branch in branches]
    if all(reasons):
        return "no match: " + "; ".join(dict.fromkeys(one for one in reasons if one))
    helping = [one for one in tried if one.helps]
    kinds = ("negation", "next", "order", "condition", "window")
    blamed = {kind: [one for one in helping if one.kind == kind] for kind in kinds}
    reached = _reached(branches)
    if blamed["negation"]:
        return f"no match: {_negation(blamed['negation'])}"
    if blamed["next"]:
        return (
            "no match: the next events do not fit, though later ones do; with SEQ in place of NEXT there would be "
            f"{_count(blamed['next'][0])}"
        )
    if len(blamed["condition"]) == 1:
        return f"no match: {_condition(blamed['condition'][0], branches)}"
    if blamed["order"] and not blamed["condition"]:
        return f"no match: {_order(blamed['order'][0], branches)}"
    if len(blamed["condition"]) > 1 and not blamed["window"]:
        named = ", ".join(_quoted(one) for one in blamed["condition"])
        return (
            f"no match: the conditions {named} are never fulfilled together, though each is on its own; without any "
            f"one of them there are matches; {reached}"
        )
    if blamed["window"]:
        first = blamed["window"][0]
        return f"no match: the window is too short; {first.change} gives {_count(first)}; {reached}"
    if blamed["condition"]:
        return f"no match: {_condition(max(blamed['condition'], key=_many), branches)}"
    return f"no match: {_several(branches, helping)}; {reached}"


def last_stage(branches: Sequence[Branch]) -> Stage | None:
    """The stage of the only branch at which the conditions reject all candidates that lie in the window."""
    if len(branches) != 1 or not branches[0].stages:
        return None
    stage = branches[0].stages[-1]
    return None if stage.survived or stage.candidates == stage.outside_window else stage


def _several(branches: Sequence[Branch], helping: Sequence[Relaxation]) -> str:
    """No single change helps: what rejects the last candidates, and whether a change of all of that would help."""
    stage = last_stage(branches)
    rejecting = [] if stage is None else [one for one in stage.rejections if one.alone]
    if stage is None or not rejecting:
        return "several things stand in the way, no single change gives a match"
    met = stage.candidates - stage.outside_window
    about = "about " if stage.sampled else ""
    all_of_them = next((one for one in rejecting if one.alone == met), None)
    if all_of_them is not None:
        text = f"'{all_of_them.condition}' rejects all {about}{met:,} candidates for {stage.sub_query} in the window"
    else:
        named = ", ".join(f"'{one.condition}'" for one in rejecting)
        text = (
            f"{named} are never fulfilled together, though each is on its own: none of {about}{met:,} candidates for "
            f"{stage.sub_query} in the window passes"
        )
    combined = [one for one in helping if one.kind == "together"]
    change = f"{combined[0].change} there would be {_count(combined[0])}" if combined else ""
    return f"{text}; no single change gives a match{', ' if change else ''}{change}"


def _matching(matches: int | None, branches: Sequence[Branch]) -> str:
    text = "too many matches to count" if matches is None else f"{matches:,} match{'' if matches == 1 else 'es'}"
    for branch in branches:
        for members in branch.members:
            pairs = int(members.condition.rpartition("(")[2].removesuffix(" pairs)").replace(",", ""))
            if pairs and members.in_order == pairs:
                alias, _, condition = members.condition.rpartition(" (")[0].partition(": ")
                text += (
                    f"; every group of '{alias}' has one member: '{condition}' rejects all {pairs:,} pairs of members"
                )
    return text


def _without_events(branch: Branch) -> str | None:
    """A position without any event, or whose own conditions no event passes."""
    for one in branch.positions:
        if not one.events and not one.negated:
            return f"there is no event of type '{one.type}' (position '{one.alias}')"
    for one in branch.positions:
        if not one.passing and one.events and not one.negated:
            worst = max(one.rejections, key=lambda rejection: rejection.alone)
            return (
                f"none of the {one.events:,} events of type '{one.type}' passes '{worst.condition}' (position "
                f"'{one.alias}')"
            )
    return None


def _negation(found: Sequence[Relaxation]) -> str:
    one = max(found, key=_many)
    return f"{one.change.removeprefix('without ')} blocks every candidate; without it there would be {_count(one)}"


def _order(one: Relaxation, branches: Sequence[Branch]) -> str:
    ties = any("equal timestamps" in miss.text for branch in branches for s in branch.stages for miss in s.misses)
    if ties:
        return (
            "the order: candidates have equal timestamps, and SEQ asks for strictly later ones; in any order there "
            f"would be {_count(one)}"
        )
    return f"the order: events come the other way round; in any order there would be {_count(one)}"


def _condition(one: Relaxation, branches: Sequence[Branch]) -> str:
    text = _quoted(one)
    missing = [miss for branch in branches for s in branch.stages for miss in s.misses if f"'{miss.condition}'" == text]
    if missing and all("missing" in miss.text for miss in missing):
        return f"{text} is never fulfilled: {missing[0].text}; without it there would be {_count(one)}"
    return f"{text} is never fulfilled by what the rest lets pass; without it there would be {_count(one)}"


def _reached(branches: Sequence[Branch]) -> str:
    stages = [stage for branch in branches for stage in branch.stages]
    alive: list[Stage] = [stage for stage in stages if stage.survived]
    if alive:
        return f"the last stage that anything reached is {alive[-1].sub_query} with {alive[-1].survived:,}"
    return "nothing got past the first stage"


def _quoted(one: Relaxation) -> str:
    return one.change.partition(", ")[2]


def _many(one: Relaxation) -> float:
    return float("inf") if one.matches is None else one.matches


def _count(one: Relaxation) -> str:
    if one.matches is None:
        return "more matches than could be counted"
    return f"{one.matches:,} match{'' if one.matches == 1 else 'es'}"
