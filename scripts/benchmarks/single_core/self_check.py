"""Brute force on small traces against every peer: the same matches, none twice."""

import itertools
from unittest import mock

from scripts.benchmarks.single_core import bare_loops, ours
from scripts.benchmarks.single_core.duckdb_peer import DuckDBPeer
from scripts.benchmarks.single_core.workload import CLOSENESS, PATTERNS, Family, Workload, make_events, with_window

Event = dict[str, float]

SEEDS = range(6)
# Events, window in mean gaps. Gaps average 3 us, so that every third event or so shares its timestamp with another,
# and pairs exactly one window apart are common.
SIZES: dict[Family, tuple[int, int]] = {
    "seq2": (300, 12),
    "seq3": (120, 25),
    "and3": (120, 40),
    "key4": (90, 40),
    "kleene": (100, 14),
}
MEAN_GAP_US = 3


def self_check(*, skip_ours: bool) -> list[str]:
    """Checks every family on several seeds; returns one line per disagreement."""
    problems = []
    for family in PATTERNS:
        found = 0
        for seed in SEEDS:
            workload = _small_workload(family, seed)
            expected = brute_force(workload)
            found += len(expected)
            answers = {"bare loop": bare_loops.match_rows(bare_loops.run_bare(workload), family)}
            with mock.patch.object(bare_loops, "CHUNK_ROWS", 2):  # stops and resumes all the time
                answers["bare loop in chunks"] = bare_loops.match_rows(bare_loops.run_bare(workload), family)
            with DuckDBPeer(workload) as peer:
                peer.run()
                answers["DuckDB"] = peer.match_rows()
            if not skip_ours:
                answers["ours"] = ours.match_rows(workload)
            problems += [
                f"self-check: {family}, seed {seed}: {name} has {len(rows)} matches, brute force has {len(expected)}; "
                f"first difference {min(set(rows) ^ set(expected), default='a match reported twice')}"
                for name, rows in answers.items()
                if rows != expected
            ]
        print(f"self-check: {family}: {len(SEEDS)} traces, {found} matches compared")
        if found == 0:
            problems.append(f"self-check: {family}: no trace has a match; enlarge its window in SIZES")
    return problems


def brute_force(workload: Workload) -> list[tuple[object, ...]]:
    """Every combination of one event per alias that the family's query accepts, sorted; exponential."""
    rows = workload.events.to_pylist()
    streams = [[row for row in rows if row["type"] == alias.upper()] for alias in workload.aliases]
    if workload.family == "kleene":
        a_events, b_events, c_events = streams
        return sorted(_kleene_matches(a_events, b_events, c_events, workload.window_us))
    return sorted(
        tuple(event["id"] for event in events)
        for events in itertools.product(*streams)
        if _accepts(workload.family, events, workload.window_us)
    )


def _small_workload(family: Family, seed: int) -> Workload:
    size, window_gaps = SIZES[family]
    events = make_events(family, events=size, seed=seed, mean_gap_us=MEAN_GAP_US)
    return with_window(Workload(family, family, "", events, 0), window_gaps * MEAN_GAP_US)


def _in_order(events: tuple[Event, ...]) -> bool:
    return all(before["ts"] < after["ts"] for before, after in itertools.pairwise(events))


def _accepts(family: Family, events: tuple[Event, ...], window_us: int) -> bool:
    times = [event["ts"] for event in events]
    if max(times) - min(times) > window_us:
        return False
    if family == "and3":
        return all(abs(left["x"] - right["x"]) < CLOSENESS for left, right in itertools.combinations(events, 2))
    if not _in_order(events):
        return False
    if family == "key4":
        return len({event["k"] for event in events}) == 1
    rising = all(before["x"] < after["x"] for before, after in itertools.pairwise(events))
    return rising and (family == "seq2" or events[0]["y"] < events[-1]["y"])


def _kleene_matches(
    a_events: list[Event], b_events: list[Event], c_events: list[Event], window_us: int
) -> list[tuple[object, ...]]:
    matches: list[tuple[object, ...]] = []
    for a, c in itertools.product(a_events, c_events):
        if c["ts"] - a["ts"] > window_us:
            continue
        members = [b["id"] for b in b_events if _in_order((a, b, c)) and a["x"] < b["x"] < c["x"]]
        for size in range(1, len(members) + 1):
            matches += [(a["id"], subset, c["id"]) for subset in itertools.combinations(sorted(members), size)]
    return matches
