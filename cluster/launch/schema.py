"""What is wrong with a cluster file, found without any machine: typos at every level, and what would be unsafe.

Ray's own schema finds typos at the top, in `auth` and in node types, not in `provider`, `node_config` or commands.
"""

from __future__ import annotations

import contextlib
import copy
import io
import ipaddress
import logging
import re
from collections.abc import Iterator
from typing import Any

from cluster.launch.cloud_schema import node_config_problems
from cluster.launch.cluster_file import ClusterFile
from cluster.launch.templates import blanks
from decopa.errors import did_you_mean

_COMMON = ("type", "use_internal_ips", "cache_stopped_nodes", "disable_node_updaters", "disable_launch_config_check")
#: The keys that Ray's node providers read.
PROVIDER_KEYS = {
    "local": (*_COMMON, "head_ip", "external_head_ip", "worker_ips"),
    "aws": (
        *(*_COMMON, "region", "availability_zone", "security_group", "key_pair", "aws_credentials", "cloudwatch"),
        "use_external_head_ip",
    ),
    "gcp": (*_COMMON, "region", "availability_zone", "project_id", "gcp_credentials", "use_external_head_ip"),
}
#: A command list that is not set gets Ray's default, which may listen on all addresses or install another Ray.
COMMAND_KEYS = (
    "initialization_commands",
    "setup_commands",
    "head_setup_commands",
    "worker_setup_commands",
    "head_start_ray_commands",
    "worker_start_ray_commands",
)
_TOKEN = "~/.ray/auth_token"
_ANYWHERE = ("0.0.0." + "0/0", "::/0")


def problems(file: ClusterFile) -> list[str]:
    """Everything that is wrong with the file, each in one line with its remedy; empty if it can be launched."""
    for blank in blanks(file.text):
        return [
            f"line {blank.line}: '{blank.name}' is not filled in; replace {blank.sample} and remove the mark FILL IN"
        ]
    if file.kind not in PROVIDER_KEYS:
        return [f"provider: type '{file.kind}' is unknown{did_you_mean(file.kind, PROVIDER_KEYS)}"]
    found = [*_provider_problems(file), *(_machine_problems(file) if file.kind == "local" else ())]
    return found or [
        *_ray_problems(file),
        *node_config_problems(file),
        *(line for key in COMMAND_KEYS for command in file.commands(key) for line in command_problems(key, command)),
        *_safety_problems(file),
    ]


def _provider_problems(file: ClusterFile) -> Iterator[str]:
    known = PROVIDER_KEYS[file.kind]
    for key in file.provider:
        if key not in known:
            yield f"provider: '{key}' is unknown for {file.kind}{did_you_mean(str(key), known)}"


def _machine_problems(file: ClusterFile) -> Iterator[str]:
    if file.head is None or not file.provider.get("worker_ips"):
        yield "provider: local needs head_ip and worker_ips"
    seen: set[str] = set()
    for address in file.machines:
        if address in seen:
            yield f"provider: {address} is named twice; each machine is head or worker, once"
        seen.add(address)
        try:
            loopback = ipaddress.ip_address(address).is_loopback
        except ValueError:
            continue  # a name; the machine itself says what it resolves to
        if loopback:
            yield f"provider: {address} is the machine itself, whoever asks; give the address that others reach it by"
    own = re.search(r"--node-ip-address[= ]([^\s$]+)", " ".join(file.commands("head_start_ray_commands")))
    if own is not None and own[1] != file.head:
        yield f"head_start_ray_commands: --node-ip-address is {own[1]} but head_ip is {file.head}"


def _ray_problems(file: ClusterFile) -> Iterator[str]:
    """What Ray itself would say."""
    from jsonschema.exceptions import ValidationError
    from ray.autoscaler._private.util import prepare_config, validate_config

    # Ray's logger keeps the stream that it was made with, so that redirecting does not reach it.
    chatter, level = logging.getLogger("ray.autoscaler"), logging.getLogger("ray.autoscaler").level
    try:
        chatter.setLevel(logging.ERROR)
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            validate_config(prepare_config(copy.deepcopy(dict(file.document))))
    except ValidationError as err:
        where = "/".join(map(str, err.absolute_path))
        yield f"{where or 'top level'}: {err.message.splitlines()[0][:300]}"
    except (Exception, SystemExit) as err:  # Ray raises whatever its code meets, and its logger ends the program
        yield f"Ray refuses the file: {str(err).splitlines()[0] if str(err) else type(err).__name__}"
    finally:
        chatter.setLevel(level)


def command_problems(key: str, command: str) -> Iterator[str]:
    """Ray commands in a line of shell that Ray does not know, or not with these options."""
    import click
    from ray.scripts.scripts import cli

    for words in _simple_commands(command):
        if words[0] != "ray" or len(words) == 1:
            continue
        context = click.Context(cli, info_name="ray")
        known = cli.get_command(context, words[1])
        if known is None:
            yield f"{key}: there is no command 'ray {words[1]}'{did_you_mean(words[1], cli.list_commands(context))}"
            continue
        try:
            known.make_parser(context := click.Context(known, info_name=words[1])).parse_args(list(words[2:]))
        except click.UsageError as err:
            yield f"{key}: ray {words[1]}: {err.format_message()}"


def _simple_commands(command: str) -> Iterator[list[str]]:
    """The commands of a line of shell as words; what the shell would compute is left out."""
    plain = re.sub(r"'[^']*'", "text", command)
    plain = re.sub(r"\$\([^()]*\)", "value", plain)
    for part in re.split(r"&&|\|\||[;|\n]", plain):
        words = [word for word in part.split() if not word.startswith("$")]
        while words and (words[0] in ("export", "do", "then") or re.match(r"\w+=", words[0])):
            words = words[1:]
        if words:
            yield words


def _safety_problems(file: ClusterFile) -> Iterator[str]:
    for key in COMMAND_KEYS:
        if not isinstance(file.document.get(key), list):
            yield f"{key} is not set, and Ray's default is not what you want; write `{key}: []` at least"
    mounts: Any = file.document.get("file_mounts")
    if not isinstance(mounts, dict) or _TOKEN not in mounts:
        yield f"file_mounts: has no {_TOKEN}, so that machines would have no token; add `{_TOKEN}: {_TOKEN}`"
    for key in ("head_start_ray_commands", "worker_start_ray_commands"):
        if "~/.decopa-env" not in " ".join(file.commands(key)):
            yield f"{key}: does not read ~/.decopa-env, which switches tokens on; begin with `. ~/.decopa-env &&`"
    head = " ".join(file.commands("head_start_ray_commands"))
    if "--dashboard-host=127.0.0.1 " not in f"{head} ":
        yield "head_start_ray_commands: the dashboard must listen on 127.0.0.1 only; add --dashboard-host=127.0.0.1"
    if file.kind == "local" and "RAY_enable_autoscaler_v2=0" not in head:
        yield "head_start_ray_commands: needs RAY_enable_autoscaler_v2=0, or Ray starts one worker too few"
    if file.setup.checkpoints is None:
        yield "setup_commands: name a place for checkpoints that all machines see: ~/setup-node --checkpoints PLACE"
    if file.kind == "aws":
        yield from _aws_problems(file)


def _aws_problems(file: ClusterFile) -> Iterator[str]:
    for name, node_type in file.document["available_node_types"].items():
        config = node_type.get("node_config") or {}
        for key, why in (
            ("SecurityGroupIds", "Ray would make a group that opens SSH to the world"),
            ("IamInstanceProfile", "Ray would give the machine full access to EC2 and S3"),
        ):
            if key not in config:
                yield f"available_node_types/{name}/node_config: name your own {key}, or {why}"
    if any(everyone in str(file.provider.get("security_group")) for everyone in _ANYWHERE):
        yield "provider/security_group: lets in everyone; give the range of your own addresses"
