"""Grammars of the query languages as parsers, made once per machine: making one takes twenty times as long as loading
it, and every process of a run reads queries."""

from __future__ import annotations

import contextlib
import hashlib
import io
import sys
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

from lark import Lark

from decopa.caches import cache_folder
from decopa.errors import OutputError
from decopa.files import replacing


@cache
def parser_of(package: str) -> Lark:
    """The parser of the grammar in a package, with the conditions that all languages share."""
    text = "".join(
        files(where).joinpath(name).read_text()
        for where, name in ((package, "grammar.lark"), ("decopa.language", "conditions.lark"))
    )
    made_with = f"{version('lark')} {sys.version_info[:2]}"
    path = cache_folder("grammars") / hashlib.sha256(f"{made_with}\n{text}".encode()).hexdigest()[:32]
    return _loaded(path) or _made(text, path)


def _loaded(path: Path) -> Lark | None:
    try:
        with path.open("rb") as saved:
            return Lark.load(saved)
    except Exception:  # not there, or damaged in whatever way: it is made again
        return None


def _made(text: str, path: Path) -> Lark:
    parser = Lark(text, parser="lalr", propagate_positions=True, maybe_placeholders=True)
    saved = io.BytesIO()
    parser.save(saved)
    with contextlib.suppress(OutputError), replacing(path) as temporary:  # on a full disk every process makes its own
        temporary.write_bytes(saved.getvalue())
    return parser
