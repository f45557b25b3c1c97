"""What `decopa.stream` refuses before anything is started; no Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import decopa
from decopa import Adapt, DecoPaError, Limits


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"limits": Limits(spill=decopa.Spill(Path("folder")))}, "--adapt and --spill exclude each other"),
        ({"limits": Limits(on_limit="drop-query")}, "--adapt and --on-limit drop-query exclude each other"),
        ({"adapt": Adapt(units=(2, 8))}, "takes 2 to 8 units cannot begin with 1"),
        ({"strategy": "hybrid"}, "a live stream cannot be measured before it runs"),
    ],
)
def test_what_cannot_follow_a_stream_is_refused_with_one_line(tmp_path: Path, options: Any, message: str) -> None:
    places = {"out": tmp_path / "out", "checkpoint": tmp_path / "checkpoint"}
    with pytest.raises(DecoPaError, match=message):
        decopa.stream(None, "PATTERN SEQ(A a, B b) WITHIN 1 min", **places, **({"adapt": Adapt()} | options))
    assert not any(tmp_path.iterdir())
