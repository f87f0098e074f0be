"""An extra pod without GPUs, in which `jobctl shell` opens a shell, and through which other verbs read the runs.

The pod has the same storage as the job's pods. It keeps the user's node labels and, if a host folder is mounted, the
hosts. It has no GPU requests, no placement relative to other pods, and nothing that runs once per job.
"""

from typing import Any

from ...compiler.emit.render import Omit
from ...compiler.plan.launch_plan import LaunchPlan
from . import extra_fields, gpu_types, pod_security
from .names import object_name_leaf
from .options import KubernetesOptions
from .pod import CONTAINER, UID_VARIABLE, hostname_expression, pod_spec, required_node_affinity

LONE_POD = "lone_pod"  # the pod's key in job.json
LEFT_OUT = ("subdomain", "topologySpreadConstraints", "initContainers")
GRACE_S = 5


def pod_beside_job(plan: LaunchPlan, options: KubernetesOptions) -> dict[str, Any]:
    base_spec = {**pod_spec(plan, options), "affinity": _affinity}
    spec = extra_fields.merge_extra_into_documents({extra_fields.POD: {"spec": base_spec}}, options)[extra_fields.POD][
        "spec"
    ]
    node_container = next(container for container in spec["containers"] if container["name"] == CONTAINER)
    alone = {**node_container, "command": ["bash", "-c", "trap exit TERM; sleep 3600 & wait"], "resources": {}}
    alone["env"] = [entry for entry in alone["env"] if entry["name"] != UID_VARIABLE]
    alone["env"] += [{"name": UID_VARIABLE, "value": "none"}, {"name": "JOB_COMPLETION_INDEX", "value": "0"}]
    alone = pod_security.add_security_contexts({"containers": [alone]}, options)["containers"][0]
    spec = {key: value for key, value in spec.items() if key not in LEFT_OUT}
    spec |= {"nodeSelector": _drop_gpu_labels(spec["nodeSelector"]), "affinity": _node_affinity_only(spec["affinity"])}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": lambda v: f"{object_name_leaf(v)}-shell"},
        "spec": {**spec, "terminationGracePeriodSeconds": GRACE_S, "containers": [alone]},
    }


def _affinity(v: Any) -> Any:
    """Return the affinity to the hosts whose folder is mounted, without the excluded hosts."""
    has_host_folder = any(mount.kind == "host" for mount in v.plan.mounts) and bool(v.plan.resources.hosts)
    must = [hostname_expression("In", v.plan.resources.hosts)] if has_host_folder else []
    must += [hostname_expression("NotIn", v.plan.queue.exclude)] if v.plan.queue.exclude else []
    return {"nodeAffinity": required_node_affinity(must)} if must else Omit


def _node_affinity_only(affinity: Any) -> Any:
    """Return only the node affinity, because the pods to which pod affinity refers may be gone."""

    def kept_expressions(v: Any) -> Any:
        rules_by_kind = affinity(v) if callable(affinity) else affinity
        kept_expressions = (
            {}
            if rules_by_kind is Omit
            else {key: rules for key, rules in rules_by_kind.items() if key == "nodeAffinity"}
        )
        return kept_expressions or Omit

    return kept_expressions


def _drop_gpu_labels(selector: Any) -> Any:
    """Return the node selector without GPU labels, because this pod should not take up room on GPU nodes."""

    def non_gpu_labels(v: Any) -> Any:
        selected = selector(v) if callable(selector) else selector
        remaining = (
            {} if selected is Omit else {key: value for key, value in selected.items() if key not in gpu_resources(v)}
        )
        return remaining or Omit

    def gpu_resources(v: Any) -> tuple[str, ...]:
        return (gpu_types.gpu_label_name(v.options), *gpu_types.PRODUCTS)

    return non_gpu_labels
