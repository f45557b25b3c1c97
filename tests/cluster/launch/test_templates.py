"""Cluster files: every one can be filled in, and what is left to fill in is found."""

from __future__ import annotations

import pytest
import yaml

from cluster.launch.templates import blanks, fill, template, with_node_setup
from decopa.choices import CLUSTER_KINDS
from decopa.errors import DeployError


@pytest.mark.parametrize("kind", CLUSTER_KINDS)
def test_every_file_is_yaml_before_and_after_it_is_filled_in(kind: str) -> None:
    text = template(kind)
    assert all(document is not None for document in yaml.safe_load_all(text))
    names = list(dict.fromkeys(blank.name for blank in blanks(text)))
    for name in names:
        if any(blank.name == name for blank in blanks(text)):
            text = fill(text, {name: "value-1"})
    assert list(blanks(text)) == []
    assert all(document is not None for document in yaml.safe_load_all(text))
    assert "FILL IN" not in text


def test_a_value_goes_where_its_sample_was() -> None:
    text = fill(template("local"), {"head": "10.0.0.1", "workers": "10.0.0.2,10.0.0.3", "user": "me"})
    document = yaml.safe_load(text)
    assert document["provider"]["head_ip"] == "10.0.0.1"
    assert document["provider"]["worker_ips"] == ["10.0.0.2", "10.0.0.3"]
    assert document["auth"]["ssh_user"] == "me"
    assert "--node-ip-address=10.0.0.1 " in document["head_start_ray_commands"][1]
    assert {blank.name for blank in blanks(text)} == {"name", "key", "setup_node", "checkpoints", "head_options"}


def test_a_name_without_a_place_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(DeployError, match="no place for 'regoin'; did you mean 'region'"):
        fill(template("aws"), {"regoin": "eu-west-1"})


@pytest.mark.parametrize("value", ["", " ", "a # b", "a: b", "a\nb"])
def test_a_value_that_would_be_more_than_one_is_refused(value: str) -> None:
    with pytest.raises(DeployError, match="cannot stand for user"):
        fill(template("local"), {"user": value})


def test_an_unknown_kind_of_cluster_is_refused() -> None:
    with pytest.raises(DeployError, match="no cluster file 'azure'"):
        template("azure")


def test_every_machine_is_told_the_versions_to_have() -> None:
    text = with_node_setup(
        template("local"), python="3.11", ray="2.60.0", node_python="/opt/python", ray_options="--num-cpus=4 --memory=3"
    )
    document = yaml.safe_load(text)
    versions = "DECOPA_PYTHON=/opt/python bash ~/setup-node --python 3.11 --ray 2.60.0"
    assert document["setup_commands"][0].startswith(
        f"{versions} --ray-options '--num-cpus=4 --memory=3' --checkpoints "
    )
    assert document["head_setup_commands"][0].startswith(f"{versions} --ray-options ")
