"""Emulated links: when messages arrive, and that none is lost or overtaken."""

from __future__ import annotations

import pyarrow as pa
import pytest

from shuffler.exchange.channel import Message
from shuffler.exchange.link_emulation import EmulatedLinks, LinkSchedule, LinkSpeed, size_of


def message(number: int, size: int = 84) -> Message:
    return Message("n0/source", 0, number, ((0, (pa.py_buffer(bytes(size)),)),), ((0, 7),))


def test_bytes_of_one_link_leave_one_after_the_other_and_latency_adds_to_each() -> None:
    schedule = LinkSchedule(LinkSpeed(bytes_per_s=100.0, latency_s=0.5))
    assert schedule.arrival(100, 10.0) == pytest.approx(11.5)
    assert schedule.arrival(50, 10.0) == pytest.approx(12.0)  # the first one holds the link until 11.0
    assert schedule.arrival(50, 20.0) == pytest.approx(21.0)


def test_a_link_of_any_bandwidth_only_delays() -> None:
    schedule = LinkSchedule(LinkSpeed(latency_s=0.25))
    assert [schedule.arrival(10**9, 1.0), schedule.arrival(1, 1.0)] == [1.25, 1.25]


def test_rows_and_watermarks_count_as_in_the_report_of_traffic() -> None:
    assert size_of(message(0)) == 84 + 16


def test_messages_arrive_in_order_and_not_before_their_time() -> None:
    now = [0.0]
    arrived: list[tuple[str, int, float]] = []

    def pass_time(seconds: float) -> None:
        now[0] += seconds

    links = EmulatedLinks(
        lambda target, one: arrived.append((target, one.sequence, now[0])),
        {"slow": LinkSpeed(bytes_per_s=100.0), "near": LinkSpeed()},
        clock=lambda: now[0],
        sleep=pass_time,
    )
    links.send("slow", message(0))
    links.wait_for_all()
    links.send("slow", message(1))
    links.wait_for_all()
    links.send("near", message(0))
    assert arrived == [("slow", 0, 1.0), ("slow", 1, 2.0), ("near", 0, 2.0)]


def test_what_goes_wrong_on_the_way_is_raised_by_whoever_sends_or_waits() -> None:
    def fail(target: str, one: Message) -> None:
        raise RuntimeError(f"{target} is gone")

    links = EmulatedLinks(fail, {"far": LinkSpeed(latency_s=1e-9)})
    links.send("far", message(0))
    with pytest.raises(RuntimeError, match="far is gone"):
        links.wait_for_all()
    with pytest.raises(RuntimeError, match="far is gone"):
        links.send("far", message(1))
