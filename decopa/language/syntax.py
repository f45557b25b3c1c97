"""What the parser says about a text that it cannot read: line, column, what was expected and how to write it."""

from __future__ import annotations

import re

from lark.exceptions import UnexpectedCharacters, UnexpectedInput, UnexpectedToken

from decopa.errors import QueryError
from decopa.language.limits import line_and_column
from decopa.query.names import KEYWORDS

#: Terminals of the grammar as a person would say them.
_SPOKEN = {
    "NAME": "a name", "QUOTED": "a name", "NUMBER": "a number", "DURATION": "a duration such as 10 min",
    "STRING": "a string", "LPAR": "'('", "RPAR": "')'", "COMMA": "','", "DOT": "'.'", "COLON": "':'",
    "COMPARISON": "a comparison such as <", "PLUS": "'+'", "MINUS": "'-'", "STAR": "'*'", "SLASH": "'/'", "BAR": "'|'",
    "$END": "the end of the query", "_PARTITION_BY": "PARTITION BY", "LBRACE": "'{'", "RBRACE": "'}'",
    "_SEMICOLON": "';'", "_BACKSLASH": "'\\'", "_AT": "'@'", "_DOLLAR": "'$'", "_NAMED": "AS",
}  # fmt: skip
#: A word of the language only where the name of a strategy follows.
_STRATEGY = re.compile(r"STRATEGY\b\s*(\w*)", re.IGNORECASE)
_ARITHMETIC_TERMINALS = {"PLUS", "MINUS", "STAR", "SLASH"}


def syntax_error(err: UnexpectedInput, text: str, *, start: str = "PATTERN SEQ(A a, B b) WITHIN 10 min") -> QueryError:
    """The error in the words of a person; `start` is a short query that is right."""
    line, column = err.line, err.column
    strategy = _STRATEGY.match(text, err.pos_in_stream or 0)
    if strategy is not None:
        unknown = f"unknown strategy '{strategy[1]}'" if strategy[1] else "STRATEGY without a name"
        return QueryError(f"{unknown}; write any, next, contiguous or contiguous BY k", line=line, column=column)
    wanted: set[str] = set()
    if isinstance(err, UnexpectedCharacters):
        place = err.pos_in_stream or 0
        found, wanted = repr(text[place : place + 1]), set(err.allowed or ())
    elif isinstance(err, UnexpectedToken) and err.token.type != "$END":
        found, wanted = f"'{err.token}'", set(err.accepts or err.expected)
    else:
        found = "the end of the text"
        if isinstance(err, UnexpectedToken):
            wanted = set(err.accepts or err.expected)
        line, column = line_and_column(text, len(text.rstrip()))
    before = text[: err.pos_in_stream or 0].rstrip()
    hint = _word_hint(err, wanted, text) or _place_hint(before, found, wanted) or _hint(wanted, found, text, start)
    return QueryError(f"expected {_spoken(wanted)}, found {found}{hint}", line=line, column=column)


def _spoken(expected: set[str]) -> str:
    if len(expected & _ARITHMETIC_TERMINALS) == 4 and "COMPARISON" in expected:
        return "a comparison such as <, an arithmetic operator, or AND"
    if "NAME" in expected and {"_SEQ", "_KL"} & expected:
        return "an event type or SEQ, NEXT, AND, OR, KL, NSEQ, NOT"
    if "NAME" in expected and "NUMBER" in expected:
        return "an attribute such as a.x, a number or a string"
    words = sorted({_SPOKEN.get(name, name.strip("_").removesuffix("_WORD")) for name in expected})
    return ", ".join(words[:-1]) + (" or " if len(words) > 1 else "") + words[-1] if words else "something else"


def _word_hint(err: UnexpectedInput, wanted: set[str], text: str) -> str:
    """For a word of the language where a name is meant, and for a text in double quotes."""
    before = text[: err.pos_in_stream or 0].rstrip()
    if "DOT" in wanted and before.endswith('"') and '"' in before[:-1]:
        content = before[:-1].rpartition('"')[2]
        return f"; double quotes are for names, a text stands in single quotes: '{content}'"
    here = re.match(r"[A-Za-z_]\w*", text[err.pos_in_stream or 0 :])
    # A word that may follow an event has ended it before it turned out that brackets are open.
    as_alias = {"RPAR", "COMMA"} <= wanted and before[-1:].isidentifier()
    if here is not None and (as_alias or wanted & {"NAME", "QUOTED"}) and here[0].upper() in KEYWORDS:
        return f"; {here[0]} is a word of the language: put it in double quotes to use it as a name"
    return ""


def _place_hint(before: str, found: str, wanted: set[str]) -> str:
    """For what is right in another place, by the words before it."""
    word = found.strip("'").upper()
    if re.search(r"\bFILTER$", before, re.IGNORECASE):
        return "; FILTER is a condition: write it in WHERE, as in WHERE FILTER(b.x = a.x)"
    if word == "UNTIL":
        return "; write it with brackets, as in KL(B b) UNTIL(C c)"
    if word == "," and "_SEMICOLON" in wanted and "BAR" in wanted:
        return "; events that follow each other are joined by ';', as in A a ; B b"
    if before.endswith("+") and word.isidentifier() and "_BACKSLASH" in wanted:
        return "; the alias stands before '+', as in A a+"
    if before.endswith("{"):
        return "; write the least number of members, too, as in {1,3}"
    if re.search(r"\bPREV\s*\(\s*\w+$", before, re.IGNORECASE):
        return "; PREV takes an attribute, as in PREV(b.x)"
    if re.search(r"\bCONTAINS$", before, re.IGNORECASE):
        return "; write a text in single quotes, as in a.s CONTAINS 'x'"
    if re.search(r"(@|\bWITHIN)\s*[\d.]+$", before, re.IGNORECASE) and word.isidentifier():
        return f"; {found} is no unit of time: write us, ms, s, min, h or d"
    return ""


def _hint(expected: set[str], found: str, text: str, start: str) -> str:
    if "STRING" in expected and "NAME" not in expected:
        return "; write constants, as in a.x IN (1, 2)"
    if "DURATION" in expected and "NAME" not in expected:
        return "; write the window as in WITHIN 10 min"
    if "NAME" in expected and {"_SEQ", "_KL"} & expected:
        return "; write type and alias, as in SEQ(A a, B b)"
    if expected & {"_PATTERN", "_SELECT"} and not expected & {"_WITHIN", "_SEMICOLON"}:
        return f"; a query starts as in {start}"
    if "_WITHIN" in expected and "WITHIN" not in text.upper():
        return "; every query ends with its window, as in WITHIN 10 min"
    if found == "'\"'" or found == '"\'"':
        return "; a quote is not closed"
    return ""
