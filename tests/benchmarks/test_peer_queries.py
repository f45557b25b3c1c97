"""What the peers are told is the same question: SQL and FlinkCEP's settings against the brute force."""

from __future__ import annotations

from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import decopa
from scripts.benchmarks.peers import duckdb_worker, flink_job, sql
from scripts.benchmarks.peers.cases import EQUAL_KEYS, THREE_INEQUALITIES, catalogue
from scripts.benchmarks.peers.contenders import BY_NAME
from scripts.benchmarks.peers.decopa_worker import rare_first
from scripts.benchmarks.peers.job import Job
from scripts.benchmarks.peers.main import main
from scripts.benchmarks.peers.query import SequenceQuery
from tests.support.brute_force import brute_force

THREE = SequenceQuery((("a", "A"), ("b", "B"), ("c", "C")), THREE_INEQUALITIES, 30)
KEYED = SequenceQuery((("a", "A"), ("b", "B"), ("c", "C"), ("d", "D")), EQUAL_KEYS, 61, key="k", buckets_per_window=2)
CHAIN = SequenceQuery((("a", "B"), ("b", "A"), ("c", "B")), (("a", "k", "=", "b", "k"), ("b", "x", ">=", "c", "y")), 25)
QUERIES = {"three": THREE, "keyed": KEYED, "chain": CHAIN}
Rows = list[tuple[int, ...]]


def small_trace(seed: int) -> pa.Table:
    """Every third event or so shares its time with another, and pairs exactly one window apart are common."""
    rng, size = np.random.default_rng(seed), 90
    return pa.table(
        {
            "id": np.arange(size),
            "ts": np.cumsum(rng.integers(0, 6, size)),
            "type": rng.choice(list("ABCDE"), size, p=[0.3, 0.25, 0.2, 0.2, 0.05]),
            "x": rng.random(size),
            "y": rng.random(size),
            "k": rng.integers(0, 2, size),
        }
    )


def expected(query: SequenceQuery, trace: pa.Table) -> Rows:
    matches = brute_force(decopa.parse(query.text), trace.to_pylist())
    return sorted(tuple(match[alias][0] for alias in query.aliases) for match in matches)


def selected(text: str, trace: pa.Table) -> Rows:
    connection = duckdb.connect()
    connection.register("events", trace)
    return sorted(connection.execute(text).fetchall())


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", QUERIES)
def test_both_joins_give_every_match_once(name: str, seed: int) -> None:
    query, trace = QUERIES[name], small_trace(seed)
    matches = expected(query, trace)
    assert matches
    assert selected(sql.plain_join(query), trace) == matches
    assert selected(sql.bucket_join(query, "duckdb"), trace) == matches


@pytest.mark.parametrize("name", QUERIES)
def test_fresh_events_end_only_new_matches(name: str) -> None:
    query, trace = QUERIES[name], small_trace(0)
    new = [match for match in expected(query, trace) if match[-1] >= 45]
    assert new
    assert selected(sql.bucket_join(query, "duckdb", fresh_from=45), trace) == new


@pytest.mark.parametrize("batch_events", [1, 7, 50, 1000])
def test_batches_find_what_the_whole_trace_has(batch_events: int) -> None:
    trace = small_trace(1)
    job = Job("", THREE, "batches", limit_s=60, repeat=1, batch_events=batch_events)
    outcome = duckdb_worker.in_batches(duckdb_worker.connect(), job, trace)
    assert (outcome.events, outcome.matches) == (trace.num_rows, len(expected(THREE, trace)))


@pytest.mark.parametrize("form", ["plain", "bucket", "batches"])
def test_duckdb_answers_a_job_of_every_form(form: str, tmp_path: Path) -> None:
    trace = small_trace(2)
    pq.write_table(trace, tmp_path / "trace.parquet")
    job = Job(str(tmp_path / "trace.parquet"), THREE, form, limit_s=0.5, repeat=2, batch_events=40)
    outcome = duckdb_worker.run(job)
    assert (outcome.events, outcome.matches) == (trace.num_rows, len(expected(THREE, trace)))
    assert outcome.runs >= 2


def test_spark_divides_whole_numbers_by_its_own_word() -> None:
    assert "ts DIV 30 AS bucket" in sql.bucket_join(THREE, "spark")
    assert "//" not in sql.bucket_join(THREE, "spark")


def test_the_text_is_a_query_of_the_language() -> None:
    query = decopa.parse(CHAIN.text)
    assert query.window_us == 25
    assert CHAIN.text == "PATTERN SEQ(B a, A b, B c) WHERE a.k = b.k AND b.x >= c.y WITHIN 25 us"


def test_an_alias_that_comes_later_cannot_stand_first() -> None:
    with pytest.raises(ValueError, match="name the earlier alias first"):
        SequenceQuery((("a", "A"), ("b", "B")), (("b", "x", "<", "a", "x"),), 10)


def test_flink_is_told_places_of_types_and_values() -> None:
    told = flink_job.settings(Job("", CHAIN, "", limit_s=5, repeat=1), Path("trace.csv"))
    assert (told["patterns"], told["positions.0"]) == (1, "a,b,c")
    assert told["types.0"] == "1,0,1"
    assert told["comparisons.0"] == "a:0 = b:0;b:1 >= c:2"
    assert (told["window"], told["key"]) == (25, -1)
    assert flink_job.settings(Job("", KEYED, "", limit_s=5, repeat=1), Path("trace.csv"))["key"] == 0


def test_flinks_trace_has_numbers_only() -> None:
    trace = pa.table(
        {"id": [0, 1, 2], "ts": [3, 4, 4], "type": ["B", "E", "A"], "k": [1, 2, None], "x": [0.5] * 3, "y": [0.1] * 3}
    )
    rows = [tuple(row.values()) for row in flink_job.as_numbers(trace, CHAIN).to_pylist()]
    assert rows[:2] == [(3, 1, 1.0, 0.5, 0.1), (4, -1, 2.0, 0.5, 0.1)]
    assert rows[2][2] != rows[2][2]  # not a number


def test_a_job_survives_the_journey(tmp_path: Path) -> None:
    job = Job("trace.parquet", KEYED, "batches", limit_s=2.5, repeat=3, batch_events=100)
    job.save(tmp_path / "job.json")
    assert Job.load(tmp_path / "job.json") == job


def test_a_missing_compiler_is_told_with_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert main(["--only", "window-1", "--store", str(tmp_path / "store.json")]) == 2
    assert "openjdk-17-jdk-headless" in capsys.readouterr().err


def test_the_compiler_of_java_home_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = tmp_path / "bin" / "javac"
    compiler.parent.mkdir()
    compiler.touch()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert flink_job.find_compiler() == str(compiler)


def next_query(comparisons: tuple[tuple[str, str, str, str, str], ...], following: str = "next") -> SequenceQuery:
    return SequenceQuery((("a", "A"), ("b", "B"), ("c", "C")), comparisons, 40, following=following)


@pytest.mark.parametrize("comparisons", [(), EQUAL_KEYS[:2]])
def test_the_asof_join_finds_the_next_events(comparisons: tuple[tuple[str, str, str, str, str], ...]) -> None:
    query, trace = next_query(comparisons), small_trace(1)
    trace = trace.set_column(1, "ts", pa.array(np.arange(trace.num_rows) * 3))  # of several at one time it takes one
    matches = expected(query, trace)
    assert matches
    assert selected(sql.asof_join(query), trace) == matches


def test_the_next_one_is_asked_for_in_each_language() -> None:
    query = next_query(EQUAL_KEYS[:1])
    assert query.text == "PATTERN NEXT(A a, B b, C c) WHERE FILTER(a.k = b.k) WITHIN 40 us"
    assert next_query((), "contiguous").text == "PATTERN STRICT(A a, B b, C c) WITHIN 40 us"
    assert SequenceQuery.from_json(query.to_json()) == query
    assert flink_job.settings(Job("t", query, "", 1, 1), Path("t"))["following"] == "next"


def test_contenders_say_why_they_cannot_run_a_query() -> None:
    inequality = next_query((("a", "x", "<", "b", "x"),))
    assert BY_NAME["FlinkCEP"].reason_against(inequality) is None
    assert BY_NAME["DuckDB, ASOF join"].reason_against(next_query(())) is None
    assert "equal keys only" in str(BY_NAME["DuckDB, ASOF join"].reason_against(inequality))
    assert "'next'" in str(BY_NAME["Spark SQL, plain join"].reason_against(inequality))
    assert "'any'" in str(BY_NAME["DuckDB, ASOF join"].reason_against(THREE))


def test_cases_of_next_are_in_the_catalogue() -> None:
    cases = catalogue(Path("nowhere"))
    assert [cases[name].query.following for name in ("next", "next-keyed", "contiguous")] == [
        "next",
        "next",
        "contiguous",
    ]
    trace = cases["next-keyed"].load(300)
    assert rare_first(cases["next-keyed"].query, trace).parts[0].root.sub_query.aliases == {"a", "b", "c"}
