"""Plans change while processes die: no match is lost, none is published twice, and a change happens wholly or not."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import assume, given, note, settings
from hypothesis import strategies as st

import tests.support.switching
from actors.columnar.jit import interpreted
from decopa.planning.history import uncertain_windows
from decopa.planning.plan import Plan
from decopa.planning.spread import spread_units
from decopa.planning.strategies.left_deep import left_deep
from tests.property.test_changes import FAR_BACK
from tests.property.test_matches import ATTRIBUTES
from tests.support.brute_force import brute_force, brute_force_by_window, canonical
from tests.support.changing import changeable_queries
from tests.support.engine import matches_of, table_of
from tests.support.examples import examples
from tests.support.plans import plans, rescaled
from tests.support.strategies import long_streams, queries, streams
from tests.support.switching import Cut, Side, SwitchingCluster

#: In the plain run; the slow test makes 2,400 of them.
SCHEDULES = 15


def first_of_one_and_rest_of_other(one: Plan, other: Plan) -> Plan:
    """A plan that shares parts with both, so that some parts stay and others are built."""
    return Plan((*one.parts[:1], *other.parts[1:]))


def check_schedules(count: int, *, checkpoints: bool) -> Counter[str]:
    tried: Counter[str] = Counter()

    @settings(max_examples=count)
    @given(st.data())
    def schedule(data: st.DataObject) -> None:
        query = data.draw(queries() if checkpoints else changeable_queries())
        # With checkpoints such a plan cannot change (`Coordinator.check`).
        assume(not checkpoints or not any(map(uncertain_windows, query.branches)))
        events = data.draw(st.one_of(streams(query), long_streams(query, max_repeats=4), long_streams(query)))
        drawn = [data.draw(plans(query)) for _ in range(2)]
        several = [*drawn, data.draw(rescaled(drawn[1])), first_of_one_and_rest_of_other(*drawn)]
        shufflers, seed = data.draw(st.integers(1, 3)), data.draw(st.integers(0, 2**16))
        note(f"{query}\n{several}")
        with interpreted():
            cluster = SwitchingCluster(
                several,
                table_of(events, ATTRIBUTES),
                shufflers=shufflers,
                chaos=Random(seed),
                crashes=4,
                checkpoints=checkpoints,
                block_rows=data.draw(st.integers(1, 2)),
            )
            found = cluster.run([query])
        expected = list(map(canonical, brute_force_by_window(query, events)))
        assert sorted(map(canonical, matches_of(query, found))) == expected
        tried.update(cluster.done)
        tried.update(schedules=1, matches=len(expected))

    schedule()
    print(", ".join(f"{number:,} {what}" for what, number in sorted(tried.items())))
    assert tried["schedules"] >= count
    return tried


def test_changes_under_crashes_lose_nothing_and_repeat_nothing() -> None:
    """Says how much was tried: `pytest -s` shows it."""
    tried = check_schedules(examples(SCHEDULES), checkpoints=True)
    assert tried["completed"] >= tried["schedules"] // 2 and tried["crashes"] >= tried["schedules"]


def test_changes_without_checkpoints_lose_nothing_and_repeat_nothing() -> None:
    tried = check_schedules(examples(SCHEDULES), checkpoints=False)
    assert tried["completed"] >= tried["schedules"] // 4


@pytest.mark.slow
def test_two_thousand_four_hundred_schedules_of_changes_and_crashes() -> None:
    tried = check_schedules(examples(2_400), checkpoints=True)
    assert tried["completed"] >= 1_500 and tried["crashes"] >= 4_000


# ------------------------------------------------------------------ faults that must show

QUERY = FAR_BACK
PLANS = [Plan((spread_units(left_deep(QUERY), units),)) for units in (1, 4)]
#: How many streams are tried until a fault shows.
MOST = 100
#: Plans change several times between two events.
EAGER = {**SwitchingCluster.odds, "checkpoint": 0.02, "change": 0.6, "lose": 0.0, "cut": 0.6, "warm": 0.6, "feed": 0.08}


#: Many matches between two changes.
RARELY = {**SwitchingCluster.odds, "crash": 0.0, "checkpoint": 0.0, "change": 0.02}


def hand_made(seed: int) -> list[dict[str, object]]:
    """Matches that a B long before has blocked, or many matches."""
    if seed % 2:
        chaos = Random(seed)
        return [{"id": n, "ts": 2 * n, "type": chaos.choice("AAACCCBD")} for n in range(24)]
    words = [(begin + int(word[1:]), word[0]) for begin in (0, 40, 80) for word in ("B0", "A9", "C10", "E15", "E20")]
    return [{"id": n, "ts": ts, "type": kind} for n, (ts, kind) in enumerate(words)]


def is_exact(seed: int, kind: type[SwitchingCluster] = SwitchingCluster) -> bool:
    events = hand_made(seed)
    with interpreted():
        cluster = kind(PLANS, table_of(events), shufflers=2, chaos=Random(seed), crashes=3, block_rows=1)
        cluster.odds = RARELY if kind is Halves else EAGER
        found = cluster.run([QUERY])
    return sorted(map(canonical, matches_of(QUERY, found))) == list(map(canonical, brute_force(QUERY, events)))


def test_the_hand_made_streams_are_exact() -> None:
    assert all(is_exact(seed) for seed in range(10))


def test_half_the_history_is_not_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = tests.support.switching.history_us
    monkeypatch.setattr(tests.support.switching, "history_us", lambda plan: whole(plan) // 2)
    assert not all(is_exact(seed) for seed in range(MOST))


class KeepsWarmUp(SwitchingCluster):
    """Publishes what the new plan found while it was built."""

    def _complete_what_is(self) -> None:
        if self._pending and self._pending[0].muted and self._pending[0].complete:
            self._publish(self._pending[0].tables)
        super()._complete_what_is()


class Hasty(SwitchingCluster):
    """The new plan is cut at another watermark than the old one."""

    def _begin(self, side: Side, watermark_us: int, *, muted: bool = False, wanted_by: Plan | None = None) -> None:
        super()._begin(side, watermark_us + muted, muted=muted, wanted_by=wanted_by)


class Forgetful(SwitchingCluster):
    """A plan that begins with what units held lacks the first block after that."""

    def _carry(self, cut: Cut) -> None:
        super()._carry(cut)
        assert self._new is not None
        if self._new.waiting:
            self._new.waiting.popleft()


class Repeating(SwitchingCluster):
    """A plan that begins with what units held works once more on the last block before that."""

    def _carry(self, cut: Cut) -> None:
        super()._carry(cut)
        assert self._new is not None
        if cut.block:
            self._new.waiting.appendleft(cut.block - 1)


class Halves(SwitchingCluster):
    """The run is taken up with the new plan although the last matches of the old one were not published."""

    is_half = False

    def _step(self) -> bool:
        if self.is_half and self._crashes:
            self.is_half = False
            self._crash()
        return super()._step()

    def _deliver(self) -> None:
        """Messages of the old plan come last."""
        old = None if self._retiring is None else self._retiring.generation
        late = [one for one in self.on_their_way if one[0] == old]
        if late and len(late) < len(self.on_their_way):
            self.on_their_way = [one for one in self.on_their_way if one[0] != old]
            super()._deliver()
            self.on_their_way += late
        else:
            super()._deliver()

    def _complete_what_is(self) -> None:
        if len(self._pending) == 2 and self._pending[1].complete and not self._pending[0].complete:
            self._complete, self.is_half = self._pending[1], True
        super()._complete_what_is()


@pytest.mark.parametrize("kind", [KeepsWarmUp, Hasty, Halves, Forgetful, Repeating])
def test_planted_faults_are_found(kind: type[SwitchingCluster]) -> None:
    assert not all(is_exact(seed, kind) for seed in range(MOST))
