"""What is wrong in `node_config`, which Ray hands to the cloud unread: by the cloud's own description of itself."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from cluster.launch.cluster_file import ClusterFile
from decopa.documents import read_json
from decopa.errors import DeployError, did_you_mean

#: Ray turns this list into the `SubnetId` that EC2 knows.
_RAYS_OWN = ("SubnetIds",)
_CLOUD_PACKAGES = {"aws": ("botocore", "boto3"), "gcp": ("googleapiclient", "google-api-python-client")}


def node_config_problems(file: ClusterFile) -> Iterator[str]:
    """One line for each key or value that the cloud would refuse."""
    if file.kind not in _CLOUD_PACKAGES:
        return
    module, package = _CLOUD_PACKAGES[file.kind]
    if importlib.util.find_spec(module) is None:
        yield f"the package {package} is not installed, and Ray needs it for {file.kind}; pip install {package}"
        return
    types = file.document.get("available_node_types")
    for name, node_type in types.items() if isinstance(types, dict) else ():
        config = node_type.get("node_config") if isinstance(node_type, dict) else None
        where = f"available_node_types/{name}/node_config"
        if not isinstance(config, dict):
            yield f"{where}: is missing"
        elif file.kind == "aws":
            yield from aws_problems(config, where)
        else:
            yield from gcp_problems(config, where)


def aws_problems(config: Mapping[str, Any], where: str) -> Iterator[str]:
    """By botocore's model of RunInstances."""
    import botocore.session
    from botocore.validate import ParamValidator

    model = botocore.session.get_session().get_service_model("ec2").operation_model("RunInstances")
    sent = {key: value for key, value in config.items() if key not in _RAYS_OWN}
    report = ParamValidator().validate({**sent, "MinCount": 1, "MaxCount": 1}, model.input_shape).generate_report()
    for line in report.splitlines():
        yield f"{where}: {line.split(', must be one of')[0]}{_near(line, model.input_shape.members)}"


def gcp_problems(config: Mapping[str, Any], where: str) -> Iterator[str]:
    """By the discovery document of Compute Engine that comes with google-api-python-client."""
    import googleapiclient

    path = Path(googleapiclient.__file__).parent / "discovery_cache" / "documents" / "compute.v1.json"
    schemas = read_json(path.read_bytes(), name=str(path), error=DeployError)["schemas"]
    yield from _discovery_problems(config, {"$ref": "Instance"}, schemas, where)


def _discovery_problems(value: Any, schema: Mapping[str, Any], schemas: Mapping[str, Any], where: str) -> Iterator[str]:
    schema = schemas[schema["$ref"]] if "$ref" in schema else schema
    kind = schema.get("type")
    if kind == "object":
        if not isinstance(value, dict):
            yield f"{where}: must have keys of its own, is {type(value).__name__}"
            return
        known = schema.get("properties") or {}
        for key, inner in value.items() if known else ():
            if key in known:
                yield from _discovery_problems(inner, known[key], schemas, f"{where}/{key}")
            else:
                yield f"{where}: '{key}' is unknown{did_you_mean(str(key), known)}"
    elif kind == "array":
        if not isinstance(value, list):
            yield f"{where}: must be a list, is {type(value).__name__}"
            return
        for place, inner in enumerate(value):
            yield from _discovery_problems(inner, schema["items"], schemas, f"{where}/{place}")
    elif kind in ("string", "boolean") and isinstance(value, (dict, list)):
        yield f"{where}: must be a {kind}"


def _near(line: str, known: Mapping[str, Any]) -> str:
    """A suggestion for `Unknown parameter in input: "InstanceTyp", ...`."""
    named = line.partition('Unknown parameter in input: "')[2].partition('"')[0]
    return did_you_mean(named, known).partition("; known:")[0] if named else ""
