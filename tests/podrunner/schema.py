"""What a real API server would refuse: fields that are not in the schema, and the rules of Jobs that no schema has.

Source: the strict JSON schemas of kubernetes-validate; the rules as observed on v1.36.2.
"""

from __future__ import annotations

import re

import kubernetes_validate

from .store import Object

VERSION = "1.36.0"


def problem(item: Object, version: str = VERSION) -> str:
    """Empty when the object decodes strictly. An unknown kind is a problem."""
    try:
        kubernetes_validate.validate(item, version, strict=True)
    except kubernetes_validate.SchemaNotFoundError as error:
        return str(error.message)
    except kubernetes_validate.ValidationError as error:
        return f"{'.'.join(map(str, error.path))}: {error.message}"
    return ""


def invalid(item: Object) -> str:
    """Of a Job: what the server checks beyond the schema."""
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
    for container in pod["containers"]:
        for i, mount in enumerate(container.get("volumeMounts", ())):
            if mount["name"] not in volumes:
                return f'volumeMounts[{i}].name: Not found: "{mount["name"]}"'
        limits, requests = (container.get("resources", {}).get(kind, {}) for kind in ("limits", "requests"))
        for name, count in limits.items():
            if "/" in name and requests.get(name, count) != count:
                return f"resources.requests: must be equal to {name} limit of {count}"
    return ""
