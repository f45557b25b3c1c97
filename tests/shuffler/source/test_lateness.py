"""Live streams out of order: what is put back in order, what is late, and what is said about it."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from decopa.api import run
from decopa.errors import TraceError
from shuffler.source.lateness import Lateness
from shuffler.source.trace import TraceSource, open_trace
from tests.support.small_traces import trace

FEW_EXAMPLES = settings(max_examples=25, deadline=None)
#: Where a stream is cut into batches; equal cuts make empty ones.
CUTS = st.lists(st.integers(0, 60), max_size=8)


def cut_up(table: pa.Table, cuts: list[int]) -> Iterator[pa.RecordBatch]:
    """The table as a stream of batches, the last of them empty."""
    (whole,) = table.combine_chunks().to_batches() or [pa.RecordBatch.from_pylist([], schema=table.schema)]
    ends = sorted([0, *(min(cut, len(table)) for cut in cuts), len(table)])
    for start, end in itertools.pairwise(ends):
        yield whole.slice(start, end - start)
    yield whole.slice(0, 0)


def opened(times: list[int], allowed_us: int, policy: str = "fail", cuts: list[int] | None = None) -> TraceSource:
    """A stream of events at these times, with ids in the order of arrival, in batches of one unless cut otherwise."""
    table = trace(ts=pa.array(times, pa.int64()))
    cuts = list(range(len(times))) if cuts is None else cuts
    return open_trace(cut_up(table, cuts), lateness=Lateness(allowed_us, policy))  # type: ignore[arg-type]


def ids_of(source: TraceSource, batch_size: int = 1_000) -> list[int]:
    return [event for batch in source.batches([], batch_size) for event in batch.ids.tolist()]


def referee(times: list[int], allowed_us: int) -> tuple[list[int], list[int]]:
    """Rows in the order in which they leave, and rows that are late, found event by event."""
    held: list[tuple[int, int]] = []
    left: list[tuple[int, int]] = []
    late: list[int] = []
    newest = -(10**9)
    for row, time in enumerate(times):
        if left and time < left[-1][0]:
            late.append(row)
            continue
        newest = max(newest, time)
        held = sorted([*held, (time, row)])
        while held and held[0][0] <= newest - allowed_us:
            left.append(held.pop(0))
    return [row for _, row in left + held], late


@st.composite
def shuffled_within(draw: st.DrawFn) -> tuple[list[int], int]:
    """Times, each at most so many microseconds behind an earlier one."""
    allowed_us = draw(st.integers(0, 20))
    events = draw(st.lists(st.tuples(st.integers(0, 60), st.integers(0, allowed_us)), max_size=60))
    # Each event is sent on at its time and arrives after a delay of its own.
    return [time for time, _ in sorted(events, key=lambda event: event[0] + event[1])], allowed_us


# ------------------------------------------------------------------ order


@given(stream=shuffled_within(), cuts=CUTS, batch_size=st.integers(1, 70))
def test_a_stream_within_its_lateness_comes_out_sorted(
    stream: tuple[list[int], int], cuts: list[int], batch_size: int
) -> None:
    times, allowed_us = stream
    source = opened(times, allowed_us, cuts=cuts)
    batches = list(source.batches(["ts"], batch_size))
    assert [row for batch in batches for row in batch.ids.tolist()] == sorted(
        range(len(times)), key=lambda row: times[row]
    )
    assert [time for batch in batches for time in batch.columns["ts"].tolist()] == sorted(times)
    assert [batch.first_ordinal for batch in batches] == list(itertools.accumulate(map(len, batches), initial=0))[:-1]
    assert (source.late_events, source.held_rows, source.notices) == (0, 0, [])


@FEW_EXAMPLES
@given(stream=shuffled_within(), cuts=CUTS, draw=st.randoms(use_true_random=False), text_ids=st.booleans())
def test_a_stream_within_its_lateness_has_the_matches_of_the_sorted_one(
    stream: tuple[list[int], int], cuts: list[int], draw: random.Random, text_ids: bool
) -> None:
    times, allowed_us = stream
    rows = len(times)
    kinds, keys = (np.array([draw.choice(letters) for _ in times], dtype=object) for letters in ("ABC", "uv"))
    ids = (
        pa.array([f"e{row:02}" for row in range(rows)], pa.string()) if text_ids else pa.array(range(rows), pa.int64())
    )
    table = pa.table(
        {
            "id": ids,
            "ts": pa.array(times, pa.int64()),
            "type": pa.array(kinds, pa.string()),
            "k": pa.array(keys, pa.string()).dictionary_encode(),
        }
    )
    query = "PATTERN SEQ(A a, B b) WHERE a.k = b.k WITHIN 15 us RETURN a.k"
    late = run(query, open_trace(cut_up(table, cuts), lateness=Lateness(allowed_us)))
    assert late.equals(run(query, table))


def test_equal_times_leave_in_the_order_of_arrival() -> None:
    source = opened([5, 3, 5, 3, 5, 9, 5, 3], allowed_us=6)
    assert ids_of(source) == [1, 3, 7, 0, 2, 4, 6, 5]


def test_an_event_waits_until_none_before_it_can_come() -> None:
    source = opened([10, 19, 20, 25, 29, 100], allowed_us=10)
    seen = [(batch.ts.tolist(), source.held_rows) for batch in source.batches([], 100)]
    # 10 leaves with 20, for an event at 10 that comes now would still be in order; 19 with 29; the last at the end.
    assert seen == [([10], 2), ([19], 3), ([20, 25, 29], 1), ([100], 0)]


def test_without_lateness_nothing_is_held() -> None:
    source = opened([1, 2, 2, 3], allowed_us=0, cuts=[2])
    assert [(batch.ts.tolist(), source.held_rows) for batch in source.batches([], 100)] == [([1, 2], 0), ([2, 3], 0)]


def test_all_that_is_held_leaves_at_the_end_in_blocks() -> None:
    source = opened(list(range(10))[::-1], allowed_us=100)
    assert [batch.rows.num_rows for batch in source.blocks([], 4)] == [4, 4, 2]


def test_small_batches_with_many_rows_held_stay_in_order() -> None:
    draw = np.random.default_rng(7)
    times = np.arange(3_000) - draw.integers(0, 500, 3_000)
    table = trace(ts=times)
    source = open_trace(cut_up(table, list(range(0, 3_000, 7))), lateness=Lateness(1_000))
    held = []
    ids = []
    for batch in source.batches([], 1_000):
        held.append(source.held_rows)
        ids += batch.ids.tolist()
    assert ids == np.argsort(times, kind="stable").tolist()
    assert 500 < max(held) <= 1_500


def test_a_stream_of_empty_batches_has_no_events() -> None:
    assert ids_of(opened([], allowed_us=10, cuts=[0, 0])) == []


def test_times_at_both_ends_of_the_range_are_ordered() -> None:
    far = 2**62
    # Nothing has left when it comes, so even an event of 2 * far ago is not late.
    assert ids_of(opened([far, -far], allowed_us=far)) == [1, 0]
    assert ids_of(opened([-far, far, 0, far], allowed_us=far)) == [0, 2, 1, 3]
    source = opened([far, -far], allowed_us=0, policy="drop")
    assert ids_of(source) == [0]
    assert f"up to {2 * far:,} us behind" in source.notices[0]


# ------------------------------------------------------------------ late events


@given(times=st.lists(st.integers(0, 60), max_size=60), allowed_us=st.integers(0, 40), cuts=CUTS)
def test_exactly_the_late_events_are_dropped_wherever_the_stream_is_cut(
    times: list[int], allowed_us: int, cuts: list[int]
) -> None:
    kept, late = referee(times, allowed_us)
    source = opened(times, allowed_us, "drop", cuts)
    assert ids_of(source) == kept
    assert source.late_events == len(late)
    if late:
        most = max(max(times[:row]) - times[row] for row in late)
        events = "event" if len(late) == 1 else "events"
        assert source.notices == [
            f"dropped {len(late)} late {events}: up to {most} us behind the newest, and {allowed_us} us are allowed"
        ]
    else:
        assert source.notices == []


@given(times=st.lists(st.integers(0, 60), max_size=60), allowed_us=st.integers(0, 40), cuts=CUTS)
def test_the_first_late_event_is_refused_by_its_row(times: list[int], allowed_us: int, cuts: list[int]) -> None:
    kept, late = referee(times, allowed_us)
    source = opened(times, allowed_us, cuts=cuts)
    if not late:
        assert ids_of(source) == kept
        return
    with pytest.raises(TraceError, match=f"row {late[0] + 1}: {times[late[0]]} is earlier than the row before;"):
        ids_of(source)
    assert times[late[0]] < times[late[0] - 1]


def test_a_late_event_is_refused_with_how_late_it_is_and_what_to_do() -> None:
    with pytest.raises(TraceError) as caught:
        ids_of(opened([10, 1_030, 2_000, 3_000, 1_020], allowed_us=1_500))
    assert str(caught.value) == (
        "the stream: column 'ts', row 5: 1020 is earlier than the row before; a live stream must come in time order "
        "up to the allowed lateness of 1,500 us, and this is 1,980 us behind the newest event; allow more lateness "
        "with --allowed-lateness, or --late drop"
    )


def test_an_event_of_the_time_that_left_last_is_still_in_order() -> None:
    source = opened([10, 30, 10, 20, 10], allowed_us=10, policy="drop")
    # 20 leaves at once, because 30 has come; then 10 is late, though it was not before.
    assert ids_of(source) == [0, 2, 3, 1]
    assert source.late_events == 1


@pytest.mark.parametrize("cuts", [[], [1], [2], [3], [1, 2, 3]])
def test_an_event_is_late_as_soon_as_a_later_one_is_as_old_as_allowed(cuts: list[int]) -> None:
    # 10 leaves with 20, so that 5 is late, whether 10 was held from an earlier batch or came in the same one.
    source = opened([10, 15, 20, 5], allowed_us=10, policy="drop", cuts=cuts)
    assert ids_of(source) == [0, 1, 2]
    source = opened([10, 15, 19, 5], allowed_us=10, policy="drop", cuts=cuts)
    assert ids_of(source) == [3, 0, 1, 2]


@pytest.mark.parametrize("cuts", [[], [3], [1, 2, 3]])
def test_an_event_is_late_if_the_last_of_several_that_left_together_is_later(cuts: list[int]) -> None:
    source = opened([10, 20, 35, 15], allowed_us=10, policy="drop", cuts=cuts)
    assert ids_of(source) == [0, 1, 2]


def test_late_events_are_counted_as_they_come() -> None:
    source = opened([10, 5, 20, 6, 7], allowed_us=0, policy="drop")
    assert [source.late_events for _ in source.batches([], 10)] == [0, 1]
    assert source.late_events == 3
    assert source.notices == ["dropped 3 late events: up to 14 us behind the newest, and 0 us are allowed"]


def test_the_matches_are_those_of_the_events_that_were_not_late() -> None:
    table = trace(id=[1, 2, 3, 4], ts=[10, 30, 5, 31], type=["A", "B", "A", "B"])
    source = open_trace(cut_up(table, [1, 2, 3]), lateness=Lateness(2, "drop"))
    matches = run("PATTERN SEQ(A a, B b) WITHIN 1 ms", source)
    assert matches.select(["a", "b"]).to_pylist() == [{"a": 1, "b": 2}, {"a": 1, "b": 4}]


def test_a_stored_trace_is_sorted_as_a_whole() -> None:
    source = open_trace(trace(ts=[30, 10, 20]), lateness=Lateness(0, "fail"))
    assert ids_of(source) == [1, 2, 0]
    assert (source.late_events, source.held_rows) == (0, 0)


# ------------------------------------------------------------------ rows and columns


def test_other_errors_name_the_row_as_it_arrived() -> None:
    table = trace(ts=[30, 20, 10, 50], x=[1.0, float("nan"), 2.0, 3.0])
    for cuts in ([], [1], [1, 2, 3]):
        source = open_trace(cut_up(table, cuts), lateness=Lateness(30))
        with pytest.raises(TraceError, match="column 'x', row 2: NaN"):
            list(source.batches(["x"], 10))


def test_rows_are_named_right_after_late_ones_were_dropped() -> None:
    table = trace(ts=[30, 10, 40, 35], x=[1.0, 2.0, 3.0, float("nan")])
    for cuts in ([], [1], [1, 2, 3]):
        source = open_trace(cut_up(table, cuts), lateness=Lateness(10, "drop"))
        with pytest.raises(TraceError, match="column 'x', row 4: NaN"):
            list(source.batches(["x"], 10))


def test_ids_that_repeat_within_an_arriving_batch_are_refused() -> None:
    table = trace(id=[7, 5, 4, 5], ts=[9, 8, 7, 6])
    source = open_trace(cut_up(table, [1]), lateness=Lateness(10))
    with pytest.raises(TraceError, match="row 4: id 5 was used in row 2 already"):
        ids_of(source)


@pytest.mark.parametrize("index", [pa.int8(), pa.int32()])
def test_batches_may_have_dictionaries_of_their_own(index: pa.DataType) -> None:
    # 3 x 100 strings do not fit the 127 of an int8 together, but each batch has its own.
    texts = [[f"{batch}-{row}" for row in range(100)] for batch in range(3)]
    tables = [
        trace(
            id=np.arange(100) + 100 * batch,
            ts=np.arange(100)[::-1] + 10 * batch,
            type=pa.array(["A", "B"] if batch != 1 else ["B", "A"]).dictionary_encode().take(pa.array([0, 1] * 50)),
            x=pa.array(texts[batch], pa.dictionary(index, pa.string())),
        )
        for batch in range(3)
    ]
    events = (batch for table in tables for batch in table.to_batches())
    source = open_trace(events, lateness=Lateness(1_000))
    (batch,) = source.batches(["x"], 1_000)
    order = np.argsort(np.concatenate([table["ts"].to_numpy() for table in tables]), kind="stable")
    assert batch.ids.tolist() == order.tolist()
    assert source.strings.decode(batch.columns["x"]).to_pylist() == [texts[row // 100][row % 100] for row in order]
    kinds = [kind for table in tables for kind in table["type"].to_pylist()]
    assert [batch.type_names[code] for code in batch.type_codes] == [kinds[row] for row in order]


def test_timestamps_keep_their_unit() -> None:
    table = trace(ts=pa.array([3, 1, 2], pa.timestamp("ms")))
    source = open_trace(cut_up(table, [1, 2]), lateness=Lateness(2_000))
    assert [batch.ts.tolist() for batch in source.batches([], 10)] == [[1_000], [2_000, 3_000]]


# ------------------------------------------------------------------ settings


@pytest.mark.parametrize("allowed", [-1, 2**62 + 1, 0.5, "10 s"])
def test_a_lateness_that_is_no_length_of_time_is_refused(allowed: object) -> None:
    with pytest.raises(TraceError, match=r"must be 0 to 2\^62 whole microseconds, got .*; change --allowed-lateness"):
        Lateness(allowed)  # type: ignore[arg-type]


def test_an_unknown_policy_is_refused() -> None:
    with pytest.raises(TraceError, match="unknown policy for late events 'keep'; choose --late fail or drop"):
        Lateness(policy="keep")  # type: ignore[arg-type]
