"""Helpers to read `backend.extra`, shared by its rules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...._shared import kubernetes_fields as fields
from ...extra import POD
from ...options import KubernetesOptions


def known(options: KubernetesOptions) -> Mapping[str, Any]:
    """Return all additions; empty if a field is unknown to Kubernetes, which JC4540 reports."""
    return {} if [*fields.check(options.extra)] else options.extra


def pod_spec(options: KubernetesOptions) -> Mapping[str, Any]:
    """Return the additions to the pod spec, with lists as lists; empty if there are none."""
    pod = known(options).get(POD)
    spec = fields.fitted(POD, pod).get("spec") if isinstance(pod, Mapping) else None
    return spec if isinstance(spec, Mapping) else {}
