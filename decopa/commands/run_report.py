"""`decopa run --report`: records a run and writes the page about it."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import TYPE_CHECKING

from decopa.commands.inputs import capacity_of

if TYPE_CHECKING:
    from cluster.recorder import Recorder
    from decopa.report.run_summary import PartSummary, Sustainable
    from decopa.runs.execute import RunResult


def recorder_of(args: argparse.Namespace) -> Recorder | None:
    """A recorder if there is to be a report; whether that can be written is checked before anything runs."""
    if args.report is None:
        return None
    from cluster.recorder import Recorder
    from decopa.files import check_writable

    check_writable(args.report, args.overwrite, suffixes=(".html",))
    return Recorder()


def write_report(
    args: argparse.Namespace,
    result: RunResult,
    parts: Iterable[PartSummary],
    recorder: Recorder,
    *,
    strategy: str,
    paced: bool,
    sustainable: Sustainable | None = None,
) -> None:
    from decopa.files import write_text
    from decopa.report.run_page import RunReport, report_page

    named = "the plan given" if args.plan is not None else strategy
    emulated = str(capacity_of(args)) if args.emulate else None
    report = RunReport(result, tuple(parts), tuple(recorder.samples), named, paced, emulated, sustainable)
    write_text(report_page(report), args.report, overwrite=args.overwrite)
