"""Which front end reads a text: EQL if it begins with SELECT, the native language otherwise."""

from __future__ import annotations

import re

from decopa.choices import LANGUAGES
from decopa.errors import QueryError, did_you_mean
from decopa.language.eql.parser import parse_eql
from decopa.language.text.parser import parse_workload
from decopa.query.query import Query

_EQL = re.compile(r"(\s|--[^\n]*\n)*SELECT\b", re.IGNORECASE)


def read_queries(text: str, language: str | None = None) -> tuple[Query, ...]:
    """The queries of a text. `language` is "text" or "eql"; by default the first word tells."""
    if language is not None and language not in LANGUAGES:
        raise QueryError(f"unknown language '{language}'{did_you_mean(language, LANGUAGES)}; use text or eql")
    eql = language == "eql" if language is not None else _EQL.match(text) is not None
    return parse_eql(text) if eql else parse_workload(text)
