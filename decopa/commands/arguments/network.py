"""The arguments that actions of `decopa network` share. Nothing heavy is imported for --help."""

from __future__ import annotations

import argparse
from pathlib import Path

from decopa.choices import NETWORK_OBJECTIVES, NETWORK_STRATEGIES, RATE_MODELS, RUNTIMES
from decopa.commands.arguments.types import count, duration, positive


def add_ray_arguments(parser: argparse.ArgumentParser) -> None:
    """Where and how a plan runs."""
    parser.add_argument(
        "--idle-after",
        metavar="TIME",
        type=duration,
        help="nodes know their own events only: one that is silent holds the others back until they are this far ahead "
        "of it in event time (default: the trace tells how far every node is)",
    )
    parser.add_argument(
        "--runtime",
        choices=RUNTIMES,
        help="local: all nodes in this process; ray: a source and a process per level for each node (default: ray if "
        "an option of Ray is given, else local)",
    )
    ray = parser.add_argument_group("on Ray")
    ray.add_argument(
        "--address",
        metavar="ADDRESS",
        help="a running Ray cluster, or auto for the one on this machine; a node NODE of the network is put where the "
        "cluster has the resource net-NODE (default: a Ray is started for the run)",
    )
    ray.add_argument("--rate", metavar="R", type=positive, help="replay the trace at R events per second")
    ray.add_argument(
        "--emulate",
        action="store_true",
        help="processes take as long as the units of their node would, with --iota and --kappa per second",
    )
    ray.add_argument("--checkpoint", metavar="DIR", help="keep checkpoints here, and go on from them if a process dies")


def add_origin_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--origin", metavar="COL", required=True, help="the column with the node of an event")
    parser.add_argument(
        "--nodes",
        metavar="N",
        type=count,
        help="make N nodes: a number goes to its remainder, a text to its checksum's",
    )


def add_network_planning_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--network", metavar="FILE", type=Path, help="the network, see `decopa network stats`")
    parser.add_argument(
        "--strategy",
        choices=NETWORK_STRATEGIES,
        default=NETWORK_STRATEGIES[0],
        help="how to plan (default: %(default)s); all others are for comparison",
    )
    parser.add_argument(
        "--count", choices=NETWORK_OBJECTIVES, default=NETWORK_OBJECTIVES[0], help="what is to be little: rows or bytes"
    )
    parser.add_argument(
        "--rates", choices=RATE_MODELS, default=RATE_MODELS[0], help="how rates of matches are computed: as the engine "
        "finds them, or by the paper's formulas (default: %(default)s)"
    )  # fmt: skip
    parser.add_argument("--no-reducers", action="store_true", help="send matches only, never events with a partner")


def asks_for_ray(args: argparse.Namespace) -> bool:
    """Whether an option is given that only Ray can follow."""
    return args.emulate or any(value is not None for value in (args.address, args.rate, args.checkpoint))
