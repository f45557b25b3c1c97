"""`decopa why`: why a query has no match in a trace, or as few as it has."""

from __future__ import annotations

import argparse
from pathlib import Path

from decopa.commands.arguments.inputs import open_stored, read_queries
from decopa.commands.arguments.options import (
    Subparsers,
    add_query_argument,
    add_quiet_argument,
    add_trace_arguments,
    described,
)
from decopa.commands.terminal import progress_line, tell
from decopa.lean import load_lean


def register(commands: Subparsers) -> None:
    parser = described(
        commands.add_parser("why", help="why a query has no match in a trace"),
        "Says why a query finds nothing, or as little as it does: where candidates are lost, by which condition, the "
        "nearest misses, and changes that would give matches. The first line names the reason.",
        "decopa why query.txt --trace trace.parquet --html why.html",
    )
    add_query_argument(parser)
    add_trace_arguments(parser, required=True)
    parser.add_argument("--json", metavar="FILE", type=Path, help="write the explanation as JSON, too")
    parser.add_argument("--html", metavar="FILE", type=Path, help="write the explanation as a page, too")
    parser.add_argument("--overwrite", action="store_true", help="replace files that exist")
    add_quiet_argument(parser)
    parser.set_defaults(action=why_command)


def why_command(args: argparse.Namespace) -> None:
    from decopa.files import check_writable, write_text

    queries = read_queries(args.query, args.language)
    load_lean()
    for path, suffix in ((args.json, ".json"), (args.html, ".html")):
        if path is not None:
            check_writable(path, args.overwrite, suffixes=(suffix,))
    from decopa.report.why import why_page, why_text
    from decopa.runs.why.counting import explain_run
    from decopa.runs.why.parts import to_document

    progress = progress_line(quiet=args.quiet)
    progress.phase("looking for what stands in the way")
    try:
        found = explain_run(queries, open_stored(args))
    finally:
        progress.clear()
    for number, one in enumerate(found):
        print(("\n" if number else "") + why_text(one))
    if args.json is not None:
        write_text(to_document(found), args.json, overwrite=args.overwrite)
    if args.html is not None:
        write_text(why_page(found), args.html, overwrite=args.overwrite)
    for path in (args.json, args.html):
        if path is not None and not args.quiet:
            tell("output", str(path))
