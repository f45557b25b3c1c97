"""`decopa cluster`: a file for a cluster, its machines examined, the cluster up, looked at, and down."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from decopa.choices import CLUSTER_KINDS
from decopa.commands.arguments.options import Parser, Subparsers
from decopa.commands.arguments.types import duration
from decopa.commands.terminal import progress_line, tell
from decopa.errors import DecoPaError, DeployError

if TYPE_CHECKING:
    from cluster.launch.checks import Facts
    from cluster.launch.cluster_file import ClusterFile
    from cluster.launch.head import Node

_FAILED = 1
#: From this many nodes on, the head has enough to do without units.
_NODES_WITH_OWN_HEAD = 5


def register(commands: Subparsers) -> None:
    cluster = commands.add_parser(
        "cluster",
        help="start and stop clusters",
        description="Makes cluster files, examines machines, starts Ray on them and stops it; see docs/cluster.md.",
    )
    actions = cluster.add_subparsers(required=True, metavar="ACTION", dest="what", parser_class=Parser)

    def action(name: str, help_: str, about: str, example: str) -> argparse.ArgumentParser:
        parser: argparse.ArgumentParser = actions.add_parser(
            name, help=help_, description=about, epilog=f"example: {example}"
        )
        parser.set_defaults(action=_ACTIONS[name])
        return parser

    init = action(
        "init",
        "print a cluster file",
        "Prints a cluster file of this kind, filled in with what is given; what is left to fill in is marked there.",
        "decopa cluster init local --head 10.0.0.1 --workers 10.0.0.2,10.0.0.3 --user me --key ~/.ssh/decopa_ed25519 "
        "--checkpoints /mnt/shared/decopa > cluster.yaml",
    )
    init.add_argument(
        "kind", choices=CLUSTER_KINDS, help="local: machines that you have; aws, gcp; kuberay, rayjob: Kubernetes"
    )
    init.add_argument("--name", metavar="NAME", help="of the cluster")
    init.add_argument("--head", metavar="ADDRESS", help="the machine that leads (local)")
    init.add_argument("--workers", metavar="ADDRESS,...", help="the others (local)")
    init.add_argument("--user", metavar="USER", help="to log in as")
    init.add_argument("--key", metavar="FILE", help="the private key to log in with; made for this cluster only")
    init.add_argument("--checkpoints", metavar="PLACE", help="a folder or bucket that all machines see")
    init.add_argument("--node-python", metavar="PATH", help="a Python on the machines that has decopa already")
    init.add_argument("--ray-options", metavar="TEXT", help="more options of `ray start` on every machine (local)")
    init.add_argument(
        "--set", metavar="NAME=VALUE", action="append", default=[], help="anything else that is marked FILL IN"
    )

    check = action(
        "check",
        "examine a cluster file and its machines",
        "Says what is wrong with a cluster file and with every machine in it; changes nothing. Status 1 if machines "
        "are not ready.",
        "decopa cluster check cluster.yaml",
    )
    up = action(
        "up",
        "start a cluster and wait for its nodes",
        "Examines the machines, makes a token, runs `ray up` and waits until every node is there. Status 1 if one is "
        "missing, which is named.",
        "decopa cluster up cluster.yaml",
    )
    up.add_argument(
        "--limit", metavar="TIME", type=duration, default=600_000_000, help="how long to wait (default: 10 min)"
    )
    up.add_argument("--restart", action="store_true", help="restart a cluster that runs; its jobs end")
    up.add_argument("--no-check", action="store_true", help="do not examine the machines first")
    status = action(
        "status", "show the nodes of a cluster", "Shows the nodes of a running cluster.", "decopa cluster status c.yaml"
    )
    down = action(
        "down",
        "stop a cluster",
        "Stops Ray on every machine and removes what it leaves. Status 1 if something is left, which is named.",
        "decopa cluster down cluster.yaml",
    )
    for parser in (check, up, status, down):
        parser.add_argument("file", metavar="FILE", type=Path, help="a cluster file, see `decopa cluster init`")
        parser.add_argument("--quiet", action="store_true", help="no table, no progress")
    env = action(
        "env",
        "print what Ray needs in its environment on this machine",
        "Prints the variables that Ray must be started with on this machine, as lines of shell: Java's, Ray's and "
        "decopa's. `setup-node` writes them to ~/.decopa-env.",
        "decopa cluster env > ~/.decopa-env",
    )
    env.add_argument("--checkpoints", metavar="PLACE", help="where jobs keep checkpoints unless they say otherwise")
    env.add_argument("--ray-options", metavar="TEXT", help="more options of `ray start` on this machine")
    env.add_argument("--keep", metavar="FILE", type=Path, help="an earlier output, whose places and options stay")


# ------------------------------------------------------------------ init, env


def _init(args: argparse.Namespace) -> None:
    from cluster.launch.templates import SETUP_NODE, blanks, fill, template, with_node_setup

    values = dict(_pair(item) for item in args.set)
    for name in ("name", "head", "workers", "user", "key", "checkpoints"):
        if getattr(args, name) is not None:
            values[name] = getattr(args, name)
    text = template(args.kind)
    known = {blank.name for blank in blanks(text)}
    if "setup_node" in known:
        values.setdefault("setup_node", str(SETUP_NODE))
    if args.kind == "local":
        values.setdefault("head_options", _head_options(args))
        values.setdefault("name", "decopa")
    text = with_node_setup(
        fill(text, values),
        python=f"{sys.version_info[0]}.{sys.version_info[1]}",
        ray=version("ray"),
        node_python=args.node_python,
        ray_options=args.ray_options,
    )
    print(text, end="")
    for blank in blanks(text):
        tell("to fill in", f"line {blank.line}: {blank.name}{': ' + blank.about if blank.about else ''}")


def _pair(item: str) -> tuple[str, str]:
    name, equals, value = item.partition("=")
    if not (name and equals and value):
        raise DecoPaError(f"--set {item}: write NAME=VALUE")
    return name, value


def _head_options(args: argparse.Namespace) -> str:
    nodes = 1 + len((args.workers or "").split(","))
    options = [args.ray_options] if args.ray_options else []
    if nodes >= _NODES_WITH_OWN_HEAD:
        options.append("--num-cpus=0")  # a later option replaces an earlier one
    return shlex.quote(" ".join(options)) if options else "default"


def _env(args: argparse.Namespace) -> None:
    from cluster.java import prepare_java
    from cluster.launch.environment import CHECKPOINTS, RAY_OPTIONS, exports, kept_settings, node_environment

    kept = kept_settings(args.keep.read_text()) if args.keep is not None and args.keep.is_file() else {}
    settings = node_environment(
        prepare_java(),
        Path(sys.executable),
        checkpoints=args.checkpoints or kept.get(CHECKPOINTS),
        ray_options=args.ray_options or kept.get(RAY_OPTIONS),
    )
    print(exports(settings), end="")


# ------------------------------------------------------------------ check, up, status, down


def _check(args: argparse.Namespace) -> int:
    file = checked_file(args.file)
    if file.kind != "local":
        tell("note", f"the file is fine; machines of {file.kind} do not exist before `decopa cluster up`")
        return 0
    progress = progress_line(quiet=args.quiet)
    progress.phase("examining the machines")
    from cluster.launch.checks import check_machines

    try:
        problems, facts = check_machines(file)
    finally:
        progress.clear()
    return _tell_problems(problems, facts, quiet=args.quiet)


def checked_file(path: Path) -> ClusterFile:
    """A cluster file without problems; else an error that names the first and counts the others."""
    from cluster.launch.cluster_file import read_cluster_file
    from cluster.launch.schema import problems

    file = read_cluster_file(path)
    found = problems(file)
    if found:
        more = f" (and {len(found) - 1} more: {'; '.join(found[1:4])})" if found[1:] else ""
        raise DeployError(f"{path}: {found[0]}{more}")
    return file


def _tell_problems(problems: dict[str, list[str]], facts: dict[str, Facts], *, quiet: bool) -> int:
    wrong = [(address, problem) for address, found in problems.items() for problem in found]
    for address, problem in wrong:
        print(f"decopa: {address} {problem}", file=sys.stderr)
    if not quiet and not wrong:
        rows = [
            (
                address,
                known.one("cpus") or "?",
                f"{int(known.one('memory_kb') or 0) / 2**20:.1f} GB",
                known.one("python") or f"{(known.values.get('system_python') or ('none',))[0]} (to be set up)",
                f"{known.clock_offset_s:+.2f} s",
            )
            for address, known in facts.items()
        ]
        _print_table(("machine", "CPUs", "memory", "Python", "clock"), rows)
    return _FAILED if wrong else 0


def _up(args: argparse.Namespace) -> int:
    from cluster.launch.checks import check_machines
    from cluster.launch.launching import launch, launching_alone
    from cluster.launch.token import TOKEN_FILE, ensure_token

    file = checked_file(args.file)
    progress = progress_line(quiet=args.quiet)
    with launching_alone(file.name):
        try:
            if file.kind == "local" and not args.no_check:
                progress.phase("examining the machines")
                problems, facts = check_machines(file)
                progress.clear()
                if any(problems.values()):
                    return _tell_problems(problems, facts, quiet=args.quiet)
                if not args.restart and file.head is not None and facts[file.head].one("raylet") is not None:
                    raise DeployError(
                        f"a Ray runs on {file.head} already; stop it with `decopa cluster down {file.path}`, or add "
                        "--restart, which ends its jobs"
                    )
            ensure_token(TOKEN_FILE.expanduser())
            launched = launch(file, limit_s=args.limit / 1e6, tell=progress.phase)
        finally:
            progress.clear()
        if not launched.complete:
            have = f"{len(launched.nodes)} of {launched.wanted} nodes are there"
            print(f"decopa: {have}; missing: {', '.join(launched.missing) or 'unknown'}", file=sys.stderr)
            for line in launched.log:
                print(f"  {line}", file=sys.stderr)
            print(f"decopa: see `decopa cluster check {file.path}`", file=sys.stderr)
            return _FAILED
        if not args.quiet:
            _print_nodes(file, launched.nodes)
            tell("next", f"decopa submit --cluster {file.path} run QUERY --trace FILE --units N")
    return 0


def _status(args: argparse.Namespace) -> int:
    from cluster.launch.head import dashboard, head_machine, nodes
    from cluster.launch.launching import wanted_nodes

    file = checked_file(args.file)
    with dashboard(head_machine(file)) as base:
        found = nodes(base)
    alive = [node for node in found if node.alive]
    if not args.quiet:
        _print_nodes(file, alive)
    missing = [address for address in file.machines if address not in {node.address for node in alive}]
    if len(alive) < wanted_nodes(file):
        print(f"decopa: {len(alive)} of {wanted_nodes(file)} nodes are there", end="", file=sys.stderr)
        print(f"; missing: {', '.join(missing)}" if missing else "", file=sys.stderr)
        return _FAILED
    return 0


def _down(args: argparse.Namespace) -> int:
    from cluster.launch.launching import launching_alone, take_down

    file = checked_file(args.file)
    progress = progress_line(quiet=args.quiet)
    with launching_alone(file.name):
        try:
            left = take_down(file, progress.phase)
        finally:
            progress.clear()
    for line in left:
        print(f"decopa: {line}", file=sys.stderr)
    return _FAILED if left else 0


def _print_nodes(file: ClusterFile, nodes: Iterable[Node]) -> None:
    from cluster.launch.checks import check_machines

    facts = check_machines(file)[1] if file.kind == "local" else {}
    rows = []
    for node in sorted(nodes, key=lambda one: (not one.head, one.address)):
        known = facts.get(node.address)
        java = Path(known.one("java") or "none").parent.name if known else "?"
        python, ray = (known.one("python"), known.one("ray")) if known else (None, None)
        rows.append(
            (
                node.address,
                "head" if node.head else "worker",
                f"{node.cpus:g}",
                f"{node.memory_bytes / 2**30:.1f} GB",
                f"Python {python or '?'}, Ray {ray or '?'}, Java of {java}",
                "draining" if node.draining else "alive",
            )
        )
    _print_table(("node", "role", "CPUs", "memory", "software", "state"), rows)


def _print_table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    widths = [max(len(row[place]) for row in (titles, *rows)) for place in range(len(titles))]
    for row in (titles, *rows):
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


_ACTIONS: dict[str, Callable[[argparse.Namespace], int | None]] = {
    "init": _init,
    "check": _check,
    "up": _up,
    "status": _status,
    "env": _env,
    "down": _down,
}
