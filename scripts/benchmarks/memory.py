"""Memory follows the window, not the stream: resident memory while a long stream runs through a short window.

The stream is generated as it is read, so nothing but the engine's state can grow. Prints the resident memory after
every part of the stream, and writes a plot with --plot FILE.png.
"""

import argparse
import sys
import time
from pathlib import Path

import decopa
from cluster.local import LocalRuntime
from decopa.traces.synthetic import SyntheticSpec
from shuffler.source.trace import open_trace

QUERY = """PATTERN SEQ(A a, B b, AND(C c, D d))
WHERE a.x < b.x AND abs(c.x - d.x) < 0.002 AND b.k = c.k
WITHIN {window} ms"""


def resident_mib() -> float:
    """Resident memory of this process now."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise OSError("no VmRSS in /proc/self/status; this benchmark needs Linux")


def measure(events: int, window_ms: int, parts: int) -> list[tuple[int, float, float, int]]:
    """(events so far, resident MiB, state MiB, matches) after each part of the stream."""
    spec = SyntheticSpec(events=events, rate_per_s=1000.0, types=4, zipf=1.2, seed=1, keys=50)
    plan = decopa.make_plan(QUERY.format(window=window_ms))
    runtime = LocalRuntime(plan, open_trace(spec.batches()))
    rows: list[tuple[int, float, float, int]] = []
    step = max(events // parts, 1)

    def note(done: int, matches: int) -> None:
        if done // step > len(rows) or done == events:
            rows.append((done, resident_mib(), runtime.state_bytes / 2**20, matches))
            bar = "#" * round(rows[-1][1] / 10)
            print(f"{done:>12,} {rows[-1][1]:>10.1f} {rows[-1][2]:>10.2f} {matches:>10,}  {bar}", flush=True)

    print(f"{'events':>12} {'RSS MiB':>10} {'state MiB':>10} {'matches':>10}")
    runtime.run(note)
    return rows


def plot(rows: list[tuple[int, float, float, int]], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axis = pyplot.subplots(figsize=(8, 4))
    axis.plot([row[0] / 1e6 for row in rows], [row[1] for row in rows], marker="o", label="resident memory")
    axis.plot([row[0] / 1e6 for row in rows], [row[2] for row in rows], marker=".", label="state of all units")
    axis.set(xlabel="million events", ylabel="MiB", ylim=(0, None), title="Memory follows the window, not the stream")
    axis.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="bench_memory", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--events", type=int, default=10_000_000, help="length of the stream (default: 10000000)")
    parser.add_argument("--window-ms", type=int, default=100, help="window of the query (default: 100)")
    parser.add_argument("--parts", type=int, default=20, help="how often to look (default: 20)")
    parser.add_argument("--plot", type=Path, metavar="FILE.png", help="draw the curve")
    options = parser.parse_args(arguments)
    began = time.perf_counter()
    rows = measure(options.events, options.window_ms, options.parts)
    seconds = time.perf_counter() - began
    settled = rows[len(rows) // 4 :]
    growth = settled[-1][1] - settled[0][1]
    print(f"\n{options.events / seconds:,.0f} events/s (generating included)")
    print(f"resident memory from a quarter of the stream to its end: {growth:+.1f} MiB")
    if options.plot:
        plot(rows, options.plot)
        print(f"plot: {options.plot}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
