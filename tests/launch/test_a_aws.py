"""The AWS file, from nothing to nothing, against moto's EC2: Ray's own provider asks for machines and logs in by SSH.
moto starts no machine, so that each node type stands for one that is there already."""

from __future__ import annotations

import json
import shlex
import subprocess
import time
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.support.launched import RAY_OPTIONS, Launched, rows, wait_until
from tests.support.machines import LAPTOP

pytestmark = [pytest.mark.launch, pytest.mark.slow]
ENDPOINT, REGION = "http://10.77.0.254:5555", "eu-central-1"
VARIABLES = {
    "AWS_ENDPOINT_URL": ENDPOINT,
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_DEFAULT_REGION": REGION,
}
EXPORTS = "; ".join(f"export {name}={value}" for name, value in VARIABLES.items())
RUN = ["run", "query.txt", "--trace", "/shared/rides.parquet", "--units", "6", "--quiet"]
#: The account's subnet, security group and profiles; prints their names.
ACCOUNT = """
import boto3, json, sys
ec2, iam = boto3.client("ec2"), boto3.client("iam")
network = ec2.create_vpc(CidrBlock="10.77.0.0/16")["Vpc"]["VpcId"]
subnet = ec2.create_subnet(VpcId=network, CidrBlock="10.77.0.0/24", AvailabilityZone="eu-central-1a")
group = ec2.create_security_group(GroupName="decopa", Description="decopa", VpcId=network)["GroupId"]
ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=[
    {"IpProtocol": "tcp", "FromPort": 22, "ToPort": 22, "IpRanges": [{"CidrIp": "10.77.0.254/32"}]},
    {"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": group}]}])
ec2.import_key_pair(KeyName="decopa", PublicKeyMaterial=sys.stdin.read().encode())
names = {"subnet": subnet["Subnet"]["SubnetId"], "security_group": group, "key_pair": "decopa"}
trust = {"Version": "2012-10-17", "Statement": [
    {"Effect": "Allow", "Principal": {"Service": "ec2.amazonaws.com"}, "Action": "sts:AssumeRole"}]}
for role in ("head", "worker"):
    iam.create_role(RoleName=f"decopa-{role}", AssumeRolePolicyDocument=json.dumps(trust))
    made = iam.create_instance_profile(InstanceProfileName=f"decopa-{role}")
    iam.add_role_to_instance_profile(InstanceProfileName=f"decopa-{role}", RoleName=f"decopa-{role}")
    names[f"{role}_profile"] = made["InstanceProfile"]["Arn"]
print(json.dumps(names))
"""
INSTANCES = """
import boto3, json
found = boto3.client("ec2").describe_instances()["Reservations"]
print(json.dumps({one.get("PrivateIpAddress", one["InstanceId"]): one["State"]["Name"]
                  for group in found for one in group["Instances"] if one["State"]["Name"] != "terminated"}))
"""


class Cloud:
    """A cluster file for moto's EC2, on the laptop."""

    file = "aws.yaml"

    def __init__(self, files: Launched) -> None:
        self.files, self.machines = files, files.machines

    def quota(self, instances: int) -> None:
        self.machines.run(LAPTOP, f"echo {instances} > quota")

    def decopa(
        self, words: list[str], *, check: bool = True, timeout_s: float = 300.0
    ) -> subprocess.CompletedProcess[str]:
        line = f"{EXPORTS}; {self.files.command(words)}"
        return self.machines.run(LAPTOP, line, check=check, timeout_s=timeout_s)

    def python(self, program: str, stdin: str = "") -> Any:
        line = f"{EXPORTS}; {self.machines.python()} -W ignore -c {shlex.quote(program)}"
        return json.loads(self.machines.run(LAPTOP, line, stdin=stdin).stdout)

    def instances(self) -> dict[str, str]:
        """States of instances that are not terminated, by address."""
        return dict(self.python(INSTANCES))

    def write_file(self) -> None:
        public = self.machines.run(LAPTOP, "ssh-keygen -y -f ~/.ssh/id_ed25519").stdout
        names = self.python(ACCOUNT, public)
        names |= {"region": REGION, "image": "ami-12c6146b", "internal": "true", "min_workers": "1", "max_workers": "2"}
        names |= {"head_machine": "m5.xlarge", "worker_machine": "m5.xlarge", "worker_resources": "4"}
        options = [word for name, value in names.items() for word in ("--set", f"{name}={value}")]
        options += ["--name", "cloudy", "--user", "ray", "--key", "~/.ssh/id_ed25519", "--checkpoints", "/shared"]
        options += ["--node-python", self.machines.python(), "--ray-options", RAY_OPTIONS.replace("--num-cpus=4 ", "")]
        document = yaml.safe_load(self.decopa(["cluster", "init", "aws", *options]).stdout)
        self.machines.run(LAPTOP, f"cat > {self.file}", stdin=yaml.safe_dump(self._with_addresses(document)))

    def _with_addresses(self, document: dict[str, Any]) -> dict[str, Any]:
        """One node type for each machine that is there, and Amazon's address for all."""
        types = document["available_node_types"]
        worker = types.pop("worker")
        types["head"]["node_config"]["PrivateIpAddress"] = "10.77.0.1"
        for number, least in ((2, 1), (3, 0)):
            config = {**worker["node_config"], "PrivateIpAddress": f"10.77.0.{number}"}
            types[f"worker{number}"] = {**worker, "min_workers": least, "max_workers": 1, "node_config": config}
        document["idle_timeout_minutes"] = 1
        for name, value in VARIABLES.items():  # at Amazon, the head's role and region stand for these
            document["head_setup_commands"].append(f"echo export {name}={value} >> ~/.decopa-env")
        return document


@pytest.fixture(scope="module")
def cloud(files: Launched) -> Iterator[Cloud]:
    made = Cloud(files)
    made.quota(2)
    line = f"exec {made.machines.python()} -W ignore -m tests.support.cloud --host 10.77.0.254 --port 5555"
    server = made.machines.start(LAPTOP, f"{line} --quota-file quota > cloud.log 2>&1")
    try:
        made.machines.run(LAPTOP, "for i in $(seq 200); do curl -s -o /dev/null http://10.77.0.254:5555/ && exit; done")
        made.write_file()
        yield made
    finally:
        made.machines.kill(LAPTOP, "tests.support.cloud")
        server.communicate(timeout=20)


def test_a_quota_that_is_reached_is_told_at_once(cloud: Cloud) -> None:
    cloud.quota(0)
    began = time.monotonic()
    done = cloud.decopa(["cluster", "up", cloud.file, "--limit", "4 min"], check=False)
    print(done.stderr, f"{time.monotonic() - began:.0f} s")
    assert done.returncode == 2
    (line,) = [one for one in done.stderr.splitlines() if one.startswith("decopa: ")]
    assert "VcpuLimitExceeded" in line
    assert "ask the cloud for a higher quota" in line
    assert time.monotonic() - began < 60
    assert cloud.instances() == {}


def test_the_cluster_comes_up_with_the_workers_it_keeps(cloud: Cloud) -> None:
    cloud.quota(2)
    done = cloud.decopa(["cluster", "up", cloud.file, "--limit", "4 min"])
    assert [line.split()[:2] for line in done.stdout.splitlines()[1:]] == [
        ["10.77.0.1", "head"],
        ["10.77.0.2", "worker"],
    ]
    assert cloud.instances() == {"10.77.0.1": "running", "10.77.0.2": "running"}


def test_a_run_that_needs_more_than_the_quota_says_so(cloud: Cloud) -> None:
    began = time.monotonic()
    done = cloud.decopa(["submit", "--cluster", cloud.file, *RUN], check=False)
    print(done.stdout, done.stderr, f"{time.monotonic() - began:.0f} s")
    assert done.returncode == 2
    assert "VcpuLimitExceeded" in done.stdout
    assert "Traceback" not in done.stdout


def test_a_run_waits_for_the_machine_that_it_needs(cloud: Cloud) -> None:
    cloud.quota(3)
    began = time.monotonic()
    cloud.decopa(["submit", "--cluster", cloud.file, *RUN, "--out", "aws.parquet"])
    print(f"a run that needs a machine more: {time.monotonic() - began:.0f} s")
    assert cloud.instances()["10.77.0.3"] == "running"
    cloud.machines.run(LAPTOP, "cp aws.parquet /shared/aws.parquet")
    shared = cloud.machines.shared
    assert rows(shared / "aws.parquet") == rows(shared / "expected.parquet")


def test_a_machine_with_nothing_to_do_is_ended(cloud: Cloud) -> None:
    began = time.monotonic()
    wait_until(lambda: set(cloud.instances()) == {"10.77.0.1", "10.77.0.2"}, 240, 2.0)
    print(f"idle machine ended after {time.monotonic() - began:.0f} s")


def test_down_leaves_no_instance(cloud: Cloud) -> None:
    done = cloud.decopa(["cluster", "down", cloud.file], check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert cloud.instances() == {}
