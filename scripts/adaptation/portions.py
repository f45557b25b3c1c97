"""A case under each strategy, unless it was run before."""

from __future__ import annotations

from functools import cached_property

import pyarrow as pa

from scripts.adaptation.kept import Kept
from scripts.adaptation.runs import KEYS, Case, Decider, Result, by_monitor, by_thesis, play

#: What names a run in the file of results.
KEY = ("query", "units", "factor", "rate", "seed", "strategy")
STRATEGIES = ("stays", "thesis", "monitor")


def played(
    case: Case, key: tuple[str, ...], seed: int, kept: Kept, strategies: tuple[str, ...] = STRATEGIES
) -> list[Result]:
    """The results of a case, in the order of the strategies."""
    events = _Events(case, seed)
    for strategy in strategies:
        if (*key, strategy) not in kept:
            kept.add((*key, strategy), play(case, events.table, _decider(case, strategy)))
    return [kept[*key, strategy] for strategy in strategies]


def is_kept(key: tuple[str, ...], kept: Kept, strategies: tuple[str, ...] = STRATEGIES) -> bool:
    """Whether all runs of a case are there."""
    return all((*key, strategy) in kept for strategy in strategies)


class _Events:
    """The events of a case, made when they are first needed."""

    def __init__(self, case: Case, seed: int) -> None:
        self._case, self._seed = case, seed

    @cached_property
    def table(self) -> pa.Table:
        return self._case.drift.table(self._seed, KEYS)


def _decider(case: Case, strategy: str) -> Decider | None:
    match strategy:
        case "stays":
            return None
        case "thesis":
            return by_thesis(case)
        case _:
            return by_monitor(case)[0]
