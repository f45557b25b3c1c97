"""One reader for all JSON documents: whatever is wrong is named with its place."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path

import pytest

from decopa.documents import Document, read_document, record_of
from decopa.errors import PlanError, StatisticsError

ROOT = Path(__file__).resolve().parents[2]


def read(text: str | bytes) -> Document:
    return read_document(text, format="f", version=2, name="x.json", error=PlanError, remedy="make it anew")


@dataclass(frozen=True)
class Counted:
    name: str
    rows: int
    share: float | None = None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "x.json is not JSON"),
        (b"\xff\xfe{", "x.json is not JSON"),
        ("[]", 'x.json is of another kind: it has no "format": "f"; make it anew'),
        ('{"format": "f", "version": 1}', "x.json has version 1, this decopa reads version 2; make it anew"),
        ('{"format": "f", "format": "f"}', "x.json: 'format' is given twice; keep one"),
    ],
)
def test_what_is_no_document_of_this_kind_is_refused(text: str | bytes, message: str) -> None:
    with pytest.raises(PlanError) as caught:
        read(text)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"name": "a"}, "r: 'rows' is missing"),
        ({"name": "a", "rows": True}, "r: 'rows' must be int, got true or false"),
        ({"name": None, "rows": 1}, "r: 'name' must be str, got null"),
        ({"name": "a", "rows": -1}, "r: 'rows' is -1, which no run has written"),
        ({"name": "a", "rows": 1, "shares": 1.0}, "r: unknown field 'shares'; did you mean 'share'?"),
    ],
)
def test_a_record_has_its_fields_and_no_others(fields: dict[str, object], message: str) -> None:
    with pytest.raises(StatisticsError) as caught:
        record_of(Counted, Document(fields, "r", StatisticsError), largest=100)
    assert message in str(caught.value)


def test_a_record_may_leave_out_what_has_a_default() -> None:
    assert record_of(Counted, Document({"name": "a", "rows": 1}, "r", PlanError)) == Counted("a", 1)


def test_only_the_reader_of_documents_parses_files_of_json() -> None:
    """The header of a state is sealed by a checksum, settings are compared as JSON would read them back, and changes of
    rules are lines that others append, each read and refused on its own."""
    allowed = {
        "decopa/documents.py", "actors/state/file.py", "decopa/runs/scaling/scale_points.py",
        "cluster/change/rules/folder.py",
    }  # fmt: skip
    parsing = set()
    for package in ("decopa", "costmodel", "shuffler", "actors", "cluster"):
        for path in (ROOT / package).rglob("*.py"):
            text = path.read_text()
            if "json.load" not in text:
                continue
            calls = [node.func for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
            if any(isinstance(one, ast.Attribute) and ast.unparse(one) in ("json.load", "json.loads") for one in calls):
                parsing.add(str(path.relative_to(ROOT)))
    assert parsing <= allowed
