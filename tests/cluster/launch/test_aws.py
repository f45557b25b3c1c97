"""The AWS file against moto's EC2 and IAM, through Ray's own provider: what it makes there, and what it does not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto import mock_aws

from cluster.launch.schema import problems
from cluster.launch.templates import SETUP_NODE, fill, template
from tests.cluster.launch.files import file_of

REGION = "eu-central-1"
OFFICE = "203.0.113.7/32"


@pytest.fixture
def cloud(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[dict[str, str]]:
    """An account with a subnet, a security group, a key pair and two profiles of the user's own; their names."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)
    with mock_aws():
        ec2, iam = boto3.client("ec2", REGION), boto3.client("iam", REGION)
        network = ec2.create_vpc(CidrBlock="10.77.0.0/16")["Vpc"]["VpcId"]
        subnet = ec2.create_subnet(VpcId=network, CidrBlock="10.77.0.0/24", AvailabilityZone=f"{REGION}a")
        group = ec2.create_security_group(GroupName="decopa", Description="decopa", VpcId=network)["GroupId"]
        ec2.authorize_security_group_ingress(
            GroupId=group,
            IpPermissions=[
                {"IpProtocol": "tcp", "FromPort": 22, "ToPort": 22, "IpRanges": [{"CidrIp": OFFICE}]},
                {"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": group}]},
            ],
        )
        key = tmp_path / "key.pem"
        key.write_text(ec2.create_key_pair(KeyName="decopa")["KeyMaterial"])
        profiles = {}
        for role in ("head", "worker"):
            trust = {"Effect": "Allow", "Principal": {"Service": "ec2.amazonaws.com"}, "Action": "sts:AssumeRole"}
            document = json.dumps({"Version": "2012-10-17", "Statement": [trust]})
            iam.create_role(RoleName=f"decopa-{role}", AssumeRolePolicyDocument=document)
            made = iam.create_instance_profile(InstanceProfileName=f"decopa-{role}")
            iam.add_role_to_instance_profile(InstanceProfileName=f"decopa-{role}", RoleName=f"decopa-{role}")
            profiles[role] = made["InstanceProfile"]["Arn"]
        yield {
            "region": REGION,
            "subnet": subnet["Subnet"]["SubnetId"],
            "security_group": group,
            "key": str(key),
            "key_pair": "decopa",
            "image": "ami-12c6146b",
            "head_profile": profiles["head"],
            "worker_profile": profiles["worker"],
            "setup_node": str(SETUP_NODE),
            "checkpoints": "s3://bucket/decopa",
        }


def prepared(cloud: dict[str, str], tmp_path: Path) -> dict[str, Any]:
    """The user's file as Ray's launcher works on it."""
    from ray.autoscaler._private.aws.config import bootstrap_aws
    from ray.autoscaler._private.util import prepare_config

    text = fill(template("aws"), cloud)
    rest = (
        "name",
        "max_workers",
        "internal",
        "user",
        "head_machine",
        "min_workers",
        "worker_resources",
        "worker_machine",
    )
    samples = {"name": "decopa", "max_workers": "8", "internal": "true", "user": "ubuntu", "min_workers": "2"}
    samples |= {"head_machine": "m5.xlarge", "worker_machine": "m5.2xlarge", "worker_resources": "8"}
    file = file_of(fill(text, {name: samples[name] for name in rest}), tmp_path)
    assert problems(file) == []
    return dict(bootstrap_aws(prepare_config(dict(file.document))))


def test_ray_makes_no_group_and_no_role_of_its_own(cloud: dict[str, str], tmp_path: Path) -> None:
    def account() -> tuple[list[str], list[str], list[str]]:
        ec2, iam = boto3.client("ec2", REGION), boto3.client("iam", REGION)
        groups = [one["GroupId"] for one in ec2.describe_security_groups()["SecurityGroups"]]
        roles = [one["RoleName"] for one in iam.list_roles()["Roles"]]
        attached = [
            policy["PolicyName"]
            for role in roles
            for policy in iam.list_attached_role_policies(RoleName=role)["AttachedPolicies"]
        ]
        return sorted(groups), sorted(roles), attached

    before = account()
    prepared(cloud, tmp_path)
    assert account() == before
    assert not [name for name in account()[2] if "FullAccess" in name]


def test_only_ssh_from_the_given_range_comes_in(cloud: dict[str, str], tmp_path: Path) -> None:
    config = prepared(cloud, tmp_path)
    for node_type in config["available_node_types"].values():
        assert node_type["node_config"]["SecurityGroupIds"] == [cloud["security_group"]]
    (group,) = boto3.client("ec2", REGION).describe_security_groups(GroupIds=[cloud["security_group"]])[
        "SecurityGroups"
    ]
    outside = [rule for rule in group["IpPermissions"] if rule["IpRanges"]]
    assert [(rule["FromPort"], rule["IpRanges"][0]["CidrIp"]) for rule in outside] == [(22, OFFICE)]


@pytest.mark.parametrize("kind", ["head", "worker"])
def test_machines_have_encrypted_disks_and_a_closed_metadata_service(
    kind: str, cloud: dict[str, str], tmp_path: Path
) -> None:
    from ray.autoscaler._private.aws.node_provider import AWSNodeProvider

    config = prepared(cloud, tmp_path)
    provider = AWSNodeProvider(config["provider"], config["cluster_name"])
    provider.create_node(config["available_node_types"][kind]["node_config"], {"ray-node-type": kind}, 1)
    ec2 = boto3.client("ec2", REGION)
    ((instance,),) = (one["Instances"] for one in ec2.describe_instances()["Reservations"])
    assert instance["MetadataOptions"]["HttpTokens"] == "required"
    assert instance["IamInstanceProfile"]["Arn"] == cloud[f"{kind}_profile"]
    volumes = ec2.describe_volumes()["Volumes"]
    assert volumes
    assert all(volume["Encrypted"] for volume in volumes)
