"""How fast events come in from a Kafka-protocol source: read, decoded, checked, merged, cut into blocks for shufflers.

The broker is librdkafka's own, in another process, so that its work is not counted. The figure is events per second of
processor time, of all threads of this process: what one core does. Beside it stands what the clock on the wall says,
with the waiting for the broker. A record of JSON or CSV holds one event, one of Arrow many.
"""

from __future__ import annotations

import argparse
import contextlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from cluster.feeding import BLOCK_ROWS, pack_block
from decopa.traces.synthetic import SyntheticSpec
from scripts.reliability.feeds import PARTITIONS, payloads
from shuffler.source.trace import open_trace

SCHEMA = "id=int,ts=int,type=string,x=float,y=float,k=int,s=string"
ATTRIBUTES = ("x", "y", "k", "s")
#: Rows in a record of Arrow.
ARROW_ROWS = 2_000
#: What must be reached, by the issue that asked for it.
TARGETS = {"json": 200_000, "csv": None, "arrow": 2_000_000}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="scripts/bench_sources", description=__doc__)
    parser.add_argument("--events", type=int, default=160_000, help="JSON and CSV events (default: %(default)s)")
    parser.add_argument("--repeat", type=int, default=5, help="the fastest counts (default: %(default)s)")
    parser.add_argument("--hold", help=argparse.SUPPRESS)
    args = parser.parse_args(arguments)
    if args.hold:
        hold(Path(args.hold), args.events)
        return 0
    with broker(args.events) as servers:
        print(f"{'payload':8} {'events':>10} {'events/s a core':>17} {'by the clock':>13}  target")
        missed = 0
        for form, target in TARGETS.items():
            rate, by_clock, events = max(measured(servers, form) for _ in range(args.repeat))
            missed += target is not None and rate < target
            told = "" if target is None else f"{target:,} {'reached' if rate >= target else 'MISSED'}"
            print(f"{form:8} {events:10,} {rate:17,.0f} {by_clock:13,.0f}  {told}")
    return 1 if missed else 0


def measured(servers: str, form: str) -> tuple[float, float, int]:
    """Events per second of processor time, those by the clock, and how many there were."""
    options = f"until=end&idle=never&format={form}&schema={SCHEMA.replace('=', '%3D')}"
    source = open_trace(f"kafka://{servers}/{form}?{options}")
    events, wall, cpu = 0, time.perf_counter(), time.process_time()
    for block in source.blocks(ATTRIBUTES, BLOCK_ROWS):
        events += pack_block(block, source.format).rows
    cpu_s, wall_s = time.process_time() - cpu, time.perf_counter() - wall
    return events / cpu_s, events / wall_s, events


@contextlib.contextmanager
def broker(events: int) -> Iterator[str]:
    """A broker with a topic for each format, in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        ready = Path(folder) / "ready"
        command = [sys.executable, "-m", "scripts.benchmarks.sources", "--hold", str(ready), "--events", str(events)]
        process = subprocess.Popen(command)
        try:
            while not ready.exists():
                if process.poll() is not None:
                    raise RuntimeError("the broker does not start")
                time.sleep(0.1)
            yield ready.read_text()
        finally:
            process.kill()
            process.wait()


def hold(ready: Path, events: int) -> None:
    """Fills the topics, says where they are, and stays. The broker keeps about 5 MiB of each partition."""
    from confluent_kafka import Producer

    holder = Producer({"bootstrap.servers": "none", "test.mock.num.brokers": 1, "log_level": 0})
    servers = ",".join(f"{one.host}:{one.port}" for one in holder.list_topics(timeout=10).brokers.values())
    producer = Producer({"bootstrap.servers": servers, "log_level": 0, "queue.buffering.max.messages": 10_000_000})
    spec = SyntheticSpec(events=events, rate_per_s=1000, types=4, keys=20, zipf=0.3, seed=1)
    rows = pa.Table.from_batches(list(spec.batches())).combine_chunks().to_batches()[0]
    for number, payload in enumerate(payloads(rows)):
        producer.produce("json", payload, partition=number % PARTITIONS)
    plain = [column.dictionary_decode() if pa.types.is_dictionary(column.type) else column for column in rows.columns]
    lines = zip(*(column.to_pylist() for column in plain), strict=True)
    for number, values in enumerate(lines):
        producer.produce("csv", ",".join(map(str, values)).encode(), partition=number % PARTITIONS)
    batch = pa.RecordBatch.from_arrays(plain, names=rows.schema.names)
    for number, start in enumerate(range(0, batch.num_rows, ARROW_ROWS)):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch.slice(start, ARROW_ROWS))
        producer.produce("arrow", bytes(sink.getvalue()), partition=number % PARTITIONS)
    producer.flush(60)
    ready.with_suffix(".part").write_text(servers)
    ready.with_suffix(".part").rename(ready)
    while True:
        time.sleep(1)


if __name__ == "__main__":
    sys.exit(main())
