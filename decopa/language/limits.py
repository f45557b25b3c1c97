"""How large a text may be. Whatever is typed, parsing ends soon and in little memory."""

from __future__ import annotations

import itertools
import re

from lark import Token, Tree

from decopa.errors import QueryError

#: Characters of one query, and of all queries of a text.
MAX_TEXT_LENGTH = 262_144
MAX_WORKLOAD_LENGTH = 16 * 2**20
#: Brackets in brackets, as written and as `str` of a query writes them.
MAX_NESTING = 64
MAX_TERMS = 64
#: Queries in one text.
MAX_QUERIES = 1_024


def check_text(text: str, begins: str | None = None) -> None:
    """Bounds length and nesting first, so that no input can exhaust the parser's stack or take it minutes.

    `begins` is the word that every query of the text has once, at its beginning; without it the text is as long as one
    query may be.
    """
    if begins is None or len(text) <= MAX_TEXT_LENGTH:
        _check_length(len(text), MAX_TEXT_LENGTH, "the query text")
    else:
        _check_length(len(text), MAX_WORKLOAD_LENGTH, "the text of the queries")
        starts = [one.start() for one in re.finditer(rf"(?<![.\w'\"]){begins}\b", text, re.IGNORECASE)]
        if len(starts) > 2 * MAX_QUERIES:  # the word may stand in comments; the parser counts exactly
            raise QueryError(f"about {len(starts):,} queries in one text; at most {MAX_QUERIES:,} are allowed")
        for start, end in itertools.pairwise([0, *starts, len(text)]):
            if end - start > MAX_TEXT_LENGTH:
                _check_length(end - start, MAX_TEXT_LENGTH, "a query", *line_and_column(text, start))
    depth, run = 0, 0
    for token in re.finditer(r"--[^\n]*|'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|[()]|\w+|-|[^\s]", text):
        symbol = token.group()
        # NOT NOT ... and - - ... nest without parentheses.
        run = run + 1 if symbol == "-" or symbol.upper() == "NOT" else 0
        if symbol == "(":
            depth += 1
        elif symbol == ")":
            depth -= 1
        if depth > MAX_NESTING or run > MAX_NESTING:
            raise _too_deep(*line_and_column(text, token.start()))


def _check_length(length: int, most: int, what: str, line: int | None = None, column: int = 1) -> None:
    if length > most:
        where = {} if line is None else {"line": line, "column": column}
        raise QueryError(f"{what} has {length:,} characters, more than {most:,}; split it", **where)


def check_tree(root: Tree[Token]) -> None:
    """Bounds the depth of everything that is made of a parsed text.

    Sums nest to the left: `a + b + c` is ((a + b) + c). So the first of n terms lies n - 1 deep.
    """
    waiting: list[tuple[Tree[Token], int]] = [(root, 0)]
    while waiting:
        node, depth = waiting.pop()
        below = [child for child in node.children if isinstance(child, Tree)]
        if depth > MAX_NESTING and not node.meta.empty:
            raise _too_deep(node.meta.line, node.meta.column)
        if node.data == "arithmetic" and len(below) > MAX_TERMS:
            message = f"an expression of {len(below)} terms; at most {MAX_TERMS} are allowed"
            raise QueryError(message, line=node.meta.line, column=node.meta.column)
        for place, child in enumerate(below):
            if node.data == "arithmetic":
                levels = len(below) - max(place, 1)
            else:
                levels = int(node.data not in ("start", "statement", "event", "attribute", "name", "member"))
            waiting.append((child, depth + levels))


def line_and_column(text: str, offset: int) -> tuple[int, int]:
    return text.count("\n", 0, offset) + 1, offset - (text.rfind("\n", 0, offset) + 1) + 1


def _too_deep(line: int, column: int) -> QueryError:
    return QueryError(f"nested more than {MAX_NESTING} deep; simplify the query", line=line, column=column)
