"""Every row of the worked streams in docs/successor.md, run as it stands there."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pytest

import decopa
from actors.columnar.jit import interpreted
from decopa.language.text.parser import parse

_PAGE = Path(__file__).resolve().parents[3] / "docs" / "successor.md"
_EVENT = re.compile(r"([a-z])(\d+)('?)(?::(-?\d+))?")


def rows() -> list[tuple[str, str, str]]:
    """(pattern, stream, matches) of the table with worked streams."""
    table = _PAGE.read_text(encoding="utf-8").partition("| pattern | stream | matches | why |")[2].partition("\n\n")[0]
    found = []
    for line in table.splitlines()[2:]:
        pattern, stream, matches, _ = (
            cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line.strip()[1:-1])
        )
        found.append((pattern.strip("`"), stream.strip("`"), matches))
    return found


def matches_of(pattern: str, stream: str) -> set[str]:
    events = [_EVENT.fullmatch(word) for word in stream.split()]
    assert all(events), f"no stream: {stream}"
    table = pa.table(
        {
            "id": [word.partition(":")[0] for word in stream.split()],
            "ts": [int(event[2]) for event in events if event],
            "type": [event[1].upper() for event in events if event],
            "x": pa.array([None if event[4] is None else int(event[4]) for event in events if event], pa.int64()),
        }
    )
    query = parse(f"PATTERN {pattern}" if " WITHIN " in pattern else f"PATTERN {pattern} WITHIN 1 s")
    with interpreted():
        found = decopa.run(query, table).to_pylist()
    return {
        " ".join(
            f"[{' '.join(row[a])}]" if isinstance(row[a], list) else row[a] for a in query.positive_aliases if row[a]
        )
        for row in found
    }


def test_the_page_has_worked_streams() -> None:
    assert len(rows()) >= 15


@pytest.mark.parametrize(("pattern", "stream", "matches"), rows())
def test_a_worked_stream_has_the_matches_that_the_page_shows(pattern: str, stream: str, matches: str) -> None:
    shown = set() if matches == "none" else {one.strip(" `") for one in matches.split("`, `")}
    assert matches_of(pattern, stream) == shown
