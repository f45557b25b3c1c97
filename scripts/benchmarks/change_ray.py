"""How long a change of plan holds up a paced stream on Ray, in several ways to change; what it takes in memory.

Two plans of one query take turns, with another split or another number of units. In the same table: a stream that
stands still while the new plan is built; a run with checkpoints that is stopped and resumed on other units, as `decopa
resume --units` does; and a dual run, in which the new plan begins with nothing and both work until it has seen all that
later matches need.

Feed pause is how long nothing is fed, beyond pacing. A stall is the longest time without progress of the least
watermark of the sinks, beyond the p99 of before. Throughput is of what was fed in a second before the first change,
"least in 1 s" how far the sinks came in the second in which that was least, in calm and through changes.
Latency is from an event to its match.

With --memory: processes of all actors before a change, at most, and 5 s after the cut. The actors of a plan that is
kept for its return count; the driver does not. A window of 400 s at 5,000 events a second is 200 MiB of state and more.

Examples: scripts/bench_change --ray --changes 20 --rate 2000 --window 5
          scripts/bench_change --ray --memory --ways beside "beside, other units" --changes 5 --rate 5000 --window 400
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from cluster.ray_session import ray_session
from scripts.benchmarks.changing import beside, stop_restore
from scripts.benchmarks.changing.outcome import Outcome, memory_table, outcome_of, table
from scripts.benchmarks.changing.setting import Setting
from scripts.benchmarks.changing.watching import AFTER_CUT_S

STOP_RESTORE = "stop and restore"
WAYS = (*beside.WAYS, STOP_RESTORE)
#: Ways that hold up the stream for long, or run for long: fewer changes show that.
_PEERS = ("stands still", "dual run", STOP_RESTORE)


def measured(way: str, setting: Setting, folder: Path) -> Outcome:
    """What changes take in one of the ways; connected to Ray."""
    setting.write(folder / "trace.parquet")
    record = stop_restore.measured(setting, folder) if way == STOP_RESTORE else beside.measured(setting, way, folder)
    return outcome_of(way, record)


def setting_of(args: argparse.Namespace, way: str) -> Setting:
    times = args.peer_changes if way in _PEERS else args.changes
    setting = Setting(args.rate, args.window, args.units, times, busy=args.emulate, memory=args.memory)
    if args.memory:
        setting = replace(setting, after_s=AFTER_CUT_S + 2)
    return replace(setting, longest_s=setting.longest_s + args.window) if way == "dual run" else setting


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="scripts/bench_change --ray", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--changes", type=int, default=20, help="of our own ways (default: %(default)s)")
    parser.add_argument("--peer-changes", type=int, default=5, help="of the others (default: %(default)s)")
    parser.add_argument("--rate", type=float, default=2_000, help="events per second (default: %(default)s)")
    parser.add_argument("--window", type=float, default=5.0, metavar="S", help="of the query (default: %(default)s)")
    parser.add_argument("--units", type=int, default=2, help="of the smaller plan (default: %(default)s)")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=WAYS, metavar="WAY", help=f"of {', '.join(WAYS)}")
    parser.add_argument(
        "--emulate", type=float, nargs="?", const=0.25, metavar="SHARE",
        help="units pretend to be busy for this share of their time (default: %(const)s)",
    )  # fmt: skip
    parser.add_argument("--memory", action="store_true", help="look at memory, too; that takes some of the processors")
    args = parser.parse_args(arguments)
    outcomes = []
    with ray_session(cpus=4 * args.units + 8, dashboard=False):
        for way in args.ways:
            with TemporaryDirectory() as folder:
                outcomes.append(measured(way, setting_of(args, way), Path(folder)))
            print(table(outcomes[-1:]), file=sys.stderr, flush=True)
    print(table(outcomes))
    if args.memory:
        print(f"\n{memory_table(outcomes)}")
    return 0 if all(one.same_matches for one in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
