"""What a real API server would reject: fields that are not in the schema, and rules for Jobs that no schema contains.

Source: the strict JSON schemas of kubernetes-validate; kubeflow_trainer_api 2.3 for its kinds and JobSet's; the rules
        as observed on v1.36.2.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from jsonschema import Draft202012Validator
from kubeflow_trainer_api import models
from referencing import Registry, Resource

from .store import Object

VERSION = "1.36.0"
# custom resources have no schema in Kubernetes; their own clients' models are used
MODELS: Mapping[tuple[str, str], Any] = {
    ("jobset.x-k8s.io/v1alpha2", "JobSet"): models.JobsetV1alpha2JobSet,
    ("trainer.kubeflow.org/v1alpha1", "TrainJob"): models.TrainerV1alpha1TrainJob,
    ("trainer.kubeflow.org/v1alpha1", "TrainingRuntime"): models.TrainerV1alpha1TrainingRuntime,
}
SCHEMAS = files("kubernetes_validate") / "kubernetes-json-schema"


def problem(item: Object, version: str = VERSION) -> str:
    """Return why the object cannot be decoded strictly, or "". An unknown kind is an error."""
    if model := MODELS.get((item["apiVersion"], item["kind"])):
        try:
            read = model.from_dict(copy.deepcopy(item))
        except ValueError as error:  # pydantic's
            return str(error)
        return "" if read is not None and read.to_dict() == item else "unknown fields, or values of another type"
    group, _, number = item["apiVersion"].rpartition("/")
    name = "-".join(part for part in (item["kind"].lower(), group.split(".")[0], number) if part)
    validator = _validator(version, name)
    if validator is None:
        return f"no matches for kind {item['kind']} in version {item['apiVersion']}"
    error = next(validator.iter_errors(item), None)
    return f"{'.'.join(map(str, error.path))}: {error.message}" if error else ""


@cache
def _validator(version: str, name: str) -> Any:
    """Return a kind's validator; None if the version lacks the kind. Cached, because the package would read its files
    each time.
    """
    file = SCHEMAS / f"v{version}-local-strict" / f"{name}.json"
    if not file.is_file():
        return None
    schema = json.loads(file.read_text())
    registry = Resource.from_contents(_definitions(version)) @ (Resource.from_contents(schema) @ Registry())
    return Draft202012Validator(schema, registry=registry)


@cache
def _definitions(version: str) -> Any:
    return json.loads((SCHEMAS / f"v{version}-local-strict" / "_definitions.json").read_text())


def invalid(item: Object) -> str:
    """Return what the server rejects in a Job beyond the schema, or ""."""
    if item["kind"] != "Job":
        return ""
    name, spec = item["metadata"]["name"], item["spec"]
    pod, policy = spec["template"]["spec"], spec.get("podFailurePolicy", {})
    host = f"{name}-{spec.get('completions', 1) - 1}"
    if len(host) > 63 or not re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", host):
        return f"metadata.name: will not able to create pod with invalid DNS label: {host}"
    if spec.get("completionMode") not in ("Indexed", "NonIndexed", None):
        return f'spec.completionMode: Unsupported value: "{spec["completionMode"]}"'
    if pod.get("restartPolicy") not in ("OnFailure", "Never"):
        return 'restartPolicy: Required value: valid values: "OnFailure", "Never"'
    if policy and pod["restartPolicy"] != "Never":
        return 'restartPolicy: only "Never" is supported when podFailurePolicy is specified'
    if policy and spec.get("podReplacementPolicy", "Failed") != "Failed":
        return 'podReplacementPolicy: supported values: "Failed"'
    for rule in policy.get("rules", ()):
        codes = rule.get("onExitCodes", {})
        if codes and codes["values"] != sorted(codes["values"]):
            return f"onExitCodes values: Invalid value: {codes['values']}: must be ordered"
        if codes.get("operator") == "In" and 0 in codes["values"]:
            return "must not be 0 for the In operator"
    volumes = {volume["name"] for volume in pod.get("volumes", ())}
    for container in (*pod.get("initContainers", ()), *pod["containers"]):
        for i, mount in enumerate(container.get("volumeMounts", ())):
            if mount["name"] not in volumes:
                return f'volumeMounts[{i}].name: Not found: "{mount["name"]}"'
        limits, requests = (container.get("resources", {}).get(kind, {}) for kind in ("limits", "requests"))
        for name, count in limits.items():
            if "/" in name and requests.get(name, count) != count:
                return f"resources.requests: must be equal to {name} limit of {count}"
    return ""
