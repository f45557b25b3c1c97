"""What an explanation consists of; plain values, so that it can be written as text, JSON or a page."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

FORMAT = "decopa-why"
VERSION = 1


@dataclass(frozen=True, slots=True)
class Rejection:
    """A condition and how many candidates it rejects: alone, and of those that the conditions before it let pass."""

    condition: str
    alone: int
    in_order: int


@dataclass(frozen=True, slots=True)
class Miss:
    """A candidate that one condition alone rejected: event ids by alias, and by how much it failed."""

    condition: str
    events: dict[str, object]
    text: str


@dataclass(frozen=True, slots=True)
class Position:
    """Events of a position's type, and those that pass the conditions on the position alone."""

    alias: str
    type: str
    events: int
    passing: int
    rejections: tuple[Rejection, ...] = ()
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Stage:
    """A join of partial matches with the events of one more position.

    Of all `candidates`, `outside_window` lie too far apart. The others are held against the order and the conditions.
    """

    sub_query: str
    adds: str
    candidates: int
    outside_window: int
    rejections: tuple[Rejection, ...]
    survived: int
    sampled: bool = False
    misses: tuple[Miss, ...] = ()


@dataclass(frozen=True, slots=True)
class Blocking:
    """A NOT, the matches of the rest that were held against it, and how many of them it blocks; with examples."""

    negation: str
    matches: int
    blocked: int
    sampled: bool = False
    examples: tuple[Miss, ...] = ()


@dataclass(frozen=True, slots=True)
class Branch:
    """One OR-free query: positions, stages up to the last that anything reached, conditions between members, NOTs."""

    pattern: str
    positions: tuple[Position, ...]
    stages: tuple[Stage, ...]
    members: tuple[Rejection, ...] = ()
    blocking: tuple[Blocking, ...] = ()


@dataclass(frozen=True, slots=True)
class Relaxation:
    """A change to the query, and how many matches it then has; None if these could not be counted in time."""

    change: str
    matches: int | None
    kind: str = "condition"

    @property
    def helps(self) -> bool:
        return self.matches is None or self.matches > 0


@dataclass(frozen=True, slots=True)
class Why:
    """An explanation; `verdict` is its first line. `matches` is None if they are too many to count."""

    query: str
    matches: int | None
    verdict: str
    branches: tuple[Branch, ...]
    relaxations: tuple[Relaxation, ...] = ()
    notices: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.verdict


def to_document(found: Sequence[Why]) -> str:
    """Explanations as JSON."""
    document: dict[str, Any] = {"format": FORMAT, "version": VERSION, "queries": [asdict(one) for one in found]}
    return json.dumps(document, indent=2, ensure_ascii=False, default=str) + "\n"
