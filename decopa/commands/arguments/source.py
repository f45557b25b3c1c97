"""The arguments that say where a live stream comes from and how it is read; nothing heavy is imported for --help."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from decopa.choices import PAYLOAD_FORMATS, STARTS
from decopa.commands.arguments.types import duration
from decopa.errors import DecoPaError

if TYPE_CHECKING:
    from shuffler.source.live.address import SourceAddress

#: As a path: standard input, JSON lines, a live stream.
STANDARD_INPUT = Path("-")
#: Arguments that only sources with an address have, by their flag.
_ADDRESSED = ("format", "from", "until", "idle-after", "event-time", "subject", "client-config")


def add_source_arguments(run: argparse.ArgumentParser) -> None:
    group = run.add_argument_group("streams that can be read again (--follow DIR, --trace kafka://... or nats://...)")
    group.add_argument("--follow", metavar="DIR", type=Path, help="read files as they are moved into this folder")
    group.add_argument(
        "--format",
        choices=PAYLOAD_FORMATS,
        help="of payloads; csv needs --schema, arrow is an IPC stream (default: json)",
    )
    _add_position_arguments(group)
    group.add_argument(
        "--idle-after",
        metavar="TIME",
        type=duration,
        help="a partition without events for this long does not hold back the others (default: 10 s)",
    )
    group.add_argument(
        "--event-time",
        choices=("field", "record"),
        help="record: an event's time is that of its record at the broker (default: field, the column --ts)",
    )
    group.add_argument("--subject", metavar="NAME", help="only messages of this subject of a NATS stream")
    group.add_argument(
        "--client-config",
        metavar="FILE",
        type=Path,
        help="settings for the client, name=value lines: user, password, certificates",
    )


def add_resume_source_arguments(resume: argparse.ArgumentParser) -> None:
    _add_position_arguments(resume)


def _add_position_arguments(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--from",
        choices=STARTS,
        help="where to begin (default: earliest). Goes on from a checkpoint all the same; with earliest also where "
        "events after it have been removed by the broker",
    )
    parser.add_argument("--until", choices=("end",), help="end: stop where the stream ends now (default: go on)")


def is_live(args: argparse.Namespace) -> bool:
    """Whether events come from a live stream, with an address or not."""
    return args.trace == STANDARD_INPUT or args.follow is not None or isinstance(args.trace, str)


def source_of(args: argparse.Namespace) -> SourceAddress | None:
    """The source that --trace or --follow names; None for a file or standard input."""
    if args.follow is None and not isinstance(args.trace, str):
        return None
    from shuffler.source.live.address import folder_address, parse_address

    address = parse_address(args.trace) if args.follow is None else folder_address(args.follow)
    address = positioned(address, args)
    changes: dict[str, object] = {}
    if args.format is not None:
        changes["format"] = args.format
    if args.idle_after is not None:
        changes["idle_after_s"] = args.idle_after / 1e6
    if args.event_time is not None:
        changes["record_time"] = args.event_time == "record"
    if args.subject is not None:
        changes["subject"] = args.subject
    if args.schema is not None:
        changes["columns"] = args.schema
    if args.client_config is not None:
        changes["config"] = str(args.client_config.resolve())
    return replace(address, **changes)  # type: ignore[arg-type]  # each has the type of its field


def positioned(address: SourceAddress, args: argparse.Namespace) -> SourceAddress:
    """The address with what --from and --until say."""
    start = getattr(args, "from")
    if start is not None:
        address = replace(address, start=start, skip_gaps=start == "earliest")
    return replace(address, until_end=True) if args.until is not None else address


def check_source(args: argparse.Namespace) -> None:
    """Refuses what does not fit together."""
    if (args.trace is None) == (args.follow is None):
        raise DecoPaError("name the events with --trace FILE, or a folder to follow with --follow DIR")
    if args.follow is None and not isinstance(args.trace, str):
        for flag in _ADDRESSED:
            if getattr(args, flag.replace("-", "_")) is not None:
                raise DecoPaError(
                    f"--{flag} is about streams that can be read again; name one with --trace or --follow"
                )
