"""JC4540, JC4550: a `pod_config` with fields or values unknown to Kubernetes. jobc's own part is valid.

In:  `backend.config` and `backend.extra`, as the user typed them.
"""

from collections.abc import Iterator
from dataclasses import replace

from ...compiler.diagnostics.diagnostic import Diagnostic
from .._shared import kubernetes_fields
from .config import PODS
from .finished_task import as_mapping
from .options import SkypilotOptions


def check(options: SkypilotOptions) -> Iterator[Diagnostic]:
    typed = {("backend", "config"): options.config, ("backend", "extra", "config"): options.extra.get("config")}
    for path, config in typed.items():
        for section in PODS:
            tree = as_mapping(as_mapping(config).get(section)).get("pod_config")
            for diagnostic in kubernetes_fields.check_pod(tree, (*path, section, "pod_config")):
                because = "SkyPilot passes the value on unchecked, and Kubernetes ignores it or rejects the pods"
                yield replace(diagnostic, because=because)
