"""The source of a compiled probe: the templates of `probe_loops`, filled in for a pair of sub-queries."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import indent

from actors.columnar.pair_writer import PairWriter
from actors.columnar.probe_loops import BAND, HASHED, SEEK, Form


def probe_source(writer: PairWriter, form: Form, *, hashed: bool) -> str:
    """The module with the function `probe`."""
    ends = writer.p("max_ts").upper() if form is Form.BY_END else ""
    arguments = ["begin", "end", "window", "key"]
    if hashed:
        arguments += ["order", "p_hash", "s_hash", "previous", "head", "cursor"]
    arguments += [f"P{n}" for n in range(len(writer.probe_columns))]
    arguments += [f"S{n}" for n in range(len(writer.store_columns))]
    arguments += [f"G{n}" for n in range(len(writer.probe_heaps))]
    arguments += [f"H{n}" for n in range(len(writer.store_heaps))]
    arguments += ["floats", "integers"]
    arguments += {
        Form.BY_ROW: ["partners"],
        Form.BY_END: ["partners", "rows", "places", "counts"],
        Form.COUNT: [],
        Form.EXISTS: ["found"],
    }[form]
    if form in (Form.BY_ROW, Form.BY_END):
        arguments += [f"O{n}" for n in range(2 if writer.gathered else len(writer.outputs))]
    read = [f"p{n} = P{n}[row]" for n in range(len(writer.probe_columns))]
    load = [*read, f"lower = {_folded('max', writer.lower)}", f"upper = {_folded('min', writer.upper)}"]
    check = [f"ok = {' & '.join(writer.checks) or 'True'}"]
    if writer.group_checks:
        check.append("if ok:")
        check += [indent(block, "    ") for block in writer.group_checks]
    write = [f"O{n}[u] = {value}" for n, (_, value) in enumerate(writer.outputs)]
    if writer.gathered:
        write = ["O0[u] = row", "O1[u] = j"]
    text = (HASHED if hashed else BAND)[form].replace("<arguments>", ", ".join(arguments))
    text = text.replace("<ends>", ends)
    for mark, lines in {
        "<constants>": writer.constants.loading or ["pass"],
        "<read>": read,
        "<load>": load,
        "<seek>": [SEEK],
        "<check>": check,
        "<write>": write,
    }.items():
        text = _filled(text, mark, lines)
    return text


def _filled(text: str, mark: str, lines: Sequence[str]) -> str:
    """The template with a line that consists of `mark` replaced by lines of the same indentation."""
    filled = []
    for line in text.split("\n"):
        if line.strip() == mark:
            filled.append(indent("\n".join(lines), line[: line.index(mark)]))
        else:
            filled.append(line)
    return "\n".join(filled)


def _folded(function: str, terms: Sequence[str]) -> str:
    result = terms[0]
    for term in terms[1:]:
        result = f"{function}({result}, {term})"
    return result
