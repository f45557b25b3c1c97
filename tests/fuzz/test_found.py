"""What fuzzing found once, each as the smallest input that shows it."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import decopa
from actors.columnar.jit import interpreted
from cluster.checkpoint.store import CheckpointStore, Manifest
from decopa.errors import CheckpointError, QueryError, TraceError
from decopa.language.limits import MAX_NESTING
from decopa.language.text.parser import parse, parse_workload
from decopa.query.limits import MAX_JOINING_TOGETHER
from decopa.runs.spec import RunSpec
from decopa.runs.spec_file import read_run, to_document
from shuffler.source.json_lines import JsonLines
from shuffler.source.trace import open_trace

ROOT = Path(__file__).resolve().parents[2]


def ask(condition: str) -> str:
    return f"PATTERN SEQ(A a, B b, C c) WHERE {condition} WITHIN 10 min"


# ------------------------------------------------------------------ queries


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (ask("FORALL (i, j) IN (a, b): " * 2_000 + "i.x < j.x"), "nested more than"),
        (ask(("NOT " * 40 + "(") * 40 + "a.x < 1" + ")" * 40), "nested more than"),
        (ask("(" * 30 + "a.x" + (" + 1" * 60 + ")") * 30 + " < 1"), "nested more than"),
        (ask("FORALL (i, j) IN (a, b, c): " * 20 + "i.x < j.x"), "copies of too long a condition"),
        (ask(f"FORALL (i, j) IN (a, b, c): i.s = '{'x' * 200_000}'"), "copies of too long a condition"),
        (ask("a.x < " * 4_100 + "1"), "more than a query may have"),
        (ask("a.x + b.x IN (" + ", ".join(map(str, range(1_000))) + ")"), "comparisons between"),
        (ask(" AND ".join(f"a.x + {n} < b.x" for n in range(200))), f"at most {MAX_JOINING_TOGETHER} may name"),
        (ask(" AND ".join(f"{p}.x + {n} < {q}.x" for n in range(128) for p, q in ("ab", "bc", "ac", "ba", "cb"))),
         "comparisons between events"),
        ("PATTERN A a WITHIN 1 s " * 2_000, "queries in one text"),
        ("PATTERN A a WITHIN " + "9" * 10_000 + " s", "is not a whole number of microseconds"),
        (ask("a.x < 1" + "+ a.longername" * 60 + " AND a.x < 1" * 10 + " AND a.s = '" + "y" * 261_000 + "'"),
         "more than 262144 characters"),
    ],
    ids=["forall-deep", "not-in-brackets", "sums-in-sums", "forall-product", "forall-text", "chain", "in-join", "join",
         "joins", "queries", "digits", "written-out"],
)  # fmt: skip
def test_a_query_that_is_too_much_is_refused_at_once(text: str, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        parse_workload(text)


def test_a_query_at_the_limits_is_fine_and_survives_its_text() -> None:
    names = [f"a{number}" for number in range(32)]
    events = ", ".join(f"A {name}" for name in names)
    text = f"PATTERN SEQ({events}) WHERE FORALL (i, j) IN ({', '.join(names)}): i.x < j.x"
    query = parse(f"{text} AND a0.x {'+ 1 ' * (MAX_NESTING - 2)} < 5 WITHIN 1 h")
    assert len(query.where) == 32 * 31 // 2 + 1
    assert parse(str(query)) == query


def test_a_message_is_one_short_line_that_a_terminal_can_show() -> None:
    with pytest.raises(QueryError) as caught:
        parse(f'PATTERN SEQ(A a) WHERE b."x\n\x1b[2J\udc80{"y" * 100_000}" < 1 WITHIN 1 s')
    message = str(caught.value)
    assert r"x\n\x1b[2J\udc80yyy" in message
    assert len(message) < 3_000
    assert message.isprintable()


# ------------------------------------------------------------------ checkpoints


@pytest.mark.parametrize(
    "change",
    [
        {"states": {"q": {"size": {}, "sha256": "x"}}},
        {"states": {"q": {"size": -1, "sha256": "x"}}},
        {"states": {"q": {"size": 2**70, "sha256": "x"}}},
        {"states": {"q": "x"}},
        {"states": []},
        {"plan": None},
        {"number": True},
        {"parts": 5},
        {"unknown": 1},
    ],
    ids=str,
)
def test_a_manifest_of_other_kinds_is_refused(change: dict[str, object], tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path)
    store.commit(Manifest(7, 1, "{}", 1, 5, 3, {}))
    path = tmp_path / "checkpoint-00000007" / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(CheckpointError, match=r"manifest\.json is damaged"):
        store.read(7)
    assert store.latest() is None


def test_a_process_may_have_any_name(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path)
    stored = store.write_state(1, "\ud800/../x", b"state", 1)
    manifest = Manifest(1, 1, "{}", 1, 5, 3, {"\ud800/../x": stored})
    assert store.read_state(manifest, "\ud800/../x") == b"state"
    assert [path.parent.name for path in tmp_path.rglob("*.state")] == ["checkpoint-00000001"]


@pytest.mark.parametrize(
    "change",
    [
        {"trace": {"columns": {"id": 1}}},
        {"trace": {"columns": []}},
        {"trace": 5},
        {"checkpoints": {"location": "c", "keep": "x"}},
        {"planning": {"units": 10**30}},
        {"limits": {"max_matches": True}},
        {"ray": {"replay": {"speed": 1, "rate": 1}}},
        {"more": 1},
    ],
    ids=str,
)
def test_a_run_of_other_kinds_is_refused(change: dict[str, object], tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path)
    queries = parse_workload("PATTERN SEQ(A a, B b) WITHIN 1 s")
    document = to_document(RunSpec(), queries)
    store.write_run(document | {"spec": change})
    with pytest.raises(CheckpointError, match=r"run\.json"):
        read_run(store)


# ------------------------------------------------------------------ traces


def test_column_names_that_are_not_utf_8_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b"id,ts,ty\xffpe\n1,2,A\n")
    with pytest.raises(TraceError, match="cannot be read as CSV"):
        open_trace(path)
    path = tmp_path / "t.jsonl"
    path.write_bytes(b'{"id": 1, "ts": 2, "type": "A", "\xff": 1}\n')
    with pytest.raises(TraceError, match="cannot be read as JSON lines"):
        open_trace(path)
    descriptor = os.open(path, os.O_RDONLY)
    try:
        with pytest.raises(TraceError, match="send one JSON object per line"):
            JsonLines(descriptor, ts="ts", kinds={})
    finally:
        os.close(descriptor)


def test_a_parquet_file_whose_codes_lead_nowhere_is_refused(tmp_path: Path) -> None:
    """The page with the codes of the dictionary says 0 or 1 for each row; a flipped bit makes it 21, say."""
    path = tmp_path / "t.parquet"
    table = pa.table({"id": range(8), "ts": range(8), "type": list("ABABABAB")})
    pq.write_table(table, path, compression="none", use_dictionary=["type"])
    content, found = path.read_bytes(), 0
    for place in range(0, len(content) - 500, 3):
        path.write_bytes(content[:place] + bytes([content[place] ^ 0x10]) + content[place + 1 :])
        try:
            open_trace(path)
        except TraceError:
            found += 1
    assert found > 20


@pytest.mark.parametrize("kind", [pa.date32(), pa.date64(), pa.timestamp("s"), pa.timestamp("s", "UTC")], ids=str)
def test_a_time_outside_the_calendar_is_shown_as_its_number(kind: pa.DataType) -> None:
    raw = pa.array([2**31 - 1], pa.int32()) if kind == pa.date32() else pa.array([2**62], pa.int64())
    table = pa.table({"id": [1], "ts": raw.view(kind), "type": ["A"]})
    with pytest.raises(TraceError, match=f"row 1: {raw[0]} "):
        open_trace(table)


@pytest.mark.parametrize("name", ["histogram", "two_types"])
def test_a_parquet_file_that_makes_arrow_abort_is_refused(name: str) -> None:
    """In a process of its own, since nothing but its end would tell of an abort."""
    path = Path(__file__).parent / "files" / f"{name}.parquet"
    code = f"from shuffler.source.trace import open_trace; open_trace({str(path)!r})"
    ended = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert "TraceError" in ended.stderr
    assert "cannot be read as Parquet" in ended.stderr


# ------------------------------------------------------------------ kernels


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("missing", [False, True])
def test_whole_numbers_divided_by_zero_are_missing(missing: bool, compiled: bool) -> None:
    """Found by the simulated schedules, where kernels are interpreted; no comparison holds, not even with itself."""
    divisors = [0, None] if missing else [0, -1]
    events = pa.table({"id": [1, 2, 3], "ts": [1, 2, 3], "type": ["A", "B", "B"], "n": [5, *divisors]})
    for condition in ("a.n / b.n > 7", "a.n / b.n <= 7", "a.n / b.n = a.n / b.n"):
        with contextlib.nullcontext() if compiled else interpreted():
            found = decopa.run(f"PATTERN SEQ(A a, B b) WHERE {condition} WITHIN 1 s", events)
        fits = not missing and ">" not in condition
        assert found.select(["a", "b"]).to_pylist() == ([{"a": 1, "b": 3}] if fits else [])
