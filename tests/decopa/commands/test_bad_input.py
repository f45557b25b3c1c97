"""Bad input on the command line: status 2, one line, nothing written."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from decopa.commands.cli import main
from tests.support.command_line import EVENTS, QUERY, RUN, fails


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("PATTERN SEQ(A a, B b) WHERE a.y < b.x WITHIN 1 s", "unknown attribute 'y'"),
        ("PATTERN SEQ(A a, B b) WHERE c.x < b.x WITHIN 1 s", "unknown alias 'c'"),
        ("PATTERN SEQ(A a, C c, D d) WITHIN 1 s", "line 1, column 18: no event of type 'C', 'D'"),
        ("SELECT * FROM A a ; C c WITHIN 1 sec", "line 1, column 21: no event of type 'C'"),
        ("PATTERN SEQ(A a, B b) STRATEGY nextt WITHIN 1 s", "unknown strategy 'nextt'; write any, next, contiguous"),
        ("PATTERN SEQ(A within, B b) WITHIN 1 s", "put it in double quotes to use it as a name"),
        ("PATTERN SEQ(A a, C c) WITHIN 1 s", "its types are A, B"),
        ("PATTERN SEQ(A a, B b) WHERE a.s < b.x WITHIN 1 s", "compares a string with a number"),
        ("PATTERN SEQ(A a, B a) WITHIN 1 s", "alias 'a' is used twice"),
        ("PATTERN SEQ(A a, B b) WITHIN 0 s", "the window must be positive"),
        ("PATTERN " + "(" * 10_000, "nested more than"),
        ("PATTERN SEQ(A a,", "line 1"),
        ("query.txt", "no query file 'query.txt'"),
    ],
)
def test_a_wrong_query_is_refused(
    trace: Path, out: Path, capsys: pytest.CaptureFixture[str], query: str, message: str
) -> None:
    assert message in fails(capsys, *RUN, query, "--trace", trace, "--out", out / "m.csv")
    assert list(out.iterdir()) == []


def test_an_error_in_a_query_file_names_the_file(trace: Path, out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (out / "q.txt").write_text("PATTERN SEQ(A a, )")
    assert fails(capsys, *RUN, out / "q.txt", "--trace", trace).startswith(f"{out / 'q.txt'}: line 1, column 18: ")
    (out / "q.txt").write_bytes(b"PATTERN \xff")
    assert "is not UTF-8 text" in fails(capsys, *RUN, out / "q.txt", "--trace", trace)


@pytest.mark.parametrize(
    ("middle", "message"),
    [
        ("QUERY q2 PATTERN SEQ(A a, ) WITHIN 1 s", "query q2: line 2, column 27: expected"),
        ("QUERY q2 PATTERN SEQ(A a, B b) WHERE a.y < b.x WITHIN 1 s", "query q2: line 2, column 38: unknown attribute"),
        ("QUERY q2 PATTERN SEQ(A a, C c) WITHIN 1 s", "query q2: line 2, column 27: no event of type 'C'"),
        ("QUERY q1 PATTERN SEQ(B a, A b) WITHIN 1 s", "two queries are called 'q1'"),
    ],
)
def test_a_wrong_query_among_others_is_named_with_file_line_and_query(
    trace: Path, out: Path, capsys: pytest.CaptureFixture[str], middle: str, message: str
) -> None:
    good = "QUERY {} PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 1 s"
    (out / "q.txt").write_text("\n".join([good.format("q1"), middle, good.format("q3")]))
    told = fails(capsys, *RUN, out / "q.txt", "--trace", trace, "--out", out / "m.csv")
    assert told.startswith(f"{out / 'q.txt'}: ") and message in told
    assert not (out / "m.csv").exists()


def test_queries_that_rip_slices_are_told_to_share_nothing(
    trace: Path, out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "QUERY q1 PATTERN SEQ(A a, B b) WITHIN 1 s\nQUERY q2 PATTERN SEQ(A a, B b) WITHIN 2 s"
    (out / "q.txt").write_text(text)
    assert main([*RUN, str(out / "q.txt"), "--trace", str(trace), "--strategy", "rip", "--units", "2"]) == 0
    assert "rip gives each of the 2 queries slices of the stream of its own" in capsys.readouterr().err


def test_a_wrong_trace_is_refused(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "no trace" in fails(capsys, *RUN, QUERY, "--trace", out / "t.parquet", "--out", out / "m.csv")
    (out / "t.parquet").write_bytes(b"PAR1 cut off")
    assert "cannot be read as Parquet" in fails(
        capsys, *RUN, QUERY, "--trace", out / "t.parquet", "--out", out / "m.csv"
    )
    assert list(out.iterdir()) == [out / "t.parquet"]


@pytest.mark.parametrize(
    ("events", "options", "message"),
    [
        (EVENTS.slice(0, 0), [], "has no events"),
        (EVENTS.drop_columns(["ts"]), [], "has no column 'ts'"),
        (EVENTS.set_column(0, "id", pa.array([1, 2, 1, 3])), [], "id 1 was used in row 1 already"),
        (EVENTS.set_column(1, "ts", pa.array([0, 2**63 - 1, 3, 4])), [], "out of range for microseconds"),
        (EVENTS.set_column(3, "x", pa.array([0.1, float("nan"), 0.2, 0.3])), [], "pass nan_as_null (--nan-as-null)"),
        (EVENTS.take([2, 0, 1, 3]), ["--assume-sorted"], "row 2: 0 is earlier than the row before"),
        (EVENTS, ["--id", "nr"], "no column 'nr'"),
        (EVENTS, ["--max-matches", "1"], "found more than 1 matches"),
        (EVENTS, ["--plan", "/nowhere/plan.json"], "cannot read '/nowhere/plan.json': No such file or directory"),
        (EVENTS, ["--units", "0"], "argument --units: '0' is not a whole number of 1 or more"),
        (EVENTS, ["--strategy", "magic"], "invalid choice: 'magic'"),
        (EVENTS, ["--batch", "5"], "unrecognized arguments: --batch 5"),
        (EVENTS, ["--speed", "2"], "--speed is about Ray"),
        (EVENTS, ["--pin", "o3=10.0.0.1"], "--pin is about Ray"),
        (EVENTS, ["--pin", "o3"], "'o3' is not like o5=10.0.0.7"),
        (EVENTS, ["--speed", "2", "--rate", "5"], "--rate: not allowed with argument --speed"),
        (EVENTS, ["--rate", "-1"], "'-1' is not a positive number"),
        (EVENTS, ["--placement", "loose"], "invalid choice: 'LOOSE'"),
        (EVENTS, ["--emulate", "--runtime", "ray"], "--emulate needs to know the capacity"),
        (EVENTS, ["--late", "drop"], "--late is about live streams"),
        (EVENTS, ["--allowed-lateness", "soon"], "'soon' is not a time like '500 ms'"),
        (EVENTS, ["--schema", "x=number"], "'x=number' is not like x=float"),
    ],
)
def test_bad_events_limits_and_options_leave_nothing_behind(
    trace: Path, out: Path, capsys: pytest.CaptureFixture[str], events: pa.Table, options: list[str], message: str
) -> None:
    pq.write_table(events, trace)
    assert message in fails(capsys, *RUN, QUERY, "--trace", trace, "--out", out / "m.csv", *options)
    assert list(out.iterdir()) == []


@pytest.mark.parametrize(("name", "message"), [("m.xls", "must end in one of"), ("no/m.csv", "there is no directory")])
def test_an_output_that_cannot_be_written_is_refused_before_the_trace_is_read(
    out: Path, capsys: pytest.CaptureFixture[str], name: str, message: str
) -> None:
    assert message in fails(capsys, *RUN, QUERY, "--trace", "/nowhere/trace.parquet", "--out", out / name)


def test_an_existing_output_is_kept_unless_told_otherwise(
    trace: Path, out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (out / "m.csv").write_text("precious")
    assert "pass --overwrite" in fails(capsys, *RUN, QUERY, "--trace", trace, "--out", out / "m.csv")
    assert (out / "m.csv").read_text() == "precious"
    assert main([*RUN, QUERY, "--trace", str(trace), "--out", str(out / "m.csv"), "--overwrite"]) == 0
    assert (out / "m.csv").read_text().startswith('"query"')


def test_a_plan_for_another_query_is_refused(trace: Path, out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", QUERY, "--quiet", "--out", str(out / "plan.json")]) == 0
    other = QUERY.replace("10 us", "20 us")
    assert "another query" in fails(capsys, *RUN, other, "--trace", trace, "--plan", out / "plan.json")


@pytest.mark.parametrize("text", ["", "[]", "{", '{"format": "decopa-plan", "version": 99}'])
def test_a_file_that_is_no_plan_is_refused(out: Path, capsys: pytest.CaptureFixture[str], text: str) -> None:
    (out / "plan.json").write_text(text)
    assert "plan" in fails(capsys, "explain", out / "plan.json")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--selectivity", "A,B"], "'A,B' is not like A,B=0.05"),
        (["--selectivity", "A,B=2"], "must be above 0 and at most 1"),
        (["--selectivity", "A,Q=0.5"], "no event type 'Q'"),
        (["--rate", "-1"], "the rate must be a positive number"),
        (["--window", "soon"], "expected"),
        (["--events", "1.5"], "'1.5' is not a whole number"),
    ],
)
def test_an_impossible_synthetic_trace_is_refused(
    out: Path, capsys: pytest.CaptureFixture[str], options: list[str], message: str
) -> None:
    arguments = ["trace", "synthetic", "--events", "10", "--out", out / "t.csv", *options]
    assert message in fails(capsys, *arguments)
    assert list(out.iterdir()) == []


def test_a_live_stream_can_neither_be_measured_nor_planned_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert "cannot be measured" in fails(capsys, "stats", QUERY, "--trace", "-")
    assert "cannot be measured" in fails(capsys, "plan", QUERY, "--trace", "-")


def test_no_command_is_bad_input(capsys: pytest.CaptureFixture[str]) -> None:
    assert "required: COMMAND" in fails(capsys)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--units", "2"], "--rules on Ray needs --checkpoint DIR and --out DIR"),
        (["--adapt"], "--adapt does not go with --rules"),
        (["--checkpoint", "checkpoints", "--out", "matches", "--adapt"], "--adapt does not go with --rules"),
        (["--checkpoint", "checkpoints"], "--out"),
    ],
)
def test_rules_that_come_and_go_are_refused_where_nothing_could_keep_them(
    trace: Path, out: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    placed = [str(out / one) if one in ("checkpoints", "matches") else one for one in arguments]
    assert message in fails(capsys, "run", QUERY, "--trace", trace, "--rules", out / "rules", *placed)
    assert list(out.iterdir()) == []
