"""A plan becomes another in the middle of the stream: no match is lost, none comes twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

import actors.group
import cluster.change.local
from actors.columnar.jit import interpreted
from cluster.change.cut import reported
from cluster.change.local import ChangingPipeline
from cluster.matches import joined
from cluster.pipeline import Pipeline
from decopa.language.text.parser import parse
from decopa.planning.plan import Plan, PlanOperator, QueryPlan
from decopa.planning.spread import spread_units
from decopa.planning.strategies.left_deep import left_deep
from decopa.planning.subquery import SubQuery
from decopa.query.query import Query
from shuffler.routing.table import END_OF_STREAM
from tests.property.test_matches import ATTRIBUTES
from tests.support.brute_force import brute_force, brute_force_by_window, canonical
from tests.support.changing import changeable_queries, changed_run
from tests.support.engine import matches_of, table_of
from tests.support.examples import examples
from tests.support.memory import poisoned_memory
from tests.support.plans import plans, rescaled
from tests.support.strategies import long_streams, streams

#: In the plain run; the slow test makes 5,000 of them.
HISTORIES = 120


def check_histories(count: int) -> Counter[str]:
    tried: Counter[str] = Counter()

    @settings(max_examples=count)
    @given(st.data())
    def history(data: st.DataObject) -> None:
        query = data.draw(changeable_queries())
        events = data.draw(st.one_of(long_streams(query, max_repeats=4), streams(query)))
        drawn = [data.draw(plans(query)) for _ in range(data.draw(st.integers(2, 3)))]
        # Now and then the same again, which keeps its state, or on other units, which have it dealt out.
        again = data.draw(st.sampled_from((drawn[-1], *drawn)))
        several = [*drawn, data.draw(rescaled(again)) if data.draw(st.booleans()) else again]
        chaos = Random(data.draw(st.integers(0, 2**16)))
        note(f"{query}")
        with interpreted(), poisoned_memory():
            result = changed_run(query, table_of(events, ATTRIBUTES), several, chaos)
        expected = list(map(canonical, brute_force_by_window(query, events)))
        assert sorted(map(canonical, matches_of(query, result))) == expected
        tried.update(histories=1, switches=len(several) - 1, matches=len(expected))

    history()
    print(", ".join(f"{number:,} {what}" for what, number in tried.items()))
    return tried


def test_plans_that_follow_each_other_find_each_match_once() -> None:
    """Says how much was tried: `pytest -s` shows it."""
    tried = check_histories(examples(HISTORIES))
    assert tried["histories"] >= examples(HISTORIES) and tried["matches"] > tried["histories"] // 4


def test_a_next_on_several_units_repeats_nothing_after_a_change() -> None:
    """Its units hold open matches when events could be read unsplit again; each of them must be found once."""
    query = parse("PATTERN NEXT(* a, A b) WITHIN 6 us")
    a, b, both = (SubQuery(frozenset(aliases)) for aliases in ("a", "b", "ab"))
    leaves = PlanOperator("o1", a, partitioned=True), PlanOperator("o2", b)
    plan = Plan((QueryPlan(query, (*leaves, PlanOperator("o3", both, ("o1", "o2"), 3))),))
    events = [{"type": "A", "ts": ts, "id": number} for number, ts in enumerate((0, 0, 0, 0, 0, 1, 2))]
    expected = list(map(canonical, brute_force_by_window(query, events)))
    for seed in range(30):
        with interpreted():
            result = changed_run(query, table_of(events, {}), [plan, plan], Random(seed))
        assert sorted(map(canonical, matches_of(query, result))) == expected


@pytest.mark.slow
def test_five_thousand_histories_of_plans_find_each_match_once() -> None:
    check_histories(examples(5_000))


# ------------------------------------------------------------------ faults that must show

#: A match waits for a window until no D comes, and a B long before may have blocked it.
FAR_BACK = parse("PATTERN SEQ(NOT(B b), A a, C c, NOT(D d)) WITHIN 10 us")
PLAIN = parse("PATTERN SEQ(A a, C c) WITHIN 10 us")


def random_events(seed: int) -> list[dict[str, object]]:
    """Matches that wait for a D, with a B almost two windows before the moment that decides them; and others."""
    chaos, begin = Random(seed), 0
    events: list[dict[str, object]] = []
    for _ in range(6):
        stories = ("B0 A9 C10 E15 E20", "A0 C5 D8 E11", "A0 E6 E7 E8 C9", "A0 E6 E8 E9 C10", "A0 A1 C2 C2 B3")
        for word in chaos.choice(stories).split():
            events.append({"id": len(events), "ts": begin + int(word[1:]), "type": word[0]})
        begin = int(str(events[-1]["ts"])) + chaos.choice((1, 5, 15))
    return events


def is_exact(query: Query, seed: int, kind: type[ChangingPipeline] = ChangingPipeline) -> bool:
    one, other = left_deep(query), left_deep(query, query.aliases[::-1])  # else units would keep what they hold
    several = [Plan((spread_units(plan, units),)) for plan, units in ((one, 1), (other, 4), (one, 2))]
    events = random_events(seed)
    with interpreted():
        found = changed_run(query, table_of(events), several, Random(seed), kind, sizes=(1,))
    return sorted(map(canonical, matches_of(query, found))) == list(map(canonical, brute_force(query, events)))


SEEDS = range(40)


@pytest.mark.parametrize("query", [FAR_BACK, PLAIN], ids=["NOT", "SEQ"])
def test_the_hand_made_streams_are_exact(query: Query) -> None:
    assert all(is_exact(query, seed) for seed in SEEDS)


def fault(monkeypatch: pytest.MonkeyPatch, name: str, change: Callable[..., object]) -> None:
    monkeypatch.setattr(cluster.change.local, name, change)


@pytest.mark.parametrize("query", [FAR_BACK, PLAIN], ids=["NOT", "SEQ"])
def test_half_the_history_is_not_enough(query: Query, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = cluster.change.local.history_us
    fault(monkeypatch, "history_us", lambda plan: whole(plan) // 2)
    assert not all(is_exact(query, seed) for seed in SEEDS)


def test_matches_of_the_warm_up_must_not_be_reported() -> None:
    class Keeping(ChangingPipeline):
        def _cut(self, change: Any) -> Any:
            found = dict(zip(reported(change.side.plan), (sink.table() for sink in change.side.sinks), strict=True))
            made = super()._cut(change)
            self._earlier = joined(self._earlier, found)
            return made

    assert not all(is_exact(FAR_BACK, seed, Keeping) for seed in SEEDS)


#: Joined from its end or from its beginning: then pairs that lack the last event are needed.
CHAIN = parse("PATTERN SEQ(A a, C c, E e) WITHIN 20 us")


@pytest.mark.parametrize("query", [PLAIN, CHAIN], ids=["two", "three"])
def test_a_plan_that_goes_on_absorbing_behind_the_cut_misses_matches(
    query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert all(is_exact(query, seed) for seed in SEEDS)
    absorb = Pipeline.absorb
    monkeypatch.setattr(Pipeline, "absorb", lambda self, keys: absorb(self, keys) if keys else None)
    assert not all(is_exact(query, seed) for seed in SEEDS)


def test_joins_that_lack_the_last_event_must_not_absorb(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(actors.group, "absorbing", lambda plan: {one.name for one in plan.operators})
    assert not all(is_exact(CHAIN, seed) for seed in SEEDS)


@pytest.mark.parametrize("off_us", [-1, 1])
def test_both_plans_need_the_same_watermark_at_the_cut(off_us: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new plan that is ahead decides a NOT early, and its decision is dropped; one that is behind decides again."""

    class Early(ChangingPipeline):
        def switch(self, plan: Plan) -> object:  # type: ignore[override]
            if off_us > 0:  # the old plan is ahead of the new one
                self._pipeline.advance(self._watermark_us + off_us)
            else:  # the new one is
                built = self._built

                def ahead(*arguments: Any) -> object:
                    pipeline = built(*arguments)
                    advance = pipeline.advance
                    pipeline.advance = lambda mark: advance(min(mark - off_us, END_OF_STREAM))  # type: ignore[method-assign]
                    return pipeline

                self._built = ahead  # type: ignore[assignment,method-assign]
            return super().switch(plan)

    assert not all(is_exact(FAR_BACK, seed, Early) for seed in SEEDS)
