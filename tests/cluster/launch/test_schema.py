"""Cluster files are checked at every level: by Ray's schema, by the clouds' own, and for what is unsafe."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cluster.launch.schema import COMMAND_KEYS, command_problems, problems
from cluster.launch.templates import template
from decopa.errors import DeployError
from tests.cluster.launch.files import changed, file_of, filled

CLOUDS = ("aws", "gcp")
Document = dict[str, Any]


@pytest.mark.parametrize("kind", ["local", *CLOUDS])
def test_the_files_that_come_with_decopa_have_no_problem(kind: str, tmp_path: Path) -> None:
    assert problems(file_of(filled(kind), tmp_path)) == []


@pytest.mark.parametrize("kind", ["local", *CLOUDS])
def test_a_file_that_is_not_filled_in_says_which_line(kind: str, tmp_path: Path) -> None:
    (line,) = problems(file_of(template(kind), tmp_path))
    assert "line 3: 'name' is not filled in" in line or "line 4: 'name' is not filled in" in line


def _set(*path: str, value: object) -> Callable[[Document], None]:
    def change(document: Document) -> None:
        inner: Any = document
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = value

    return change


TYPOS = {
    "top": (_set("setup_comands", value=[]), "setup_comands"),
    "provider": (_set("provider", "regoin", value="x"), "did you mean 'region'"),
    "auth": (_set("auth", "ssh_usr", value="x"), "ssh_usr"),
    "node type": (_set("available_node_types", "worker", "min_worker", value=1), "min_worker"),
    "command": (_set("worker_start_ray_commands", value=[". ~/.decopa-env; ray strat"]), "did you mean 'start'"),
    "option of a command": (
        _set(
            "worker_start_ray_commands",
            value=[". ~/.decopa-env; for n in 1 2; do ray start --adress=x && exit 0; done"],
        ),
        "--adress",
    ),
}


@pytest.mark.parametrize("cloud", CLOUDS)
@pytest.mark.parametrize("place", TYPOS)
def test_a_typo_is_found_in(place: str, cloud: str, tmp_path: Path) -> None:
    change, said = TYPOS[place]
    found = problems(changed(cloud, tmp_path, change))
    assert found, "nothing was found"
    assert said in found[0]


@pytest.mark.parametrize(
    ("cloud", "key", "said"),
    [("aws", "InstanceTyp", "did you mean 'InstanceType'"), ("gcp", "machinType", "did you mean 'machineType'")],
)
def test_a_typo_is_found_in_what_the_cloud_reads(cloud: str, key: str, said: str, tmp_path: Path) -> None:
    (line,) = problems(changed(cloud, tmp_path, _set("available_node_types", "worker", "node_config", key, value="x")))
    assert "available_node_types/worker/node_config" in line
    assert said in line


def test_a_list_where_google_wants_an_object_is_found(tmp_path: Path) -> None:
    place = ("available_node_types", "worker", "node_config", "scheduling")
    (line,) = problems(changed("gcp", tmp_path, _set(*place, value=[{"preemptible": True}])))
    assert "scheduling: must have keys of its own" in line


@pytest.mark.parametrize("kind", ["local", *CLOUDS])
@pytest.mark.parametrize("key", COMMAND_KEYS)
def test_a_command_list_that_would_get_rays_default_is_refused(key: str, kind: str, tmp_path: Path) -> None:
    found = problems(changed(kind, tmp_path, lambda document: document.pop(key)))
    assert any(line.startswith(key) for line in found)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_set("file_mounts", value={}), "no token"),
        (_set("head_start_ray_commands", value=[". ~/.decopa-env; ray start --head"]), "dashboard must listen on"),
        (_set("head_start_ray_commands", value=[". ~/.decopa-env; ray start --head"]), "one worker too few"),
        (_set("worker_start_ray_commands", value=["ray start --address=x:1"]), "switches tokens on"),
        (_set("setup_commands", value=["bash ~/setup-node"]), "name a place for checkpoints"),
        (_set("provider", "worker_ips", value=["10.0.0.1"]), "10.0.0.1 is named twice"),
        (_set("provider", "worker_ips", value=["127.0.0.2"]), "127.0.0.2 is the machine itself"),
        (_set("provider", "worker_ips", value=[]), "needs head_ip and worker_ips"),
        (_set("provider", "head_ip", value="10.0.0.9"), "--node-ip-address is 10.0.0.1 but head_ip is 10.0.0.9"),
        (_set("provider", "type", value="azure"), "type 'azure' is unknown"),
    ],
)
def test_what_would_be_unsafe_or_not_work_is_refused(
    change: Callable[[Document], None], said: str, tmp_path: Path
) -> None:
    assert any(said in line for line in problems(changed("local", tmp_path, change)))


def test_on_aws_ray_may_not_make_its_own_group_or_role(tmp_path: Path) -> None:
    def change(document: Document) -> None:
        config = document["available_node_types"]["head"]["node_config"]
        del config["SecurityGroupIds"], config["IamInstanceProfile"]
        document["provider"]["security_group"] = {"IpPermissions": [{"IpRanges": [{"CidrIp": "0.0.0." + "0/0"}]}]}

    found = problems(changed("aws", tmp_path, change))
    assert len(found) == 3
    assert "opens SSH to the world" in found[0]
    assert "full access" in found[1]
    assert "lets in everyone" in found[2]


def test_what_the_shell_computes_is_no_option_of_ray() -> None:
    line = "ulimit -n 9; ray start --address=$RAY_HEAD_IP:1 --node-ip-address=$(ip route | sed 's/\\(x\\)//') $MORE"
    assert list(command_problems("worker_start_ray_commands", line)) == []


@pytest.mark.parametrize(("text", "said"), [("[1, 2", "line 1"), ("- a\n- b", "has no keys"), ("\x00", "is not YAML")])
def test_what_is_no_cluster_file_says_so(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(DeployError, match=said):
        file_of(text, tmp_path)


def test_a_cluster_file_that_is_not_there_says_how_to_make_one(tmp_path: Path) -> None:
    from cluster.launch.cluster_file import read_cluster_file

    with pytest.raises(DeployError, match="decopa cluster init"):
        read_cluster_file(tmp_path / "none.yaml")
