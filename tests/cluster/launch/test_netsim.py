"""The switch of the tests: delay, rate and loss as asked for, frames where they belong."""

from __future__ import annotations

import pytest

from tests.support.netsim import Link, Port, Switch

A, B, ALL = b"\x02aaaaa", b"\x02bbbbb", b"\xff" * 6


def frame(target: bytes, source: bytes, size: int = 100) -> bytes:
    return (target + source).ljust(size, b".")


def test_a_frame_comes_out_after_its_delay() -> None:
    switch = Switch([1, 2], Link(delay_s=0.5))
    switch.arrive(1, frame(ALL, A), 10.0, 1.0)
    assert switch.next_due_s() == 10.5
    assert switch.leave(10.4) == []
    assert [port for port, _ in switch.leave(10.5)] == [2]


def test_a_known_machine_alone_gets_its_frames() -> None:
    switch = Switch([1, 2, 3], Link())
    switch.arrive(2, frame(ALL, B), 0.0, 1.0)
    assert [port for port, _ in switch.leave(0.0)] == [1, 3]
    switch.arrive(1, frame(B, A), 0.0, 1.0)
    assert [port for port, _ in switch.leave(0.0)] == [2]


def test_a_sender_is_held_to_its_rate() -> None:
    port, link = Port(), Link(bits_per_s=8_000.0)  # 10 bytes take 10 ms
    taken = [port.take(bytes(10), 0.0, link, 1.0) for _ in range(6)]
    assert taken == [True] * 5 + [False]  # the queue holds 50 ms
    assert [due for due, _ in port.waiting] == pytest.approx([0.01, 0.02, 0.03, 0.04, 0.05])


def test_frames_are_lost_by_chance() -> None:
    port = Port()
    assert not port.take(b"x", 0.0, Link(loss=0.1), 0.05)
    assert port.take(b"x", 0.0, Link(loss=0.1), 0.5)
