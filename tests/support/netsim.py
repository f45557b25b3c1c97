"""A switch in user space between network namespaces, with delay, rate and loss: for kernels without netem.

    python -m tests.support.netsim --delay-ms 2 --mbit 100 --loss 0.01 NAMESPACE=10.77.0.1/24 ...

Each namespace gets a device `tap0` with that address. One-way delay and rate are those of each sender. Prints `ready`,
and works until it is ended; the devices go with it. Needs root and /dev/net/tun.
"""

from __future__ import annotations

import argparse
import ctypes
import fcntl
import os
import random
import select
import struct
import subprocess
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

_CLONE_NEWNET = 0x40000000
_TUNSETIFF, _IFF_TAP, _IFF_NO_PI = 0x400454CA, 0x0002, 0x1000
_FRAME_BYTES = 65_600
#: A sender's queue holds this much of its rate; what comes on top is dropped, as a real switch would.
_QUEUE_S = 0.05
#: Frames taken from one port before the others have their turn.
_BURST = 32


@dataclass(frozen=True)
class Link:
    """What a frame meets on its way: seconds of delay, bits per second (0: no limit), share of frames lost."""

    delay_s: float = 0.0
    bits_per_s: float = 0.0
    loss: float = 0.0


@dataclass
class Port:
    """One end of the switch: frames that wait, in the order in which they are due, and when its sender is free."""

    waiting: deque[tuple[float, bytes]] = field(default_factory=deque)
    free_at_s: float = 0.0

    def take(self, frame: bytes, now_s: float, link: Link, luck: float) -> bool:
        """Queues a frame of this port's sender; False if it is lost, by chance or because the queue is full."""
        if luck < link.loss:
            return False
        sending_s = len(frame) * 8 / link.bits_per_s if link.bits_per_s else 0.0
        begins_s = max(now_s, self.free_at_s)
        if link.bits_per_s and begins_s + sending_s - now_s > _QUEUE_S:
            return False
        self.free_at_s = begins_s + sending_s
        self.waiting.append((self.free_at_s + link.delay_s, frame))
        return True

    def due(self, now_s: float) -> list[bytes]:
        """Frames whose time has come; one sender's frames never overtake each other."""
        found = []
        while self.waiting and self.waiting[0][0] <= now_s:
            found.append(self.waiting.popleft()[1])
        return found


class Switch:
    """Learns which machine is behind which port from the senders' addresses; unknown ones get every frame."""

    def __init__(self, ports: Sequence[int], link: Link) -> None:
        self.ports = {number: Port() for number in ports}
        self._link, self._known = link, dict[bytes, int]()

    def arrive(self, port: int, frame: bytes, now_s: float, luck: float) -> None:
        self._known[frame[6:12]] = port
        self.ports[port].take(frame, now_s, self._link, luck)

    def leave(self, now_s: float) -> list[tuple[int, bytes]]:
        """(port, frame) for all frames that are due."""
        found = []
        for number, port in self.ports.items():
            for frame in port.due(now_s):
                target = None if frame[0] & 1 else self._known.get(frame[:6])
                targets = [one for one in self.ports if one != number] if target is None else [target]
                found += [(one, frame) for one in targets]
        return found

    def next_due_s(self) -> float | None:
        return min((port.waiting[0][0] for port in self.ports.values() if port.waiting), default=None)


def open_tap(namespace: str, address: str, mtu: int) -> int:
    """A device `tap0` in a namespace; returns the file whose reads and writes are its frames."""
    libc = ctypes.CDLL(None, use_errno=True)
    home, there = os.open("/proc/self/ns/net", os.O_RDONLY), os.open(f"/run/netns/{namespace}", os.O_RDONLY)
    try:
        if libc.setns(there, _CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), f"cannot enter {namespace}")
        device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        fcntl.ioctl(device, _TUNSETIFF, struct.pack("16sH", b"tap0", _IFF_TAP | _IFF_NO_PI))
    finally:
        libc.setns(home, _CLONE_NEWNET)
        os.close(home)
        os.close(there)
    for words in (["addr", "add", address, "dev", "tap0"], ["link", "set", "tap0", "mtu", str(mtu), "up"]):
        subprocess.run(["ip", "-n", namespace, *words], check=True)
    return device


def serve(devices: Sequence[int], link: Link) -> None:
    switch = Switch(devices, link)
    while True:
        for port, frame in switch.leave(time.perf_counter()):
            try:
                os.write(port, frame)
            except OSError:
                continue  # the receiver's queue is full, or its machine is gone: the frame is lost
        due = switch.next_due_s()
        ready, _, _ = select.select(devices, [], [], None if due is None else max(0.0, due - time.perf_counter()))
        for port in ready:
            for _ in range(_BURST):
                try:
                    frame = os.read(port, _FRAME_BYTES)
                except BlockingIOError:
                    break
                switch.arrive(port, frame, time.perf_counter(), random.random())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--delay-ms", type=float, default=0.0)
    parser.add_argument("--mbit", type=float, default=0.0)
    parser.add_argument("--loss", type=float, default=0.0)
    parser.add_argument("--mtu", type=int, default=9000)
    parser.add_argument("ports", nargs="+", metavar="NAMESPACE=ADDRESS/BITS")
    args = parser.parse_args()
    devices = [open_tap(*port.split("=", 1), args.mtu) for port in args.ports]
    print("ready", flush=True)
    serve(devices, Link(args.delay_ms / 1e3, args.mbit * 1e6, args.loss))


if __name__ == "__main__":
    main()
