"""What is shown of the launcher's log when machines are missing."""

from __future__ import annotations

from cluster.launch.launching import telling_lines

LOG = """
2026-11-17 23:18:44 INFO updater.py:345 -- \x1b[37mNew status\x1b[39m: waiting-for-ssh
2026-11-17 23:18:44 INFO log_timer.py:25 -- NodeUpdater: 10.0.0.4: Got remote shell  [LogTimer=342ms]
2026-11-17 23:18:44 VVINFO command_runner.py:401 -- Full command is `ssh -tt ray@10.0.0.4 uptime`
Shared connection to 10.0.0.4 closed.
"""


def test_failures_come_first() -> None:
    log = f"{LOG}Exception: The current node timed out during startup.\nShared connection to 10.0.0.4 closed.\n"
    assert telling_lines(log, ("10.0.0.4",)) == ("Exception: The current node timed out during startup.",)


def test_without_a_failure_the_last_steps_of_the_missing_machine_are_shown() -> None:
    (line,) = telling_lines(LOG, ("10.0.0.4",))
    assert line.endswith("Got remote shell  [LogTimer=342ms]")


def test_colours_are_left_out() -> None:
    assert "New status: waiting-for-ssh" in telling_lines(LOG, ("10.0.0.9",))[0]
