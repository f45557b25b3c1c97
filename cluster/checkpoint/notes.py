"""Notes: what somebody keeps in the checkpoints of a run beside states and matches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import pyarrow as pa


class Notes(Protocol):
    """Of one plan: where another one takes over, the last checkpoint of the old plan has the notes of the old one."""

    def taken(self) -> Any:
        """What there is to keep where a checkpoint begins."""
        ...

    def with_matches(self, taken: Any, matches: pa.Table) -> Mapping[str, Any]:
        """The same as plain JSON values, with what the matches of the checkpoint add. May be asked for again if the
        checkpoint could not be written."""
        ...

    def kept(self, extra: Mapping[str, Any]) -> None:
        """A checkpoint with this is complete."""
        ...


class NoNotes:
    """Nothing is kept."""

    def taken(self) -> None:
        return None

    def with_matches(self, taken: Any, matches: pa.Table) -> Mapping[str, Any]:
        return {}

    def kept(self, extra: Mapping[str, Any]) -> None:
        """Nobody waits for it."""
