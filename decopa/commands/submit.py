"""`decopa submit`, `jobs`, `logs`, `stop`, `fetch`: runs on a cluster, from a machine that is no part of it."""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from decopa.choices import SUBMITTED
from decopa.commands.arguments.inputs import read_queries
from decopa.commands.arguments.options import Subparsers
from decopa.commands.terminal import tell
from decopa.errors import DecoPaError, OutputError

if TYPE_CHECKING:
    from cluster.launch.jobs import Job, JobServer
    from cluster.launch.shipping import Flags

_INPUTS = ("--plan", "--stats", "--capacity")
_OUTPUTS = ("--out", "--report", "--dead-letters")
_SEEN_BY_NODES = ("--trace", "--checkpoint", "--spill")
_FAILED, _STOPPED, _INTERRUPTED = 1, 143, 130

EXAMPLES = """examples:
  decopa submit --cluster cluster.yaml run query.txt --trace /mnt/shared/trace.parquet --units 8 --out matches.parquet
  decopa submit --cluster cluster.yaml --upload run query.txt --trace trace.parquet --units 8 --out matches.parquet
  decopa jobs --cluster cluster.yaml
  decopa logs --cluster cluster.yaml --follow decopa-1117-093000-1a2b
  decopa fetch --cluster cluster.yaml decopa-1117-093000-1a2b --to results/
"""


def register(commands: Subparsers) -> None:
    """`submit` and what goes with it."""
    submit = commands.add_parser(
        "submit",
        help="run a command on a cluster",
        description="Runs `decopa run` (or resume, stats, calibrate, scale) on a cluster: takes along the query, plan, "
        "statistics and capacity, shows what the job prints, ends with its status and fetches what it wrote. Ctrl-C "
        "leaves the job running.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_cluster(submit)
    submit.add_argument("--upload", action="store_true", help="take along the trace, too, to the head")
    submit.add_argument("--detach", action="store_true", help="print the job's id and do not wait for it")
    submit.add_argument("job", metavar="COMMAND ...", nargs=argparse.REMAINDER, help="what to run there")
    submit.set_defaults(action=_submit)
    jobs = commands.add_parser("jobs", help="list the jobs of a cluster", description="Lists the jobs of a cluster.")
    _add_cluster(jobs)
    jobs.set_defaults(action=_jobs)
    for name, about, action in (
        ("logs", "show what a job printed", _logs),
        ("stop", "end a job", _stop),
        ("fetch", "get what a job wrote", _fetch),
    ):
        parser = commands.add_parser(name, help=about, description=f"{about.capitalize()}.")
        _add_cluster(parser)
        parser.set_defaults(action=action)
        parser.add_argument("id", metavar="ID", help="of the job, see `decopa jobs`")
        if name == "logs":
            parser.add_argument("--follow", action="store_true", help="go on until the job has ended")
        if name == "fetch":
            parser.add_argument(
                "--to", metavar="DIR", type=Path, help="a folder (default: where `submit` was to put it)"
            )
            parser.add_argument("--overwrite", action="store_true", help="replace files that exist")


def _add_cluster(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--cluster",
        metavar="FILE",
        type=Path,
        help="the cluster's file (default: the cluster whose head this machine is)",
    )


@contextlib.contextmanager
def _server(args: argparse.Namespace) -> Iterator[JobServer]:
    from cluster.launch.head import head_machine
    from cluster.launch.jobs import job_server
    from decopa.commands.cluster import checked_file

    head = None if args.cluster is None else head_machine(checked_file(args.cluster))
    with job_server(head) as server:
        yield server


def _submit(args: argparse.Namespace) -> int:
    from cluster.launch.shipping import ship
    from decopa.commands.cli import make_parser

    if not args.job or args.job[0] not in SUBMITTED:
        raise DecoPaError(f"submit what? write one of {', '.join(SUBMITTED)} after it, with its arguments")
    inner = make_parser().parse_args(args.job)
    query = getattr(inner, "query", None)
    if query is not None:
        read_queries(query, getattr(inner, "language", None))  # a query that is wrong is told here, at once
    shipment = ship(args.job, _flags(upload=args.upload), query=query)
    for path in shipment.outputs.values():
        _refuse_existing(path, getattr(inner, "overwrite", True))
    with _server(args) as server:
        name = server.submit(shipment)
        tell("job", name)
        if args.detach:
            print(name)
            return 0
        try:
            job = server.follow(name, lambda text: print(text, end="", flush=True))
        except KeyboardInterrupt:
            print(f"decopa: the job goes on; {_how_to_come_back(args, name)}", file=sys.stderr)
            return _INTERRUPTED
        for path in server.fetch(name, dict(shipment.outputs)):
            tell("fetched", str(path))
        return _status_of(job)


def _flags(*, upload: bool) -> Flags:
    from cluster.launch.shipping import Flags

    if upload:
        return Flags((*_INPUTS, "--trace"), _OUTPUTS, tuple(flag for flag in _SEEN_BY_NODES if flag != "--trace"))
    return Flags(_INPUTS, _OUTPUTS, _SEEN_BY_NODES)


def _refuse_existing(path: Path, overwrite: bool) -> None:
    if path.is_file() and not overwrite:
        raise OutputError(f"'{path}' exists; pass --overwrite or name another file")


def _how_to_come_back(args: argparse.Namespace, name: str) -> str:
    where = "" if args.cluster is None else f"--cluster {args.cluster} "
    return (
        f"`decopa logs {where}--follow {name}` shows it, `decopa fetch {where}{name}` gets its results, "
        f"`decopa stop {where}{name}` ends it"
    )


def _status_of(job: Job) -> int:
    """The status of the job's own program."""
    if job.status == "SUCCEEDED":
        return 0
    if job.status == "STOPPED":
        print(f"decopa: the job {job.id} was stopped", file=sys.stderr)
        return _STOPPED
    if job.exit_status is None:
        print(f"decopa: the job {job.id} failed: {' '.join(job.message.split())[:500]}", file=sys.stderr)
        return _FAILED
    return job.exit_status if 0 < job.exit_status < 256 else _FAILED


def _jobs(args: argparse.Namespace) -> None:
    with _server(args) as server:
        for job in server.jobs():
            ended = time.time() if job.ended_s is None else job.ended_s
            status = f"{job.status.lower()} {job.exit_status}" if job.exit_status else job.status.lower()
            print(f"{job.id}  {status:<12}  {max(0.0, ended - job.started_s):6.0f} s  {job.command}")


def _logs(args: argparse.Namespace) -> int:
    with _server(args) as server:
        if not args.follow:
            print(server.log(args.id), end="")
            return 0
        try:
            return _status_of(server.follow(args.id, lambda text: print(text, end="", flush=True)))
        except KeyboardInterrupt:
            print(f"decopa: the job goes on; {_how_to_come_back(args, args.id)}", file=sys.stderr)
            return _INTERRUPTED


def _stop(args: argparse.Namespace) -> None:
    with _server(args) as server:
        job = server.job(args.id)
        if not job.running:
            raise DecoPaError(f"the job '{args.id}' has ended already ({job.status.lower()})")
        server.stop(args.id)


def _fetch(args: argparse.Namespace) -> None:
    with _server(args) as server:
        job = server.job(args.id)
        wanted = server.outputs(args.id)
        if args.to is not None:
            wanted = {there: args.to / here.name for there, here in wanted.items()}
        for path in wanted.values():
            _refuse_existing(path, args.overwrite)
        found = server.fetch(args.id, wanted)
        for path in found:
            tell("fetched", str(path))
        if not found:
            state = "has written nothing yet" if job.running else "has written nothing"
            raise DecoPaError(f"the job '{args.id}' {state}; see `decopa logs`")
