"""The limit: one hand-written compiled loop per query, from the same Arrow table to arrays of matching ids.

Each loop knows its query. It starts from the rarest type, walks the window ranges that one merge over the sorted
timestamps found for every event, and tests the query's predicates (only those: a.x < c.x, which follows from
a.x < b.x < c.x, is not used). The innermost loops store always and advance by the predicate's truth value, which beats
a branch that is hard to predict. Output goes to chunks: a loop that runs out of room stops before the event it cannot
finish and is called again with a new chunk, so no match is copied or counted twice. This was faster than doubling
arrays and than a counting pass before the writing pass.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numba import njit

from scripts.benchmarks.single_core.type_streams import Events, count_before, group_by_key, split_by_type
from scripts.benchmarks.single_core.workload import CLOSENESS, Family, Workload

CHUNK_ROWS = 1 << 20
IDS_PER_SUBSET = 8  # room for Kleene ids per match of a chunk
Step = Callable[[int, np.ndarray], tuple[int, int, int]]
LoopOutput = tuple[list[np.ndarray], list[np.ndarray], int]  # chunks, flat ids, candidates


@dataclass(frozen=True)
class BareResult:
    """Matches in chunks: (alias, match) arrays of ids; for Kleene (a, c, offset) and a flat array of b ids each."""

    chunks: list[np.ndarray]
    flat_ids: list[np.ndarray]
    matches: int
    candidates: int
    split_seconds: float
    loop_seconds: float

    @property
    def seconds(self) -> float:
        return self.split_seconds + self.loop_seconds


def run_bare(workload: Workload) -> BareResult:
    """Runs the workload's loop; splitting by type (and grouping by key) is timed apart from the loop."""
    began = time.perf_counter()
    streams = split_by_type(workload.events, len(workload.aliases))
    if workload.family == "key4":
        groups = 1 + max(int(stream.k.max(initial=-1)) for stream in streams)
        streams = [group_by_key(stream, groups) for stream in streams]
    split_done = time.perf_counter()
    chunks, flat_ids, candidates = LOOPS[workload.family](streams, workload.window_us)
    ended = time.perf_counter()
    matches = sum(chunk.shape[1] for chunk in chunks)
    return BareResult(chunks, flat_ids, matches, candidates, split_done - began, ended - split_done)


def count_matches(workload: Workload) -> int:
    return run_bare(workload).matches


def match_rows(result: BareResult, family: Family) -> list[tuple[object, ...]]:
    """Matches as sorted tuples of ids, a sorted tuple of ids for the Kleene alias; for checks on small inputs."""
    if family != "kleene":
        return sorted(tuple(row) for chunk in result.chunks for row in chunk.T.tolist())
    rows: list[tuple[object, ...]] = []
    for chunk, flat in zip(result.chunks, result.flat_ids, strict=True):
        starts = [*chunk[2].tolist(), len(flat)]
        for row, (a, c) in enumerate(chunk[:2].T.tolist()):
            rows.append((a, tuple(sorted(flat[starts[row] : starts[row + 1]].tolist())), c))
    return sorted(rows)


def collect(step: Step, outer_events: int, width: int) -> tuple[list[np.ndarray], int]:
    """Calls step(start, chunk) -> (next start, rows, candidates) with new chunks until the outer events are done."""
    chunks, candidates, start, capacity = [], 0, 0, CHUNK_ROWS
    while start < outer_events:
        chunk = np.empty((width, capacity), np.int64)
        reached, rows, examined = step(start, chunk)
        if reached == start:  # one event alone needs more room than a chunk has
            capacity *= 2
            continue
        chunks.append(chunk[:, :rows])
        candidates += examined
        start = reached
    return chunks, candidates


def seq2_loop(streams: list[Events], window_us: int) -> LoopOutput:
    a, b = streams
    a_low, a_high = count_before(a, b, -window_us), count_before(a, b, 0)
    chunks, candidates = collect(lambda start, out: _seq2(a, b, a_low, a_high, start, out), len(b.ts), 2)
    return chunks, [], candidates


@njit(cache=True)
def _seq2(a, b, a_low, a_high, start, out):
    a_x, a_id, out_a, out_b = a.x, a.id, out[0], out[1]
    rows = candidates = 0
    for j in range(start, len(b.ts)):
        low, high, x = a_low[j], a_high[j], b.x[j]
        if rows + high - low > out.shape[1]:
            return j, rows, candidates
        first = rows
        for i in range(low, high):
            out_a[rows] = a_id[i]
            rows += a_x[i] < x
        out_b[first:rows] = b.id[j]
        candidates += high - low
    return len(b.ts), rows, candidates


def seq3_loop(streams: list[Events], window_us: int) -> LoopOutput:
    a, b, c = streams
    a_low, a_high = count_before(a, c, -window_us), count_before(a, b, 0)
    b_low, b_high = count_before(b, c, -window_us), count_before(b, c, 0)
    chunks, candidates = collect(
        lambda start, out: _seq3(a, b, c, a_low, a_high, b_low, b_high, start, out), len(c.ts), 3
    )
    return chunks, [], candidates


@njit(cache=True)
def _seq3(a, b, c, a_low, a_high, b_low, b_high, start, out):
    a_x, a_y, a_id, b_x, b_id, out_a, out_b, out_c = a.x, a.y, a.id, b.x, b.id, out[0], out[1], out[2]
    rows = candidates = 0
    for k in range(start, len(c.ts)):
        before, examined = rows, b_high[k] - b_low[k]
        low, x, y, c_id = a_low[k], c.x[k], c.y[k], c.id[k]
        for j in range(b_low[k], b_high[k]):
            middle = b_x[j]
            if middle < x:
                high, first = a_high[j], rows
                examined += high - low
                if rows + high - low > out.shape[1]:
                    return k, before, candidates
                for i in range(low, high):
                    out_a[rows] = a_id[i]
                    rows += (a_x[i] < middle) & (a_y[i] < y)
                for row in range(first, rows):
                    out_b[row] = b_id[j]
                    out_c[row] = c_id
        candidates += examined
    return len(c.ts), rows, candidates


def and3_loop(streams: list[Events], window_us: int) -> LoopOutput:
    a, b, c = streams
    ranges = (
        (count_before(b, c, -window_us), count_before(b, c, window_us + 1)),
        (count_before(a, c, -window_us), count_before(a, c, window_us + 1)),
        (count_before(a, b, -window_us), count_before(a, b, window_us + 1)),
    )
    chunks, candidates = collect(lambda start, out: _and3(a, b, c, ranges, CLOSENESS, start, out), len(c.ts), 3)
    return chunks, [], candidates


@njit(cache=True)
def _and3(a, b, c, ranges, closeness, start, out):
    a_x, a_id, b_x, b_id, out_a, out_b, out_c = a.x, a.id, b.x, b.id, out[0], out[1], out[2]
    (b_low, b_high), (a_low_c, a_high_c), (a_low_b, a_high_b) = ranges
    rows = candidates = 0
    for k in range(start, len(c.ts)):
        before, examined, x, c_id = rows, b_high[k] - b_low[k], c.x[k], c.id[k]
        for j in range(b_low[k], b_high[k]):
            other = b_x[j]
            if abs(other - x) < closeness:
                low, high, first = max(a_low_c[k], a_low_b[j]), min(a_high_c[k], a_high_b[j]), rows
                examined += high - low
                if rows + high - low > out.shape[1]:
                    return k, before, candidates
                for i in range(low, high):
                    out_a[rows] = a_id[i]
                    rows += (abs(a_x[i] - other) < closeness) & (abs(a_x[i] - x) < closeness)
                for row in range(first, rows):
                    out_b[row] = b_id[j]
                    out_c[row] = c_id
        candidates += examined
    return len(c.ts), rows, candidates


def key4_loop(streams: list[Events], window_us: int) -> LoopOutput:
    a, b, c, d = streams
    low = (count_before(a, d, -window_us), count_before(b, d, -window_us), count_before(c, d, -window_us))
    high = (count_before(a, b, 0), count_before(b, c, 0), count_before(c, d, 0))
    chunks, candidates = collect(lambda start, out: _key4(a, b, c, d, low, high, start, out), len(d.ts), 4)
    return chunks, [], candidates


@njit(cache=True)
def _key4(a, b, c, d, low, high, start, out):
    a_id, b_id, c_id, out_a, out_b, out_c, out_d = a.id, b.id, c.id, out[0], out[1], out[2], out[3]
    (a_low, b_low, c_low), (a_high, b_high, c_high) = low, high
    rows = candidates = 0
    for m in range(start, len(d.ts)):
        before, examined, d_id = rows, c_high[m] - c_low[m], d.id[m]
        for k in range(c_low[m], c_high[m]):
            examined += b_high[k] - b_low[m]
            for j in range(b_low[m], b_high[k]):
                examined += a_high[j] - a_low[m]
                if rows + a_high[j] - a_low[m] > out.shape[1]:
                    return m, before, candidates
                for i in range(a_low[m], a_high[j]):
                    out_a[rows] = a_id[i]
                    out_b[rows] = b_id[j]
                    out_c[rows] = c_id[k]
                    out_d[rows] = d_id
                    rows += 1
        candidates += examined
    return len(d.ts), rows, candidates


def kleene_loop(streams: list[Events], window_us: int) -> LoopOutput:
    a, b, c = streams
    a_low, a_high = count_before(a, c, -window_us), count_before(a, c, 0)
    b_low, b_high = count_before(b, a, 1), count_before(b, c, 0)
    flat_ids: list[np.ndarray] = []

    def step(start: int, out: np.ndarray) -> tuple[int, int, int]:
        flat = np.empty(IDS_PER_SUBSET * out.shape[1], np.int64)
        reached, rows, used, examined = _kleene(a, b, c, a_low, a_high, b_low, b_high, start, out, flat)
        if reached > start:
            flat_ids.append(flat[:used])
        return reached, rows, examined

    chunks, candidates = collect(step, len(c.ts), 3)
    return chunks, flat_ids, candidates


@njit(cache=True)
def _kleene(a, b, c, a_low, a_high, b_low, b_high, start, out, flat):
    a_x, a_id, b_x, b_id, out_a, out_c, offsets = a.x, a.id, b.x, b.id, out[0], out[1], out[2]
    chosen = np.empty(64, np.int64)
    rows = used = candidates = 0
    for k in range(start, len(c.ts)):
        rows_before, used_before, examined, x, c_id = rows, used, a_high[k] - a_low[k], c.x[k], c.id[k]
        for i in range(a_low[k], a_high[k]):
            members, lower = 0, a_x[i]
            examined += b_high[k] - b_low[i]
            for j in range(b_low[i], b_high[k]):
                chosen[members & 63] = b_id[j]
                members += (lower < b_x[j]) & (b_x[j] < x)
            if members == 0:
                continue
            if members > 40:
                raise ValueError("more than 2^40 subsets for one pair of events; choose a smaller window")
            subsets = (1 << members) - 1
            if rows + subsets > out.shape[1] or used + (subsets + 1) * members // 2 + members > len(flat):
                return k, rows_before, used_before, candidates
            for mask in range(1, subsets + 1):
                out_a[rows] = a_id[i]
                out_c[rows] = c_id
                offsets[rows] = used
                rows += 1
                for bit in range(members):
                    flat[used] = chosen[bit]
                    used += (mask >> bit) & 1
        candidates += examined
    return len(c.ts), rows, used, candidates


LOOPS: dict[Family, Callable[[list[Events], int], LoopOutput]] = {
    "seq2": seq2_loop,
    "seq3": seq3_loop,
    "and3": and3_loop,
    "key4": key4_loop,
    "kleene": kleene_loop,
}
