"""A simulated cluster whose rules come and go while processes die; see `SwitchingCluster`.

Which parts a change needs, when it takes effect, which matches of the new side are dropped at the cut and what a
checkpoint says of the rules are the product's own; simulated is the bookkeeping of `cluster.change.rules.changes`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import pyarrow as pa

from cluster.change.cut import ending_in
from cluster.change.history import HistoryGone
from cluster.change.rules.notes import KeptRules, KeptState
from cluster.change.rules.versions import (
    BookChange,
    RuleBook,
    RuleError,
    Version,
    opening_plan,
    version_parts,
    wanted_parts,
)
from cluster.change.staying import with_sources
from cluster.matches import joined
from decopa.planning.history import history_us
from decopa.planning.plan import Plan, QueryPlan
from decopa.planning.workload.packed import packed
from decopa.query.query import Query
from decopa.runs.preparation.planning import left_deep_plan
from decopa.runs.result import united
from shuffler.routing.table import NOTHING_YET
from tests.support.switching import Cut, Side, SwitchingCluster


@dataclass
class Asked:
    change: BookChange
    at_us: int | None
    #: The book with it; None until the cut decides when it takes effect.
    book: RuleBook | None


def parts_of(version: Version) -> tuple[QueryPlan, ...]:
    return version_parts(version, left_deep_plan([version.query]))


class RulingCluster(SwitchingCluster):
    """Begins with the first two of some rules; changes draw from all of them."""

    odds: Mapping[str, float] = {**SwitchingCluster.odds, "change": 0.1, "crash": 0.015, "lose": 0.01, "feed": 0.06}

    def __init__(
        self, rules: Sequence[Query], events: pa.Table, *, hosts: int, shufflers: int, chaos: Random, crashes: int
    ) -> None:
        self._rules, self._hosts = rules, hosts
        self.book = RuleBook.of(rules[:2])
        opening = opening_plan(left_deep_plan(rules[:2]), self.book)
        first = packed(opening.parts, hosts)
        #: What complete checkpoints say, and the books of those that are on their way, by their numbers.
        self._extra = KeptState(KeptRules(self.book)).to_extra()
        self._books: dict[int, KeptRules] = {}
        self._muted: dict[int, frozenset[str]] = {}
        self._asked: Asked | None = None
        self._names = 0
        super().__init__(
            [first, left_deep_plan(rules)], events, shufflers=shufflers, chaos=chaos, crashes=crashes, block_rows=2
        )
        self._published = {}

    def found(self) -> dict[Version, pa.Table]:
        """What every version has reported in the end."""
        while not self._step():
            pass
        self._publish(self._tables(self.running))
        found = {}
        for version in self.book.versions:
            if version.keys[0] in self._published:
                tables = [pa.concat_tables(self._published[key]) for key in version.keys]
                found[version] = united(version.query, tables)
        return found

    # ------------------------------------------------------------- what happens

    def _start(self) -> None:
        super()._start()
        kept = KeptState.from_extra(self._extra, "checkpoint").rules
        self.book, self._asked = kept.book, None
        self._last_us = NOTHING_YET if kept.reached_us is None else kept.reached_us

    def _may_change(self) -> bool:
        return super()._may_change() and self._asked is None

    def _change(self) -> None:
        reached_us = self._last_us if self._block else None
        change = self._drawn(reached_us)
        soon_us = None if reached_us is None else reached_us + 1
        at_us = soon_us if change.at_us is None else change.at_us
        try:
            book = change.made_in(self.book, at_us)
        except RuleError:
            self.done["refused"] += 1
            return
        parts, begin_us = wanted_parts(self.running.plan, self.book, book, reached_us, parts_of)
        if parts is None:
            self.book = book
            self.done[change.do] += 1
            return
        plan = packed(parts, self._hosts)
        carried = self._carried(plan)
        needed = with_sources(plan, frozenset(plan.keys) - carried)
        try:
            history = self._kept_for(plan, begin_us, needed) if self._block else []
        except HistoryGone:
            self.done["waited"] += 1
            return
        decided = change.sees == "new" or change.at_us is not None or reached_us is None
        self._asked = Asked(change, at_us if decided else None, book if decided else None)
        self._build(plan, carried, history)

    def _drawn(self, reached_us: int | None) -> BookChange:
        chaos = self.chaos
        at_us = None if reached_us is None or chaos.random() < 0.6 else reached_us + chaos.choice((1, 2, 5, 9))
        do = chaos.choice(("add", "remove", "replace"))
        current = list(self.book.current)
        if do == "add" or not current:
            self._names += 1
            query = replace(chaos.choice(self._rules), name=f"new{self._names}")
            return BookChange("add", query.name, query, at_us, chaos.choice(("window", "window", "new")))
        name = chaos.choice(current)
        if do == "remove":
            return BookChange("remove", name, None, at_us)
        return BookChange("replace", name, chaos.choice(self._rules), at_us, chaos.choice(("window", "new")))

    def _kept_for(self, plan: Plan, begin_us: Mapping[str, int], keys: frozenset[str]) -> list[int]:
        each = ((key, part) for key, part in zip(plan.keys, plan.parts, strict=True) if key in keys)
        earliest_us = min(begin_us.get(key, self._last_us - history_us(Plan((part,)))) for key, part in each)
        if earliest_us > self._last_us:
            return []
        if self._ring is None:
            raise HistoryGone
        return list(self._ring.since(earliest_us))

    def _lose(self) -> None:
        super()._lose()
        self._asked = None

    @property
    def _is_tied(self) -> bool:
        """Whether the next event has the time of the last one."""
        return self._block < len(self._blocks) and self._times[self._block][0] == self._last_us

    def _may_cut(self) -> bool:
        return super()._may_cut() and not self._is_tied

    def _may_feed(self) -> bool:
        if not super()._may_feed():
            return False
        asked = self._asked
        if asked is None or self._new is None or asked.change.do != "replace" or asked.book is None:
            return True
        at_us = NOTHING_YET if asked.at_us is None else asked.at_us
        if self._block == len(self._blocks) or self._times[self._block][1] < at_us:
            return True
        if self._is_tied:  # refused: plans cannot be cut here
            self._lose()
            return True
        return False

    def _feed(self) -> None:
        if self._block == len(self._blocks):
            self._asked = None
        super()._feed()

    def _cut(self) -> None:
        assert self._asked is not None and self._new is not None
        before, asked = self._muted_at_cut(self.running.plan), self._asked
        if asked.book is None:
            asked.book = asked.change.made_in(self.book, self._begins_us())
        self._asked = None
        self._begin(self.running, self._last_us)
        self.book = asked.book
        self._muted[self._number + 1] = before
        self._begin(self._new, self._last_us, muted=True)
        self._retiring, self.running, self._new = self.running, self._new, None
        self.done.update({"cut": 1, asked.change.do: 1, f"sees {asked.change.sees}": 1})

    def _begins_us(self) -> int | None:
        return self._last_us + 1 if self._block else None

    def _muted_at_cut(self, old: Plan) -> frozenset[str]:
        return frozenset(old.keys)

    # ------------------------------------------------------------- cuts and checkpoints

    def _begin(self, side: Side, watermark_us: int, **how: Any) -> None:
        self._books[self._number + 1] = KeptRules(self.book, reached_us=self._last_us if self._block else None)
        super()._begin(side, watermark_us, **how)

    def _complete_what_is(self) -> None:
        while self._pending and self._pending[0].complete:
            cut = self._pending.popleft()
            dropped = self._muted.get(cut.number, frozenset()) if cut.muted else frozenset()
            self._publish({key: table for key, table in cut.tables.items() if key not in dropped})
            if cut.muted:
                self._retiring = None
                self.done["completed"] += 1
            self._committed(cut)
            self._answer(cut)

    def _committed(self, cut: Cut) -> None:
        self._complete = cut
        self._extra = KeptState(self._books[cut.number]).to_extra()

    def _publish(self, tables: dict[str, pa.Table]) -> None:
        """What ends within the life of its version, as far as that is known."""
        lives = {key: (version.from_us, version.until_us) for version in self.book.versions for key in version.keys}
        for key, found in tables.items():
            table = ending_in(found, *lives[key])
            before = {key: self._published[key][0]} if key in self._published else {}
            self._published[key] = [joined(before, {key: table})[key]]
