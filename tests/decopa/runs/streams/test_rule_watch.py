"""Changes of rules through a folder: made while the stream goes on, refused with a line, and made again at the same
times."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import decopa
from cluster.change.rules.folder import RuleChange, RuleFolder
from cluster.change.rules.versions import RuleError
from decopa.commands.cli import main
from decopa.runs.streams.open_run import OpenRun
from decopa.runs.streams.rule_watch import RuleWatch

pytestmark = pytest.mark.usefixtures("without_compiling")

PAIRS = "QUERY pairs PATTERN SEQ(A a, B b) WITHIN 3 us"
LATE = "QUERY late PATTERN SEQ(B b, C c) WITHIN 2 us"
EVENTS = pa.table({"id": range(60), "ts": range(60), "type": ["ABC"[at % 3] for at in range(60)]})
#: Before which batch of six events something happens.
Story = dict[int, Callable[[], None]]


@pytest.fixture
def folder(tmp_path: Path) -> RuleFolder:
    return RuleFolder(tmp_path / "rules")


def asked(folder: RuleFolder, change: RuleChange) -> dict[str, Any]:
    """Asks for a change and waits for its answer, which a thread of the run gives."""
    number, waiting = folder.ask(change), threading.Event()
    for _ in range(2_000):
        if number in folder.answers():
            return folder.answers()[number]
        waiting.wait(0.01)
    raise AssertionError("no answer")


def told(story: Story) -> Iterator[pa.RecordBatch]:
    for at, batch in enumerate(EVENTS.to_batches(max_chunksize=6)):
        story.get(at, lambda: None)()
        yield batch


def played(folder: RuleFolder, story: Story | None = None, lines: list[str] | None = None) -> list[dict[str, Any]]:
    """The matches of a run over the stream, with what happens on the way."""
    run: OpenRun = decopa.open_run(PAIRS, told(story or {}))
    with RuleWatch(run, folder, (lines if lines is not None else []).append).open():
        return [row for table in run for row in table.select(["query", "version", "end_ts"]).to_pylist()]


def test_changes_are_made_while_the_stream_goes_on_and_again_at_the_same_times(folder: RuleFolder) -> None:
    answers: list[dict[str, Any]] = []
    story: Story = {
        3: lambda: answers.append(asked(folder, RuleChange("add", query=LATE))),
        6: lambda: answers.append(asked(folder, RuleChange("remove", "pairs"))),
        8: lambda: answers.append(asked(folder, RuleChange("replace", "late", LATE, "new"))),
    }
    lines: list[str] = []
    found = played(folder, story, lines)
    assert [(one["rule"], one["version"], one["at_us"]) for one in answers] == [
        ("late", 1, 18), ("pairs", 1, 36), ("late", 2, 48),
    ]  # fmt: skip
    assert [line.split(" of ")[0] for line in lines] == ["version 1", "version 1", "version 2"]
    ends: dict[tuple[str, int], list[int]] = {(one["query"], one["version"]): [] for one in found}
    for one in found:
        ends[one["query"], one["version"]].append(one["end_ts"])
    assert ends == {
        ("pairs", 1): list(range(1, 36, 3)),
        ("late", 1): list(range(20, 48, 3)),
        ("late", 2): list(range(50, 60, 3)),
    }
    assert played(folder) == found  # nobody asks again: the folder knows
    assert [rule["name"] for rule in folder.shown()["rules"]] == ["late"]


def test_what_cannot_be_changed_is_refused_with_a_line_and_the_run_goes_on(folder: RuleFolder) -> None:
    wanted = (
        (RuleChange("remove", "pears"), "there is no rule 'pears'; did you mean 'pairs'?"),
        (RuleChange("add", query=PAIRS), "there is a rule 'pairs' already; replace it"),
        (RuleChange("add", query="QUERY far PATTERN SEQ(A a, B b) WITHIN 1 h"), "only those of"),
        (RuleChange("add", query="QUERY odd PATTERN SEQ(A a, B b) WHERE a.y = 1 WITHIN 1 us"), "y"),
        (RuleChange("add", query="PATTERN SEQ("), "expected"),
        (RuleChange("add", query=LATE, at=3), "a change at 3 us comes too late"),
        (RuleChange("add", query=LATE, at="soon"), "soon"),
    )
    refusals: list[str] = []
    story: Story = {8: lambda: refusals.extend(asked(folder, change)["refused"] for change, _ in wanted)}
    found = played(folder, story)
    assert [one["end_ts"] for one in found] == list(range(1, 60, 3))
    for (_, message), refusal in zip(wanted, refusals, strict=True):
        assert message in refusal and "\n" not in refusal


def test_a_line_that_is_no_change_is_refused(folder: RuleFolder) -> None:
    folder.path.mkdir()
    (folder.path / "changes.jsonl").write_text('nonsense\n{"do": "fly"}\n{"do": "add", "query": 5}\n')
    played(folder)
    answers = folder.answers()
    assert all("is no change of rules" in answers[number]["refused"] for number in (1, 2, 3))


def test_changes_wait_while_there_is_no_room_for_their_answers(folder: RuleFolder) -> None:
    """/dev/full is a disk without room."""
    folder.path.mkdir()
    (folder.path / "answers.jsonl").symlink_to("/dev/full")
    folder._lines = lambda path: [RuleChange("remove", "pairs").to_line()] if path.name == "changes.jsonl" else []  # type: ignore[method-assign,assignment,return-value]
    lines: list[str] = []
    assert len(played(folder, lines=lines)) == 20
    assert len(lines) == 1 and "changes wait: cannot write" in lines[0] and "No space left" in lines[0]


def test_a_folder_belongs_to_one_run_at_a_time(folder: RuleFolder) -> None:
    with folder.watching():
        assert folder.is_watched
        with pytest.raises(RuleError, match="another run watches"):
            played(folder)
    assert not folder.is_watched


def test_the_command_line_asks_lists_and_refuses(folder: RuleFolder, capsys: pytest.CaptureFixture[str]) -> None:
    where = str(folder.path)
    assert main(["rules", "remove", where, "pairs"]) == 2
    assert "there is no folder" in capsys.readouterr().err
    played(folder)
    assert main(["rules", "add", where, LATE]) == 0
    assert "change 1 waits for a run" in capsys.readouterr().err
    assert main(["rules", "add", where, "PATTERN SEQ("]) == 2
    capsys.readouterr()
    played(folder)
    assert main(["rules", "list", where]) == 0
    shown = capsys.readouterr().out
    assert "pairs" in shown and "late" in shown and "20" in shown
    assert main(["rules", "list", str(folder.path / "none")]) == 2


def test_a_stored_trace_is_run_with_rules_on_the_command_line(
    folder: RuleFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import pyarrow.parquet as pq

    pq.write_table(EVENTS, tmp_path / "events.parquet")
    folder.path.mkdir()
    folder.ask(RuleChange("add", query=LATE, at=30))
    command = ["run", PAIRS, "--trace", str(tmp_path / "events.parquet"), "--rules", str(folder.path)]
    assert main([*command, "--out", str(tmp_path / "m.jsonl")]) == 0
    lines = (tmp_path / "m.jsonl").read_text().splitlines()
    assert sum('"late"' in line for line in lines) == 10 and sum('"pairs"' in line for line in lines) == 20
    assert main([*command, "--adapt"]) == 2
    assert main([*command, "--out", str(tmp_path / "m.csv")]) == 2
    assert "--out FILE.jsonl or a folder" in capsys.readouterr().err


def test_a_command_tells_that_its_change_waits_for_others(
    folder: RuleFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    with folder.watching():  # by a run that has not looked yet
        folder.ask(RuleChange("add", query=LATE))
        assert main(["rules", "remove", str(folder.path), "pairs", "--wait", "1e-9"]) == 0
    assert "change 2 waits for 1 before it" in capsys.readouterr().err
