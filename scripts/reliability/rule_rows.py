"""What the rules of a run with checkpoints ought to have published, by definition, and what they have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json
import pyarrow.parquet as pq

import decopa
from cluster.change.cut import ending_in
from cluster.change.rules.notes import KeptRules, KeptState
from cluster.change.rules.versions import Version
from cluster.checkpoint.store import CheckpointStore


def kept_rules(checkpoints: Path) -> KeptRules:
    """The rules that the last checkpoint has."""
    manifest = CheckpointStore(checkpoints).latest_manifest()
    assert manifest is not None
    return KeptState.from_extra(manifest.extra, "the last checkpoint").rules


def expected_rows(versions: Sequence[Version], trace: pa.Table) -> Counter[str]:
    """What all versions report of a trace: each alone, and of that what ends in its life."""
    rows: Counter[str] = Counter()
    for version in versions:
        events = trace
        if version.sees == "new" and version.from_us is not None:
            events = trace.filter(pc.greater_equal(trace["ts"], version.from_us))
        found = ending_in(decopa.run(version.query, events), version.from_us, version.until_us)
        rows += rows_of(found.append_column("version", pa.array([version.number] * found.num_rows, pa.int32())))
    return rows


def published_rows(out: Path) -> Counter[str]:
    """Every row that a reader finds now; parts that are withdrawn while he reads are passed over."""
    rows: Counter[str] = Counter()
    for path in sorted(out.glob("part-*")):
        try:
            rows += rows_of(pq.read_table(path) if path.suffix == ".parquet" else pa.json.read_json(path))
        except FileNotFoundError:
            continue
    return rows


def rows_of(table: pa.Table) -> Counter[str]:
    """Rows as text. Which columns a table has depends on the rules that report at the same moment, and single events
    are lists where another rule has KL."""
    rows = ({name: _plain(value) for name, value in row.items() if value is not None} for row in table.to_pylist())
    return Counter(repr(sorted(row.items())) for row in rows)


def _plain(value: Any) -> Any:
    return value[0] if isinstance(value, list) and len(value) == 1 else value
