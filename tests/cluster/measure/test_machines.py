"""What the kernel counts, read and held against an earlier reading."""

from __future__ import annotations

from pathlib import Path

from cluster.measure.machines import Counters, MachineLoad, counters, cpu_statistics, sent_bytes

DEVICES = """Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier
    lo: 9000      10    0    0    0     0          0         0    9000      10    0    0    0     0       0          0
  eth0: 1000      10    0    0    0     0          0         0     700       5    0    0    0     0       0          0
  eth1:    5       1    0    0    0     0          0         0      42       1    0    0    0     0       0          0
"""


def test_bytes_of_loopback_do_not_count() -> None:
    assert sent_bytes(DEVICES) == 742


def test_throttling_is_read_from_the_group_of_the_process(tmp_path: Path) -> None:
    group = tmp_path / "cpu" / "machine"
    group.mkdir(parents=True)
    (group / "cpu.stat").write_text("nr_periods 200\nnr_throttled 50\nthrottled_time 12345\n")
    assert cpu_statistics("4:memory:/other\n3:cpu:/machine\n0::/\n", tmp_path) == (200, 50)


def test_throttling_is_read_from_the_one_tree_of_version_two(tmp_path: Path) -> None:
    (tmp_path / "machine").mkdir()
    (tmp_path / "machine" / "cpu.stat").write_text("usage_usec 5\nnr_periods 10\nnr_throttled 1\n")
    assert cpu_statistics("0::/machine\n", tmp_path) == (10, 1)


def test_a_machine_without_a_limit_is_never_throttled(tmp_path: Path) -> None:
    assert cpu_statistics("0::/\n", tmp_path) == (0, 0)
    assert MachineLoad.between(Counters(5), Counters(12)) == MachineLoad(7, None)


def test_a_load_is_what_happened_in_between() -> None:
    assert MachineLoad.between(Counters(10, 100, 30), Counters(30, 200, 80)) == MachineLoad(20, 0.5)


def test_this_machine_can_be_read() -> None:
    assert counters().sent_bytes >= 0
