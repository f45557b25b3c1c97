"""`decopa run` on streams that can be read again: what the flags mean, and a folder read to its end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from decopa.commands.arguments.source import is_live, source_of
from decopa.commands.cli import main, make_parser

QUERY = "PATTERN SEQ(A a, B b) WITHIN 3 s"


def parsed(*arguments: str) -> object:
    return make_parser().parse_args(["run", QUERY, *arguments])


def test_flags_change_the_address() -> None:
    args = parsed(
        *("--trace", "kafka://host:9092/events?idle=3s", "--format", "csv", "--from", "latest", "--until", "end"),
        *("--idle-after", "5 s", "--event-time", "record", "--schema", "id=int,type=string"),
    )
    source = source_of(args)  # type: ignore[arg-type]
    assert source is not None
    assert (source.format, source.start, source.until_end, source.idle_after_s) == ("csv", "latest", True, 5.0)
    assert (source.record_time, source.columns, source.skip_gaps) == (True, {"id": "int", "type": "string"}, False)


def test_gaps_are_skipped_only_if_the_user_says_where_to_go_on() -> None:
    assert source_of(parsed("--trace", "nats://h:1/S", "--from", "earliest")).skip_gaps  # type: ignore[arg-type,union-attr]
    assert not source_of(parsed("--trace", "nats://h:1/S")).skip_gaps  # type: ignore[arg-type,union-attr]


def test_files_and_standard_input_have_no_address() -> None:
    for trace, live in (("events.parquet", False), ("-", True), ("s3://bucket/x.parquet", False)):
        args = parsed("--trace", trace)
        assert (source_of(args), is_live(args)) == (None, live)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ((), "name the events with --trace FILE, or a folder to follow with --follow DIR"),
        (("--trace", "x.csv", "--follow", "in"), "name the events with --trace FILE, or a folder"),
        (("--trace", "x.csv", "--idle-after", "1 s"), "--idle-after is about streams that can be read again"),
        (("--trace", "x.csv", "--late", "drop"), "--late is about live streams"),
        (("--trace", "kafka://h", "--runtime", "local"), "names no topic; write kafka://host:9092/topic"),
        (("--follow", "nowhere", "--runtime", "local"), "nowhere' to follow; check the path"),
        (("--trace", "kafka://h/t", "--out", "nats://h/s"), "matches go to nats://h/s with"),
        (("--trace", "kafka://h/t", "--spark"), "--spark reads stored traces"),
        (("--trace", "-", "--late", "divert"), "--late divert and --late-file FILE, both together"),
    ],
)
def test_what_does_not_fit_is_one_line(
    arguments: tuple[str, ...], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", QUERY, *arguments]) == 2
    err = capsys.readouterr().err
    assert problem in err and len(err.splitlines()) == 1


def test_a_folder_is_read_to_its_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    events = [{"id": n, "ts": 1_714_557_600_000 + n * 1_000, "type": "AB"[n % 2]} for n in range(6)]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(one) + "\n" for one in events))
    assert main(["run", QUERY, "--follow", str(tmp_path), "--until", "end", "--runtime", "local"]) == 0
    told = capsys.readouterr()
    assert [json.loads(line)["a"] for line in told.out.splitlines()] == [0, 0, 2, 2, 4]
    assert "took the times in column 'ts' for milliseconds since 1970" in told.err
