"""What machines say of themselves is judged; every problem has its remedy."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster.launch.checks import Expected, judge, login_problem, read_facts
from cluster.launch.cluster_file import node_setup
from cluster.launch.environment import exports, kept_settings, node_environment
from cluster.launch.remote import Answer, Machine
from cluster.launch.token import ensure_token, read_token
from decopa.errors import DeployError

READY = """host n2
clock 1000.5
rsync /usr/bin/rsync
environment /home/me/.decopa/bin/python
python 3.11
ray 2.60.0
decopa yes
system_python 3.11
disk_kb 90000000
tmp_kb 90000000
nofile 65536
name_address 10.0.0.2
addresses 10.0.0.2
end yes
"""
HERE = Expected("3.11", "2.60.0")


def judged(text: str, *, sent_s: float = 1000.0, received_s: float = 1001.0) -> list[str]:
    return judge("10.0.0.2", read_facts(Answer(0, text, "", sent_s, received_s)), HERE)


def test_a_machine_that_is_ready_has_no_problem() -> None:
    assert judged(READY) == []


@pytest.mark.parametrize(
    ("line", "instead", "said"),
    [
        ("rsync /usr/bin/rsync", "rsync none", "has no rsync"),
        ("python 3.11\nray", "python 3.10\nray", "has Python 3.10 in /home/me/.decopa/bin/python, but here it is 3.11"),
        ("ray 2.60.0", "ray 2.59.0", "has Ray 2.59.0"),
        ("decopa yes", "decopa none", "has no decopa"),
        ("disk_kb 90000000", "disk_kb 2000000", "has 1.9 GB left in the home folder"),
        ("tmp_kb 90000000", "tmp_kb 2000000", "has 1.9 GB left in /tmp"),
        ("nofile 65536", "nofile 1024", "lets a process open 1024 files only"),
        ("name_address 10.0.0.2", "name_address 127.0.1.1", "takes its own name 'n2' for 127.0.1.1"),
        ("addresses 10.0.0.2", "addresses 10.9.0.2 172.17.0.1", "does not have the address 10.0.0.2 itself"),
        ("end yes", "taken 6379\nend yes", "has port 6379 taken"),
        ("clock 1000.5", "clock 1030.5", "has a clock 30.0 s ahead of"),
        ("clock 1000.5", "clock 990.5", "has a clock 10.0 s behind"),
    ],
)
def test_each_problem_is_named(line: str, instead: str, said: str) -> None:
    assert line in READY
    (found,) = judged(READY.replace(line, instead))
    assert said in found


def test_ports_of_a_ray_that_runs_already_are_no_problem() -> None:
    assert judged(READY + "raylet running\ntaken 8076\n") == []


def test_a_slow_answer_does_not_make_a_wrong_clock() -> None:
    assert judged(READY, sent_s=1000.4, received_s=1009.0) == []


def test_without_an_environment_the_machines_own_python_counts() -> None:
    lines = [line for line in READY.splitlines() if line.split()[0] not in ("environment", "python", "ray", "decopa")]
    assert judged("\n".join(lines)) == []
    (found,) = judged("\n".join(lines).replace("system_python 3.11", "system_python 3.10\nsystem_python 3.10"))
    assert "needs Python 3.11, as here, and has 3.10" in found


def test_a_python_that_the_file_names_must_be_there() -> None:
    assert judged(READY.replace("environment", "missing /opt/python\nenvironment")) == [
        "has no /opt/python, which DECOPA_PYTHON in the cluster file names"
    ]


@pytest.mark.parametrize(
    ("status", "error", "said"),
    [
        (255, "me@n2: Permission denied (publickey).", "refuses the login of me"),
        (255, "ssh: connect to host n2 port 22: No route to host", "No route to host"),
        (255, "Host key verification failed.", "another host key"),
        (124, "", "does not answer by SSH"),
    ],
)
def test_a_login_that_fails_says_why(status: int, error: str, said: str) -> None:
    assert said in (login_problem(Machine("n2", "me", Path("k")), Answer(status, "", error)) or "")


def test_a_command_that_fails_is_no_failed_login() -> None:
    assert login_problem(Machine("n2", "me", None), Answer(1, "", "no")) is None


# ------------------------------------------------------------------ what goes to machines


def test_the_environment_has_the_programs_first_and_the_token_on() -> None:
    java = {"JAVA_HOME": "/j", "PATH": "/j/bin:/usr/bin"}
    settings = node_environment(java, Path("/v/bin/python"), checkpoints="/a b", ray_options="--num-cpus=0")
    assert settings["PATH"].startswith("/v/bin:/j/bin:/usr/bin:")
    assert settings["RAY_AUTH_MODE"] == "token"
    text = exports(settings)
    assert "export DECOPA_CHECKPOINTS='/a b'\n" in text
    assert kept_settings(text) == {"DECOPA_CHECKPOINTS": "/a b", "DECOPA_RAY_OPTIONS": "--num-cpus=0"}


def test_setup_options_are_read_from_the_command() -> None:
    setup = node_setup(("echo hello", "DECOPA_PYTHON=/p bash ~/setup-node --ray 2.60.0 --checkpoints '/a b'"))
    assert (setup.checkpoints, setup.python) == ("/a b", "/p")
    assert node_setup(("bash ~/other --checkpoints /x",)).checkpoints is None


def test_a_token_is_made_once_and_only_for_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "ray" / "token"
    ensure_token(path)
    text = read_token(path)
    assert len(text) == 64
    assert path.stat().st_mode & 0o777 == 0o600
    ensure_token(path)
    assert read_token(path) == text
    path.chmod(0o644)
    with pytest.raises(DeployError, match="others may read the token"):
        ensure_token(path)


def test_a_token_that_is_missing_or_empty_says_so(tmp_path: Path) -> None:
    with pytest.raises(DeployError, match="cannot read the token"):
        read_token(tmp_path / "none")
    (tmp_path / "empty").touch(mode=0o600)
    with pytest.raises(DeployError, match="is empty"):
        ensure_token(tmp_path / "empty")
