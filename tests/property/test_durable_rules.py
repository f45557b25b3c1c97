"""Rules come and go while processes die: every version reports what its life says, and a change is whole or not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume, given, note, settings
from hypothesis import strategies as st

from actors.columnar.jit import interpreted
from cluster.change.rules.versions import RuleError, Version
from decopa.language.text.parser import parse
from decopa.planning.history import uncertain_windows
from decopa.planning.plan import Plan
from decopa.query.query import Query
from tests.property.test_matches import ATTRIBUTES
from tests.property.test_rules import expected
from tests.support.brute_force import canonical
from tests.support.chains import plain_chains
from tests.support.engine import matches_of, table_of
from tests.support.examples import examples
from tests.support.ruling import RulingCluster
from tests.support.strategies import queries, workload_streams
from tests.support.switching import Cut

#: In the plain run; the slow test makes 600 of them.
SCHEDULES = 20


def found_by(cluster: RulingCluster) -> dict[Version, list[object]]:
    found = cluster.found()
    return {version: sorted(map(canonical, matches_of(version.query, table))) for version, table in found.items()}


def may_be_durable(query: Query) -> bool:
    """What a run with checkpoints takes: see `DurableRules` and `check_alternatives`."""
    alternatives = len(query.branches) > 1 and any(branch.negations for branch in query.branches)
    return not alternatives and not any(map(uncertain_windows, query.branches))


def check_schedules(count: int) -> Counter[str]:
    tried: Counter[str] = Counter()

    @settings(max_examples=count)
    @given(st.data())
    def schedule(data: st.DataObject) -> None:
        kinds = st.one_of(queries(max_positions=3), plain_chains(max_positions=3))
        rules = [replace(data.draw(kinds), name=f"q{place}") for place in range(3)]
        assume(all(map(may_be_durable, rules)))
        events = data.draw(workload_streams(rules, max_events=24))
        note("\n".join(map(str, rules)))
        with interpreted():
            cluster = RulingCluster(
                rules,
                table_of(events, ATTRIBUTES),
                hosts=data.draw(st.integers(1, 3)),
                shufflers=data.draw(st.integers(1, 2)),
                chaos=Random(data.draw(st.integers(0, 2**16))),
                crashes=3,
            )
            found = found_by(cluster)
        for version in cluster.book.versions:
            assert found.get(version, []) == sorted(expected(version, events)), f"{version} after {cluster.done}"
        tried.update(cluster.done)
        tried.update(schedules=1, versions=len(found), matches=sum(map(len, found.values())))

    schedule()
    print(", ".join(f"{number:,} {what}" for what, number in sorted(tried.items())))
    return tried


def test_rules_that_come_and_go_under_crashes_report_what_their_lives_say() -> None:
    """Says how much was tried: `pytest -s` shows it."""
    tried = check_schedules(examples(SCHEDULES))
    assert tried["completed"] >= tried["schedules"] // 2 and tried["crashes"] >= tried["schedules"] // 2
    assert tried["remove"] and tried["replace"] and tried["sees new"] and tried["joined"]


@pytest.mark.slow
def test_six_hundred_schedules_of_rules_and_crashes() -> None:
    tried = check_schedules(examples(600))
    assert tried["completed"] >= 400 and tried["crashes"] >= 300


# ------------------------------------------------------------------ faults that must show

PATTERNS = ("SEQ(A a, B b)", "SEQ(NOT(A a), B b, C c)")  # in one with NOT a plan that is built finds matches again
RULES = [parse(f"QUERY r{at} PATTERN {text} WITHIN 9 us") for at, text in enumerate(PATTERNS)]
#: How many streams are tried until a fault shows.
MOST = 100
ODDS = {**RulingCluster.odds, "checkpoint": 0.02, "change": 0.4, "lose": 0.0, "cut": 0.6, "warm": 0.6, "feed": 0.08}


def is_exact(seed: int, kind: type[RulingCluster] = RulingCluster) -> bool:
    chaos = Random(seed)
    events: Sequence[dict[str, Any]] = [{"id": at, "ts": at, "type": chaos.choice("ABC")} for at in range(24)]
    with interpreted():
        cluster = kind(RULES, table_of(events), hosts=2, shufflers=2, chaos=chaos, crashes=3)
        cluster.odds = ODDS
        try:
            found = found_by(cluster)
        except RuleError:  # only rules that are wrong already make it
            return False
    return all(found.get(version, []) == sorted(expected(version, events)) for version in cluster.book.versions)


def test_these_streams_are_exact() -> None:
    assert all(is_exact(seed) for seed in range(12))


class KeepsWarmUp(RulingCluster):
    """Publishes also what both plans have found."""

    def _muted_at_cut(self, old: Plan) -> frozenset[str]:
        return frozenset()


class DropsAll(RulingCluster):
    """Drops also what only the new plan could find before the cut, for rules that began before it."""

    def _muted_at_cut(self, old: Plan) -> frozenset[str]:
        assert self._new is not None
        return frozenset(self._new.plan.keys)


class Hasty(RulingCluster):
    """A rule begins at the last event before its cut."""

    def _begins_us(self) -> int | None:
        return self._last_us if self._block else None


class Forgetful(RulingCluster):
    """A run that is taken up takes rules for changed that are in no checkpoint."""

    def _start(self) -> None:
        book = self.book
        super()._start()
        if self._attempt:
            self.book = book


class Halves(RulingCluster):
    """A checkpoint says which rules there are now, not which there were at its barrier."""

    def _committed(self, cut: Cut) -> None:
        self._books[cut.number] = replace(self._books[cut.number], book=self.book)
        super()._committed(cut)


class DropsFound(RulingCluster):
    """What a rule found before its plan took over the states of others is lost, though the rule had begun by then."""

    def _found_until_joined(self) -> Mapping[str, pa.Table]:
        return {}


class SkipsBlock(RulingCluster):
    """A block that came while both sides told what they held is not fed to the new one."""

    def _take_joined(self) -> None:
        before = self.done["joined"]
        super()._take_joined()
        if self.done["joined"] > before and self._new is not None and self._new.waiting:
            self._new.waiting.popleft()


@pytest.mark.parametrize("kind", [KeepsWarmUp, DropsAll, Hasty, Forgetful, Halves, DropsFound, SkipsBlock])
def test_planted_faults_are_found(kind: type[RulingCluster]) -> None:
    assert not all(is_exact(seed, kind) for seed in range(MOST))
