"""What the scripts on adaptivity and on changes compute from what they have seen."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import decopa
from cluster.change.outcome import Switched
from cluster.change.switches import PlanSwitch
from scripts.adaptation.elastic import Phase, made_of, phases_of, verdicts
from scripts.adaptation.mirrored import enough_switches
from scripts.adaptation.mirrored import verdicts as mirrored_verdicts
from scripts.adaptation.offered import Followed, Pace, ids_of, stable_from
from scripts.adaptation.reaction import Reaction, first_after
from scripts.adaptation.stationary import poisson, rank_of_median
from scripts.benchmarks.changing.outcome import outcome_of, table
from scripts.benchmarks.changing.paced import Record, Span, least_per_second, per_second
from scripts.benchmarks.changing.setting import Setting, same_matches
from scripts.benchmarks.changing.watching import MemoryCurve, WatermarkWatch
from scripts.benchmarks.processes import processor_s, pss_of

PLAN = decopa.plan(
    "PATTERN SEQ(A a, B b) WITHIN 1 s", decopa.Statistics.of(1_000_000, {"A": 1.0, "B": 1.0}, {}), units=3
)


def switch(given_up: str | None = None, warm_up_s: float = 2.0) -> PlanSwitch:
    """One that was seen half a second after its cut."""
    times = {"warm_up_s": warm_up_s, "stall_s": 0.5, "given_up": given_up}
    return PlanSwitch(100, 1_000_000, "rate of A", "sustains more", 0.5, 1.0, 2.0, 0.0, PLAN, **times)


def test_events_are_due_by_the_speed_of_their_stretch() -> None:
    pace = Pace(((10.0, 1.0), (10.0, 3.0), (10.0, 1.0)))
    due_s = pace.due_s(np.array([0.0, 5.0, 10.0, 13.0, 40.0, 45.0, 60.0]))
    assert due_s.tolist() == pytest.approx([0, 5, 10, 11, 20, 25, 40])
    assert Pace.steady(4.0).due_s(np.array([8.0])).tolist() == [2.0]


def test_delays_are_stable_once_the_backlog_has_stopped_to_grow() -> None:
    grows = [(float(at), min(10.0, at / 2)) for at in range(60)]
    assert stable_from(grows, 0.0, 60.0, 10.0) == 2
    assert stable_from([(float(at), at / 2) for at in range(60)], 0.0, 60.0, 10.0) is None


def test_a_step_too_many_or_too_late_is_told() -> None:
    pace = Pace(((50.0, 1.0), (50.0, 3.0), (50.0, 1.0)))
    found = Followed(delays=[(float(at), 0.1) for at in range(150)])
    good = phases_of(found, [(55.0, 6), (110.0, 2)], pace)
    assert [phase.followed_s for phase in good] == [None, 5.0, 10.0]
    assert all(holds for _, holds in verdicts(good, 2))
    late = phases_of(found, [(55.0, 4), (58.0, 6), (120.0, 2)], pace)
    assert [holds for _, holds in verdicts(late, 2)] == [True, False, False, True, True, True, True]
    assert not any(holds for _, holds in verdicts(phases_of(found, [], pace), 2)[:2])


def test_only_changes_that_were_made_count() -> None:
    assert made_of([switch("no room"), switch()], [10.0, 20.0]) == [(20.0, 3)]
    assert enough_switches([switch(), switch()])[1]
    assert not enough_switches([switch(), switch("no room"), switch()])[1]
    assert not enough_switches([switch()])[1]


def test_a_reaction_is_to_a_change_of_the_stream_and_nothing_before() -> None:
    asked_before, given_up = switch(warm_up_s=8.0), switch("no room")
    seen = [10.0, 15.0, 16.5, 30.0]
    found = first_after([switch(), asked_before, given_up, switch()], seen, changed_s=12.0)
    assert found == Reaction(asked_s=15.5, cut_s=17.5)
    assert first_after([switch(), asked_before], seen[:2], changed_s=12.0) is None


def test_delays_that_grow_again_are_stable_from_later_on() -> None:
    """Windows of 10 s, phases of 6 of them: a backlog for 2 windows after the first change, for 4 after the second."""
    delays = [(float(at), 0.1) for at in range(60)]
    delays += [(60.0 + at, min(at, 20) / 2) for at in range(60)]
    delays += [(120.0 + at, min(at, 40) / 2) for at in range(60)]
    checks = mirrored_verdicts(Followed(delays=delays), 60.0, 10.0)
    assert [holds for _, holds in checks] == [True, False]
    assert "stable from window 2 on" in checks[0][0] and "stable from window 4 on" in checks[1][0]


def test_delays_count_once_a_change_has_settled() -> None:
    pace = Pace(((100.0, 1.0),))
    found = Followed(delays=[(20.0, 9.0), (30.0, 5.0), (40.0, 0.2)])
    (phase,) = phases_of(found, [(20.0, 3)], pace)
    assert phase == Phase(1.0, 0.0, 100.0, ((20.0, 3),), (0.2,))


def test_the_same_matches_are_as_many() -> None:
    one = pa.table({"a": [1, 2], "b": [3, 4], "c": [5, 6], "end_ts": [7, 8]})
    swapped, twice = one.take(pa.array([1, 0])), one.take(pa.array([0, 0, 1]))
    assert same_matches(one, swapped) and not same_matches(one, twice)
    assert ids_of(one).equals(ids_of(swapped)) and not ids_of(one).equals(ids_of(twice))


def test_the_second_with_the_least_progress_counts() -> None:
    """A step of 5 each 0.05 s, but for a pause of half a second, after which nothing is made up for."""
    seen = [(0.05 * step + (0.5 if step >= 80 else 0.0), 5 * step) for step in range(200)]
    assert 90 <= least_per_second(seen, 0.0, 3.0) <= 100
    assert 40 <= least_per_second(seen, 0.0, 8.0) <= 50
    caught_up = [(at_s, 5 * step + (1_000 if step >= 80 else 0)) for step, (at_s, _) in enumerate(seen)]
    assert least_per_second(caught_up, 0.0, 8.0) >= 40
    assert per_second(seen, 0.0, 3.0) == pytest.approx(100.0)


def test_an_outcome_tells_what_a_change_took() -> None:
    """1,000 events a second from 10 s on; at 20 s a change is asked for, and at 22 s nothing comes for 0.4 s."""
    record = Record(Setting(1_000, 1.0, 2, 1), [Span(20.0, 22.0, 22.5)], [Switched(0, 0, 70, 2.0, 0.4, 0.1)])
    record.paced = 10.0, 0
    record.fed = [(10.0 + 0.2 * block, 200 * block) for block in range(100)]
    watch = WatermarkWatch(list)
    watch.advanced = [(at_s, round(1e6 * at_s)) for at_s in np.arange(10.0, 30.0, 0.05) if not 21.99 < at_s < 22.39]
    record._watermarks = watch
    found = outcome_of("beside", record)
    assert found.extra_stalls_s[0] == pytest.approx(0.4, abs=0.06)
    assert found.throughputs == pytest.approx([1.0])
    assert found.least_before >= 0.9 and 0.5 <= found.least_shares[0] <= 0.65
    assert "NOT the same" in table([found]) and "| beside | 1 | 400.0 / 400.0 ms |" in table([found])
    with pytest.raises(SystemExit, match="after 1 of 2 changes"):
        outcome_of("beside", replace(record, setting=Setting(1_000, 1.0, 2, 2)))


def test_memory_is_that_before_the_request_at_most_and_after_the_cut() -> None:
    sizes = [(float(at), 100.0 if at < 20 else 230.0 if at < 25 else 105.0) for at in range(40)]
    memory = MemoryCurve(sizes).around(20.0, 23.0)
    assert (memory.before, memory.peak, memory.after) == (100.0, 230.0, 105.0)
    assert memory.ratios == (2.3, 1.05)


def test_proportional_sizes_are_read_in_bytes() -> None:
    rollup = "55d0-7ffe ---p 00000000 00:00 0 [rollup]\nRss:  3000 kB\nPss:  1200 kB\nPss_Anon:  900 kB\n"
    assert pss_of(rollup) == 1200 * 1024


def test_processor_time_is_counted_by_kind_and_new_processes_from_their_start() -> None:
    before, after = {1: ("driver", 2.0), 2: ("ray::Sink", 1.0)}, {1: ("driver", 3.5), 3: ("ray::Sink", 0.5)}
    assert processor_s(before, after) == {"driver": 1.5, "ray::Sink": 0.5}


def test_a_median_lies_between_ranks() -> None:
    """Tables of the sign test: of 10 values the 2nd and the 9th, of 20 the 6th and the 15th."""
    assert [rank_of_median(count) for count in (5, 6, 10, 20)] == [None, 0, 1, 5]


def test_a_trace_made_stationary_keeps_its_density_and_its_types() -> None:
    ts = np.sort(np.concatenate([np.arange(1_000), 1_000_000 + np.arange(9_000)])) * 1_000
    table = pa.table({"id": np.arange(10_000), "ts": ts, "type": ["A", "B"] * 5_000})
    made = poisson(table, "ts", 20_000, seed=1)
    times = made.column("ts").to_numpy()
    assert (np.diff(times) >= 0).all() and len(set(made.column("id").to_pylist())) == 20_000
    assert times[-1] - times[0] == pytest.approx(2 * (ts[-1] - ts[0]), rel=0.01)
    halves = np.histogram(times, bins=2)[0]
    assert halves[0] == pytest.approx(halves[1], rel=0.05)
    assert made.column("type").to_pylist().count("A") == pytest.approx(10_000, rel=0.05)


def test_a_longer_window_has_more_events_and_not_more_matches_a_second() -> None:
    short, long = Setting(1_000, 1.0, 2, 1), Setting(1_000, 10.0, 2, 1)
    assert long.fill_us == 10 * short.fill_us
    assert short.splits[0] == short.widths[0] and short.splits[1] != short.widths[1]
    assert math.isclose(short.query.window_us * 10, long.query.window_us)
