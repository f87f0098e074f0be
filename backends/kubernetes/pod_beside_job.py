"""An extra pod without GPUs, in which `jobctl shell` opens a shell, and through which other verbs read the runs.

The pod has the same storage as the job's pods. It keeps the user's node labels and, if a host folder is mounted, the
hosts. It has no GPU requests, no placement relative to other pods, and nothing that runs once per job.
"""

from collections.abc import Callable
from typing import Any

from ...compiler.api import LaunchPlan, Leaf, Omit
from . import extra_fields, gpu_types, pod_security
from .names import object_name
from .options import KubernetesOptions
from .pod import CONTAINER, HOSTNAME, UID_VARIABLE, label_expressions, pod_spec, required_node_affinity

LONE_POD = "lone_pod"  # the pod's key in job.json
LEFT_OUT = ("subdomain", "topologySpreadConstraints", "initContainers")


def pod_beside_job(plan: LaunchPlan, options: KubernetesOptions) -> dict[str, Any]:
    base = {"spec": {**pod_spec(plan, options), "affinity": _node_affinity}}
    spec = extra_fields.merge_extra(extra_fields.POD, base, options)["spec"]
    node_container = next(container for container in spec["containers"] if container["name"] == CONTAINER)
    alone = {**node_container, "command": ["bash", "-c", "trap exit TERM; sleep 3600 & wait"], "resources": {}}
    alone["env"] = [entry for entry in alone["env"] if entry["name"] != UID_VARIABLE]
    alone["env"] += [{"name": UID_VARIABLE, "value": "none"}, {"name": "JOB_COMPLETION_INDEX", "value": "0"}]
    alone = pod_security.add_security_contexts({"containers": [alone]}, options)["containers"][0]
    spec = {key: value for key, value in spec.items() if key not in LEFT_OUT}
    # without GPU labels, so that this pod does not take up room on GPU nodes
    spec["nodeSelector"] = _filter_entries(spec["nodeSelector"], lambda v, label: label not in _gpu_labels(v.options))
    # without pod affinity, because the pods to which it refers may be gone
    spec["affinity"] = _filter_entries(spec["affinity"], lambda v, kind: kind == "nodeAffinity")
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": lambda v: f"{object_name(v)}-shell"},
        "spec": {**spec, "terminationGracePeriodSeconds": 5, "containers": [alone]},
    }


def _node_affinity(v: Any) -> Any:
    """Return the affinity to the hosts whose folder is mounted, without the excluded hosts."""
    has_host_folder = any(mount.kind == "host" for mount in v.plan.mounts)
    must = label_expressions(HOSTNAME, "In", v.plan.resources.hosts if has_host_folder else ())
    must += label_expressions(HOSTNAME, "NotIn", v.plan.queue.exclude)
    return {"nodeAffinity": required_node_affinity(must)} if must else Omit


def _filter_entries(entries: Any, is_kept: Callable[[Any, str], bool]) -> Leaf:
    """Return a leaf with those entries of a mapping, or of a leaf, whose key is kept; omitted if there are none."""

    def select_kept_entries(v: Any) -> Any:
        mapping = entries(v) if callable(entries) else entries
        kept = {} if mapping is Omit else {key: value for key, value in mapping.items() if is_kept(v, key)}
        return kept or Omit

    return select_kept_entries


def _gpu_labels(options: KubernetesOptions) -> tuple[str, ...]:
    return (gpu_types.gpu_label_name(options), *gpu_types.PRODUCTS)
