"""Environment and command of a container: fieldRef, secretKeyRef, Services, and `$(NAME)` expanded as in Kubernetes."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping
from typing import Any

from .store import Object


class NotYet(Exception):
    """Raised if the container cannot be created (CreateContainerConfigError), so that the pod stays Pending."""


def expand(text: str, known: Mapping[str, str]) -> str:
    """Replace `$(NAME)` with its value, and `$$` with `$`. Unknown names, and any other `$`, are kept."""

    def replace(found: re.Match[str]) -> str:
        whole, name = found[0], found[1]
        if whole == "$$":
            return "$"
        return known.get(name, whole)

    return re.sub(r"\$\$|\$\(([^)]*)\)", replace, text)


def field(pod: Object, path: str) -> str:
    """Return the value of a fieldRef: metadata.name, metadata.labels['x'], spec.nodeName, status.podIP."""
    if subscript := re.fullmatch(r"metadata\.(labels|annotations)\['([^']+)'\]", path):
        return str(pod["metadata"].get(subscript[1], {}).get(subscript[2], ""))
    here: Any = pod
    for part in path.split("."):
        here = here.get(part, "")
    return str(here)


def variables(pod: Object, container: Object, secrets: Mapping[str, Object]) -> dict[str, str]:
    """Return the variables of `env` in order: a value may refer only to earlier ones; the Job's index comes last."""
    found: dict[str, str] = {}
    for entry in container.get("env", ()):
        source = entry.get("valueFrom", {})
        if "fieldRef" in source:
            found[entry["name"]] = field(pod, source["fieldRef"]["fieldPath"])
        elif "secretKeyRef" in source:
            found[entry["name"]] = _secret(source["secretKeyRef"], secrets)
        else:
            found[entry["name"]] = expand(entry.get("value", ""), found)
    index = pod["metadata"].get("labels", {}).get("batch.kubernetes.io/job-completion-index")
    return found if index is None else {**found, "JOB_COMPLETION_INDEX": index}


def service_links(pod: Object, services: Iterable[Object]) -> dict[str, str]:
    """Return the variables that the kubelet adds for each Service with an address, unless the pod disables this.

    Source Kubernetes 1.36, concepts/services-networking/service, "Environment variables"; a headless one has no address
    """
    if not pod["spec"].get("enableServiceLinks", True):
        return {}
    found = {}
    for service in services:
        address = service["spec"].get("clusterIP", "None")
        if address != "None":
            name = service["metadata"]["name"].upper().replace("-", "_")
            port = str(service["spec"]["ports"][0]["port"])
            found[f"{name}_SERVICE_HOST"], found[f"{name}_SERVICE_PORT"] = address, port
            found[f"{name}_PORT"] = f"tcp://{address}:{port}"
    return found


def _secret(reference: Object, secrets: Mapping[str, Object]) -> str:
    secret = secrets.get(reference["name"])
    if secret is None:
        raise NotYet(f'secret "{reference["name"]}" not found')
    values = {**secret.get("stringData", {})}
    values.update({key: base64.b64decode(text).decode() for key, text in secret.get("data", {}).items()})
    if reference["key"] not in values:
        raise NotYet(f"couldn't find key {reference['key']} in Secret {secret['metadata']['name']}")
    return str(values[reference["key"]])
