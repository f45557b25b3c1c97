"""Saved states: whole or refused, bound to their plan, and dealt out anew as the new plan would have done."""

from __future__ import annotations

import hashlib
import re
import struct
from dataclasses import replace
from itertools import chain, combinations
from random import Random

import numpy as np
import pytest

from actors.columnar.jit import interpreted
from actors.group import GroupState
from actors.operators.kleene import KleeneBinaryLogic
from actors.state.codec import ShufflerState, UnitsCodec, UnitsState, decode_shuffler, encode_shuffler
from actors.state.file import MAGIC, VERSION, read_state, write_state
from actors.state.migrate import rescale, rescale_feeders
from actors.unit import Channel
from decopa.errors import CheckpointError
from decopa.planning.plan import Plan, QueryPlan
from shuffler.routing.table import NOTHING_YET, RoutingTable
from shuffler.rows.batch import Batch, length_of, start_of
from shuffler.rows.strings import StringPool
from tests.support.engine import table_of
from tests.support.plan_text import operator, plan_of
from tests.support.resuming import ResumableRun

HEAD = struct.Struct("<16sQQ32s")


def join_plan(units: int = 1) -> QueryPlan:
    """A is dealt out among the units of the join, B goes to all of them."""
    a, b = operator("a", "a", partitioned=True), operator("b", "b")
    return plan_of("AND(A a, B b)", a, b, operator("ab", "a b", "a b", units=units), where="a.s != b.s")


def kleene_plan(*, unary: bool = False, units: int = 1) -> QueryPlan:
    """Groups of B events around each A, by a binary split in which A is dealt out, or by a unary one."""
    a, b = operator("a", "a", partitioned=not unary), operator("b", "b")
    operators = [a, b, operator("ab", "a b*", "a b", units=units)]
    if unary:
        operators[2:] = operator("pairs", "a b", "a b", partitioned=True), operator("ab", "a b*", "pairs", units=units)
    plan = plan_of("AND(A a, KL(B b))", *operators, where="b.s != a.s")
    return replace(plan, query=replace(plan.query, window_us=8))  # a group is any subset of the events in a window


def negation_plan(units: int = 1) -> QueryPlan:
    """A waits until the window has passed, in case a B follows it."""
    a, b = operator("a", "a", partitioned=True), operator("b", "b")
    return plan_of("SEQ(A a, NOT(B b))", a, b, operator("ab", "a b", "a b", units=units), where="a.s = b.s")


RULES = {
    "join": join_plan(),
    "kleene-unary": kleene_plan(unary=True),
    "kleene-binary": kleene_plan(),
    "negation": negation_plan(),
}


def started(plan: QueryPlan, events: int = 12, *, stop: int | None = None, shufflers: int = 1) -> ResumableRun:
    """A run that has seen A and B events in turn, a microsecond apart, or the first `stop` of them."""
    rows = [{"id": n, "ts": n, "type": "AB"[n % 2], "s": "xyz"[n % 3]} for n in range(events)]
    run = ResumableRun(Plan((plan,)), table_of(rows, {"s": str}), Random(1), shufflers=shufflers)
    with interpreted():
        run.feed(0, events if stop is None else stop, 1)
    return run


def codec_of(run: ResumableRun, strings: StringPool | None = None) -> UnitsCodec:
    return UnitsCodec(run.routing[0], run.bounds[0], strings or run.strings, key="q")


def saved(run: ResumableRun) -> bytes:
    return codec_of(run).encode(UnitsState("q", 0, run.groups[0][0].snapshot(), {"events": 12}))


def sealed(payload: bytes, version: int = VERSION) -> bytes:
    return HEAD.pack(MAGIC, version, len(payload), hashlib.sha256(payload).digest()) + payload


def ids(rows: Batch, column: str) -> list[int]:
    return sorted(rows.columns[column].tolist())


def assert_refused(content: bytes, run: ResumableRun) -> str:
    return assert_refused_by(codec_of(run), content)


def assert_refused_by(codec: UnitsCodec, content: bytes) -> str:
    with pytest.raises(CheckpointError) as refusal:
        codec.decode(content, "units.state")
    message = str(refusal.value)
    assert message.startswith("units.state ")
    assert "\n" not in message
    return message


# --------------------------------------------------------------------- states
@pytest.mark.parametrize("rule", RULES)
def test_a_state_survives_its_file_with_codes_of_the_reader(rule: str) -> None:
    run = started(RULES[rule])
    strings = StringPool()
    strings.pin("z")  # so that codes differ
    content = saved(run)
    state = codec_of(run, strings).decode(content, "units.state")
    assert state.numbers == {"events": 12}
    assert sum(rows.length for rows in state.group.units["ab", 0].logic.rows.values()) > 0
    # Back in the first process strings have the codes they had, so the same bytes come out.
    again = codec_of(run).decode(codec_of(run, strings).encode(state), "again")
    assert codec_of(run).encode(again) == content


@pytest.mark.parametrize("rule", RULES)
def test_a_snapshot_stays_as_it_is_when_the_units_go_on(rule: str) -> None:
    run = started(RULES[rule], 60, stop=20)
    codec, state = codec_of(run), UnitsState("q", 0, run.groups[0][0].snapshot())
    before = codec.encode(state)
    with interpreted():
        run.feed(20, 60, 7)
        run.finish()
    assert codec.encode(state) == before
    assert saved(run) != before


@pytest.mark.parametrize("plan", [join_plan(), kleene_plan(), negation_plan()])
@pytest.mark.parametrize("marks", [(5, 9), (9, 5)])
def test_each_side_goes_on_at_its_own_watermark(plan: QueryPlan, marks: tuple[int, int]) -> None:
    run, other = started(plan, 0), started(plan, 0)
    (group,), (restored,) = run.groups[0], other.groups[0]
    for side, mark in enumerate(marks):
        group.accept("ab", 0, Channel(side, f"{'ab'[side]}/shuffler0"), mark)
    group.drain()
    assert group.snapshot().units["ab", 0].logic.watermarks == marks
    restored.restore(group.snapshot())
    assert saved(other) == saved(run)
    ours, theirs = (one.units["ab", 0] for one in (restored, group))
    assert ours.output_watermark_us == theirs.output_watermark_us
    if isinstance(ours.logic, KleeneBinaryLogic):
        assert ours.logic._closure._watermark == marks[1]  # families grow by B events


def test_only_rows_that_something_can_still_meet_are_saved() -> None:
    a, b = operator("a", "a"), operator("b", "b")
    plan = plan_of("SEQ(A a, B b)", a, b, operator("ab", "a b", "a b"))
    rows = started(replace(plan, query=replace(plan.query, window_us=4)), 40).groups[0][0].snapshot()
    held = rows.units["ab", 0].logic.rows
    assert ids(held["side 0"], "a.id") == [36, 38]
    assert held["side 1"].length == 0  # no A can come before a B that has been passed


def test_a_group_with_messages_on_their_way_has_no_snapshot() -> None:
    run = started(join_plan())
    (group,) = run.groups[0]
    inbox = next(iter(group._inboxes.values()))
    inbox.messages.append(99)
    with pytest.raises(AssertionError, match="drain"):
        group.snapshot()


# ---------------------------------------------------------------------- files
def test_a_file_that_ends_too_early_is_refused_wherever_it_ends() -> None:
    run = started(join_plan(), 4)
    content, codec = saved(run), codec_of(run)
    for length in range(len(content)):
        assert_refused_by(codec, content[:length])
    assert "bytes and has" in assert_refused_by(codec, content + b"\0")


def test_a_file_with_any_byte_changed_is_refused() -> None:
    run = started(join_plan(), 4)
    content, codec, chaos = bytearray(saved(run)), codec_of(run), Random(3)
    for place in range(len(content)):
        flipped = 1 << chaos.randrange(8)
        content[place] ^= flipped
        assert_refused_by(codec, bytes(content))
        content[place] ^= flipped
    codec.decode(bytes(content), "units.state")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "cut off after 0 bytes"),
        (b"decopa-state", "cut off after 12 bytes"),
        (b"PAR1" + bytes(100), "is no state of a decopa process; it begins with b'PAR1"),
        (MAGIC.replace(b"\r\n", b"\n") + bytes(100), "is no state of a decopa process"),
        (sealed(b"", version=2), "has version 2, this decopa reads version 1"),
        (sealed(b"ARROW1\0\0"), "is no state that this decopa wrote"),
        (sealed(b""), "is no state that this decopa wrote"),
        (write_state({}, ()), "is no state that this decopa wrote: KeyError: 'kind'"),
        (write_state({"kind": "units", "plan": []}, ()), "is no state that this decopa wrote"),
    ],
)
def test_what_is_no_state_is_refused_with_the_reason(content: bytes, problem: str) -> None:
    assert problem in assert_refused(content, started(join_plan(), 0))


def test_a_header_with_values_that_make_no_sense_is_refused() -> None:
    run = started(join_plan())
    header, rows = read_state(saved(run), "units.state")
    unit = header["units"][0]
    for name, value in {
        "watermarks": [1],
        "channels": [[0, "x"]],
        "counters": {"ingested": 1.5},
        "sender": {"watermark_us": 2**63, "turns": []},
        "unit": 1,
        "operator": "a",
    }.items():
        assert_refused(write_state({**header, "units": [{**unit, name: value}]}, rows), run)
    assert_refused(write_state({**header, "units": []}, rows), run)
    assert_refused(write_state({**header, "units": [unit, unit]}, rows), run)
    assert_refused(write_state(header, rows[1:]), run)
    assert_refused(write_state(header, [replace(rows[0], length=1), *rows[1:]]), run)
    assert_refused(write_state(header, [replace(rows[0], columns="min_ts int64"), *rows[1:]]), run)
    assert_refused(write_state(header, [replace(rows[0], encoded=rows[0].encoded[:1]), *rows[1:]]), run)
    assert_refused(write_state(header, [replace(rows[0], encoded=rows[1].encoded[::-1]), *rows[1:]]), run)


@pytest.mark.parametrize("rule", RULES)
def test_a_forged_checksum_leads_to_a_refusal_or_to_other_values_but_no_further(rule: str) -> None:
    run = started(RULES[rule])
    payload, codec, chaos = saved(run)[HEAD.size :], codec_of(run), Random(5)
    refused = 0
    for _ in range(150):
        forged = bytearray(payload)
        for _ in range(chaos.choice((1, 2, 5))):
            forged[chaos.randrange(len(forged))] = chaos.choice((0, 1, 255, chaos.randrange(256)))
        try:
            codec.decode(sealed(bytes(forged)), "units.state")
        except CheckpointError:
            refused += 1
    assert refused > 50


# ---------------------------------------------------------------------- plans
def test_a_state_goes_to_its_own_plan_only() -> None:
    run = started(join_plan())
    content = saved(run)
    assert "rescale it first" in assert_refused(content, started(join_plan(units=2)))
    assert "another query: QUERY q PATTERN AND(A a, B b)" in assert_refused(content, started(negation_plan()))
    swapped = join_plan()
    swapped = replace(swapped, operators=(*swapped.operators[:2], operator("ab", "a b", "b a")))
    assert "another plan: operator ab differs" in assert_refused(content, started(swapped))
    with pytest.raises(CheckpointError, match="is of part q of the plan, not of part other"):
        UnitsCodec(run.routing[0], run.bounds[0], run.strings, key="other", place=1).decode(content, "units.state")
    with pytest.raises(CheckpointError, match="is the state of units, not of shuffler"):
        decode_shuffler(run.routing, content, "units.state")


def test_units_refuse_a_state_without_them_or_with_other_senders() -> None:
    run, other = started(join_plan()), started(join_plan(units=2))
    state = run.groups[0][0].snapshot()
    with pytest.raises(CheckpointError, match="no state of unit ab/1; rescale"):
        other.groups[0][0].restore(state)
    with pytest.raises(CheckpointError, match="other senders"):
        started(join_plan(), shufflers=2).groups[0][0].restore(state)
    (senders,) = run.feeders[0][0].snapshot()
    with pytest.raises(CheckpointError, match="other receivers"):
        run.feeders[0][0].restore(({**senders, "a": replace(senders["a"], turns=())},))
    with pytest.raises(CheckpointError, match="other leaves or slices"):
        run.feeders[0][0].restore(({},))


def test_a_shuffler_goes_on_with_the_unit_whose_turn_it_is() -> None:
    run = started(join_plan(units=2), 9, shufflers=2)
    states = [feeder.snapshot() for feeder in run.feeders[0]]
    content = encode_shuffler(run.routing, ShufflerState(1, (states[1],), {"events": 7}))
    assert decode_shuffler(run.routing, content, "shuffler.state") == ShufflerState(1, (states[1],), {"events": 7})
    assert {state[0]["a"].turns for state in states} == {(0,), (1,)}  # five A events
    with pytest.raises(CheckpointError, match="of 1 queries, the plan has 2"):
        decode_shuffler(run.routing * 2, content, "shuffler.state")


# ------------------------------------------------------------------ rescaling
def test_dealt_out_rows_are_spread_and_broadcast_ones_are_everywhere() -> None:
    run = started(join_plan(units=2), 40, shufflers=2)
    new = RoutingTable(join_plan(units=3), 4)
    state = run.groups[0][0].snapshot()
    result = rescale(run.routing[0], new, [state])
    units = [result.units["ab", number] for number in range(3)]
    assert [unit.logic.rows["side 0"].length for unit in units] == [7, 7, 6]
    assert sorted(one for unit in units for one in ids(unit.logic.rows["side 0"], "a.id")) == list(range(0, 40, 2))
    assert all(ids(unit.logic.rows["side 1"], "b.id") == list(range(1, 40, 2)) for unit in units)
    assert [unit.counters.ingested for unit in units] == [60, 0, 0]
    marks = {mark for unit in units for mark in unit.watermarks.values()}
    assert marks == {min(min(feeder.snapshot()[0]["a"].watermark_us for feeder in run.feeders[0]), 39)}
    assert {channel.sender for channel in units[0].watermarks} == {
        f"{leaf}/shuffler{n}" for leaf in "ab" for n in range(4)
    }
    feeders = rescale_feeders(run.routing[0], new, [feeder.snapshot() for feeder in run.feeders[0]])
    assert len(feeders) == 4
    assert {feeder[0]["a"].watermark_us for feeder in feeders} == marks


def test_strip_matches_go_where_the_match_is_that_they_extend() -> None:
    run = started(kleene_plan(units=3), 40)
    result = rescale(run.routing[0], RoutingTable(kleene_plan(units=2)), [run.groups[0][0].snapshot()])
    homes = [set(ids(result.units["ab", number].logic.rows["side 0"], "a.id")) for number in range(2)]
    assert homes[0] and homes[1] and not homes[0] & homes[1]
    for number in range(2):
        assert set(ids(result.units["ab", number].logic.rows["families"], "a.id")) <= homes[number]


def test_a_negated_match_that_one_unit_has_forgotten_comes_from_another() -> None:
    run = started(negation_plan(units=2))
    state = run.groups[0][0].snapshot()
    first = state.units["ab", 0]
    forgetful = replace(first, logic=replace(first.logic, rows={
        **first.logic.rows, "negated": first.logic.rows["negated"].take(np.arange(2))}))  # fmt: skip
    torn = GroupState({**state.units, ("ab", 0): forgetful}, state.senders)
    result = rescale(run.routing[0], RoutingTable(negation_plan(units=3)), [torn])
    assert [ids(result.units["ab", number].logic.rows["negated"], "b.id") for number in range(3)] == [
        [1, 3, 5, 7, 9, 11]
    ] * 3
    assert sorted(one for unit in result.units.values() for one in ids(unit.logic.rows["pending"], "a.id")) == list(
        range(0, 12, 2)
    )


def test_rows_with_groups_are_united_by_the_members_of_their_groups() -> None:
    def plan(units: int) -> QueryPlan:
        bs = operator("bs", "b*", "b")
        whole = operator("abs", "a b*", "a bs", units=units)
        return plan_of("AND(A a, KL(B b))", operator("a", "a", partitioned=True), operator("b", "b"), bs, whole)

    run = started(plan(2), 8)
    state = run.groups[0][0].snapshot()
    second = state.units["abs", 1]
    some = second.logic.rows["side 1"].take(np.array([14, 2, 0]))
    units = {**state.units, ("abs", 1): replace(second, logic=replace(second.logic, rows={
        **second.logic.rows, "side 1": some}))}  # fmt: skip
    result = rescale(run.routing[0], RoutingTable(plan(3)), [GroupState(units, state.senders)])
    for number in range(3):
        rows = result.units["abs", number].logic.rows["side 1"]
        groups = zip(rows.columns[start_of("b")].tolist(), rows.columns[length_of("b")].tolist(), strict=True)
        found = [tuple(rows.heaps["b"]["id"][start : start + length].tolist()) for start, length in groups]
        members = (1, 3, 5, 7)
        assert sorted(found) == sorted(chain.from_iterable(combinations(members, size) for size in range(1, 5)))


def test_another_query_split_or_slices_cannot_be_rescaled() -> None:
    run = started(join_plan())
    (old,), state = run.routing, run.groups[0][0].snapshot()
    swapped = replace(old.plan, operators=(*old.plan.operators[:2], operator("ab", "a b", "b a")))
    for plan, problem in [
        (negation_plan(), "another query"),
        (swapped, "another plan: operator ab differs"),
        (replace(old.plan, slices=2), "slices cannot be rescaled"),
    ]:
        with pytest.raises(CheckpointError, match=re.escape(problem)):
            rescale(old, RoutingTable(plan), [state])
    with pytest.raises(CheckpointError, match="no state of unit ab/0; it is not complete"):
        rescale(old, old, [GroupState({}, {})])
    with pytest.raises(CheckpointError, match="1 of 2 shufflers"):
        rescale_feeders(RoutingTable(old.plan, 2), old, [run.feeders[0][0].snapshot()])


def test_nothing_has_been_promised_before_the_first_event() -> None:
    run = started(join_plan(units=2), 0)
    result = rescale(run.routing[0], RoutingTable(join_plan(units=3)), [run.groups[0][0].snapshot()])
    assert {unit.logic.watermarks for unit in result.units.values()} == {(NOTHING_YET, NOTHING_YET)}
