"""Helpers to read `backend.extra`, shared by its rules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...._shared import kubernetes_fields as fields
from ...extra import POD
from ...options import KubernetesOptions


def valid_extra(options: KubernetesOptions) -> Mapping[str, Any]:
    """Return all additions; empty if a field is unknown to Kubernetes, which JC4540 reports."""
    return {} if [*fields.check(options.extra)] else options.extra


def extra_pod_spec(options: KubernetesOptions) -> Mapping[str, Any]:
    """Return the additions to the pod spec, with named items as lists; empty if there are none."""
    pod = valid_extra(options).get(POD)
    spec = fields.to_api_form(POD, pod).get("spec") if isinstance(pod, Mapping) else None
    return spec if isinstance(spec, Mapping) else {}
