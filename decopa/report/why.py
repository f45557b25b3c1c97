"""An explanation of why a query has no match, as text for the terminal and as a page."""

from __future__ import annotations

import html
from collections.abc import Iterator

from decopa.report.tree import printable
from decopa.runs.why.parts import Branch, Miss, Stage, Why


def why_text(why: Why) -> str:
    """The verdict first; then where candidates were lost, the nearest misses, and what would give matches."""
    return "\n".join(map(printable, _lines(why)))


def _lines(why: Why) -> Iterator[str]:
    yield f"{why.query}: {why.verdict}"
    yield from (f"note: {notice}" for notice in why.notices)
    for branch in why.branches:
        yield ""
        yield branch.pattern
        yield from _positions(branch)
        for stage in branch.stages:
            yield from _stage(stage)
        for members in branch.members:
            yield f"  members of {members.condition}: {members.in_order:,} rejected"
        for one in branch.blocking:
            yield f"  {one.negation}: {one.blocked:,} of {one.matches:,} blocked"
            for miss in one.examples:
                yield f"    {miss.text}: {_ids(miss)}"
    if why.relaxations:
        yield ""
        yield "what would give matches"
        for change in why.relaxations:
            found = "not counted: too many, or too slow" if change.matches is None else f"{change.matches:,}"
            yield f"  {change.change}: {found}"


def _positions(branch: Branch) -> Iterator[str]:
    for one in branch.positions:
        yield f"  {one.type} {one.alias}: {one.events:,} events, {one.passing:,} pass their own conditions"
        for lost in one.rejections:
            yield f"    {lost.condition}: {lost.alone:,} rejected"


def _stage(stage: Stage) -> Iterator[str]:
    about = "about " if stage.sampled else ""
    yield f"  {stage.sub_query} (adds {stage.adds}): {about}{stage.candidates:,} candidates"
    yield f"    window: {stage.outside_window:,} rejected"
    for lost in stage.rejections:
        yield f"    {lost.condition}: {lost.in_order:,} rejected in turn, {lost.alone:,} alone"
    yield f"    survived: {stage.survived:,}"
    for miss in stage.misses:
        yield f"    nearest miss, {miss.condition}: {miss.text} ({_ids(miss)})"


def _ids(miss: Miss) -> str:
    return ", ".join(f"{alias} = {value}" for alias, value in miss.events.items())


def why_page(whys: tuple[Why, ...]) -> str:
    """A page without scripts or anything from elsewhere."""
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8><title>Why no match</title>",
        "<style>body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}"
        "table{border-collapse:collapse;margin:.5rem 0 1.5rem}td,th{padding:.2rem .7rem;border-bottom:1px solid #ddd;"
        "text-align:right}td:first-child,th:first-child{text-align:left}.verdict{font-size:1.15rem;font-weight:600}"
        "</style>",
    ]
    for why in whys:
        parts.append(f"<h1>{_text(why.query)}</h1><p class=verdict>{_text(why.verdict)}</p>")
        parts += [f"<p>{_text(notice)}</p>" for notice in why.notices]
        for branch in why.branches:
            parts.append(f"<h2>{_text(branch.pattern)}</h2>")
            parts.append(_table(["position", "events", "pass their own conditions"], [
                [f"{one.type} {one.alias}", f"{one.events:,}", f"{one.passing:,}"] for one in branch.positions
            ]))  # fmt: skip
            parts += _condition_tables(branch)
            for stage in branch.stages:
                parts.append(f"<h3>{_text(stage.sub_query)}: {stage.survived:,} of {stage.candidates:,} survived</h3>")
                rows = [["window", f"{stage.outside_window:,}", f"{stage.outside_window:,}"]]
                rows += [[lost.condition, f"{lost.in_order:,}", f"{lost.alone:,}"] for lost in stage.rejections]
                parts.append(_table(["condition", "rejected in turn", "alone"], rows))
                misses = [[miss.condition, miss.text, _ids(miss)] for miss in stage.misses]
                if misses:
                    parts.append(_table(["nearest miss", "by how much", "events"], misses))
            for one in branch.blocking:
                parts.append(f"<h3>{_text(one.negation)} blocks {one.blocked:,} of {one.matches:,}</h3>")
                examples = [[miss.text, _ids(miss)] for miss in one.examples]
                parts += [_table(["example", "events"], examples)] if examples else []
        if why.relaxations:
            rows = [
                [one.change, "not counted" if one.matches is None else f"{one.matches:,}"] for one in why.relaxations
            ]
            parts.append("<h2>What would give matches</h2>" + _table(["change", "matches"], rows))
    return "\n".join(parts) + "\n"


def _condition_tables(branch: Branch) -> Iterator[str]:
    """What the conditions on single positions and between members reject."""
    own = [
        [lost.condition, f"{lost.in_order:,}", f"{lost.alone:,}"] for one in branch.positions for lost in one.rejections
    ]
    if own:
        yield _table(["condition on one event", "rejected in turn", "alone"], own)
    if branch.members:
        rows = [[one.condition, f"{one.in_order:,}"] for one in branch.members]
        yield _table(["between members", "pairs rejected"], rows)


def _table(head: list[str], rows: list[list[str]]) -> str:
    cells = "".join(f"<th>{_text(one)}" for one in head)
    body = "".join("<tr>" + "".join(f"<td>{_text(one)}" for one in row) for row in rows)
    return f"<table><tr>{cells}{body}</table>"


def _text(value: str) -> str:
    return html.escape(value)
