"""The Kubernetes files: against KubeRay's own definitions, made strict, and Kubernetes' schemas. Nothing is run."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import ray
import yaml

from tests.cluster.launch.files import filled
from tests.support.shared import SHARED

FOLDER = Path(os.environ.get("DECOPA_KUBERAY_CRD", SHARED / "data" / "kuberay"))
KUBERNETES = "1.31"
Document = dict[str, Any]
needs_crds = pytest.mark.skipif(
    not FOLDER.is_dir(), reason=f"no {FOLDER}: KubeRay's definitions are not here; DECOPA_KUBERAY_CRD names a folder"
)


def documents(kind: str) -> list[Document]:
    return [document for document in yaml.safe_load_all(filled(kind)) if document]


def ray_document(kind: str) -> Document:
    return next(document for document in documents(kind) if document["apiVersion"] == "ray.io/v1")


def pod_templates(kind: str) -> list[Document]:
    spec = ray_document(kind)["spec"]
    spec = spec.get("rayClusterSpec", spec)
    return [spec["headGroupSpec"]["template"], *(group["template"] for group in spec["workerGroupSpecs"])]


def strict(schema: Any) -> Any:
    """An API server drops fields that it does not know; here they are errors."""
    if isinstance(schema, list):
        return [strict(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {key: strict(value) for key, value in schema.items()}
    if "properties" in schema and not schema.get("x-kubernetes-preserve-unknown-fields"):
        closed.setdefault("additionalProperties", False)
    return closed


@cache
def definition(kind: str) -> Any:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # these files have a megabyte each
    document = yaml.load((FOLDER / f"ray.io_{kind.lower()}s.yaml").read_text(), loader)
    version = next(one for one in document["spec"]["versions"] if one["name"] == "v1")
    schema = strict(version["schema"]["openAPIV3Schema"])
    schema["properties"]["metadata"] = {"type": "object"}
    return schema


def errors(document: Document) -> list[str]:
    found = jsonschema.Draft202012Validator(definition(document["kind"])).iter_errors(document)
    return [f"{'/'.join(map(str, error.absolute_path))}: {error.message[:200]}" for error in found]


@needs_crds
@pytest.mark.parametrize("kind", ["kuberay", "rayjob"])
def test_kuberay_knows_every_field(kind: str) -> None:
    assert errors(ray_document(kind)) == []


def _group(document: Document) -> Document:
    return document["spec"]["workerGroupSpecs"][0]  # type: ignore[no-any-return]


@needs_crds
@pytest.mark.parametrize(
    "change",
    [
        lambda document: _group(document).update(maxReplica=3),
        lambda document: document["spec"]["authOptions"].update(mode="tok"),
        lambda document: _group(document)["template"]["spec"]["containers"][0].update(imag="x"),
    ],
)
def test_a_typo_would_be_found(change: Callable[[Document], None]) -> None:
    document = copy.deepcopy(ray_document("kuberay"))
    change(document)
    assert len(errors(document)) == 1


@pytest.mark.parametrize("kind", ["kuberay", "rayjob"])
def test_pods_and_what_is_beside_them_are_valid_kubernetes(kind: str) -> None:
    for template in pod_templates(kind):
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, **template}
        kubernetes_validate.validate(pod, KUBERNETES, strict=True)
    for document in documents(kind):
        if document["apiVersion"] != "ray.io/v1":
            kubernetes_validate.validate(document, KUBERNETES, strict=True)


@pytest.mark.parametrize("kind", ["kuberay", "rayjob"])
def test_tokens_are_on_and_the_ray_is_ours(kind: str) -> None:
    spec = ray_document(kind)["spec"]
    spec = spec.get("rayClusterSpec", spec)
    assert spec["authOptions"]["mode"] == "token"
    assert spec["rayVersion"] == ray.__version__
    assert spec["headGroupSpec"]["serviceType"] == "ClusterIP"


@pytest.mark.parametrize("kind", ["kuberay", "rayjob"])
def test_no_pod_runs_as_root_and_every_pod_sees_the_checkpoints(kind: str) -> None:
    for template in pod_templates(kind):
        spec = template["spec"]
        assert spec["securityContext"]["runAsNonRoot"] is True
        (container,) = spec["containers"]
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
        assert {"name": "DECOPA_CHECKPOINTS", "value": "/checkpoints"} in container["env"]
        assert container["volumeMounts"][0]["mountPath"] == "/checkpoints"


def test_the_policy_lets_in_the_cluster_and_its_operator_only() -> None:
    (policy,) = [document for document in documents("kuberay") if document["kind"] == "NetworkPolicy"]
    (name,) = [document["metadata"]["name"] for document in documents("kuberay") if document["kind"] == "RayCluster"]
    assert policy["spec"]["podSelector"]["matchLabels"] == {"ray.io/cluster": name}
    assert [len(rule["from"]) for rule in policy["spec"]["ingress"]] == [1, 1]
