"""pod.yaml: one pod beside the job, without GPUs: shell.sh gives it something to do, others read the runs through it.

It is the job's pod where its storage can be seen: the user's node labels stay, and the hosts where a folder of theirs
is mounted. What is left out asks for GPUs, for a place among the other pods, or is done once a job.
"""

from __future__ import annotations

from typing import Any

from ...compiler.plan import LaunchPlan
from ...compiler.render import Omit
from . import extra, gpu_types
from .options import KubernetesOptions
from .pod import CONTAINER, hostname, pod_spec, required

LEFT_OUT = ("subdomain", "topologySpreadConstraints", "initContainers")
GRACE_S = 5


def lone_pod(plan: LaunchPlan, options: KubernetesOptions, name: str) -> dict[str, Any]:
    made = {**pod_spec(plan, options, name), "affinity": _affinity(plan) or Omit}
    spec = extra.merged({extra.POD: {"spec": made}}, options)[extra.POD]["spec"]
    own = next(each for each in spec["containers"] if each["name"] == CONTAINER)
    alone = {**own, "command": ["bash", "-c", "trap exit TERM; sleep 3600 & wait"], "resources": {}}
    known = ("JOBC_JOB_UID", "JOBC_NODE_RANK")
    alone["env"] = [entry for entry in alone["env"] if entry["name"] not in known]
    alone["env"] += [{"name": known[0], "value": "none"}, {"name": known[1], "value": "0"}]
    spec = {key: value for key, value in spec.items() if key not in LEFT_OUT}
    spec |= {"nodeSelector": _without_gpus(spec["nodeSelector"]), "affinity": _of_nodes(spec["affinity"])}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"{name}-shell"},
        "spec": {**spec, "terminationGracePeriodSeconds": GRACE_S, "containers": [alone]},
    }


def _affinity(plan: LaunchPlan) -> dict[str, Any]:
    """Whose folder is mounted, and who is to be avoided."""
    here = any(mount.kind == "host" for mount in plan.mounts) and bool(plan.resources.hosts)

    def rules(v: Any) -> dict[str, Any]:
        must = [hostname("In", v.plan.resources.hosts)] if here else []
        return required([*must, *([hostname("NotIn", v.plan.queue.exclude)] if v.plan.queue.exclude else [])])

    return {"nodeAffinity": rules} if here or plan.queue.exclude else {}


def _of_nodes(affinity: Any) -> Any:
    """Without what places pods by other pods: those of the job may be gone."""
    kept = {} if affinity is Omit else {key: rules for key, rules in affinity.items() if key == "nodeAffinity"}
    return kept or Omit


def _without_gpus(selector: Any) -> Any:
    """Labels of GPUs have the nodes that others wait for."""

    def labels(v: Any) -> Any:
        found = selector(v) if callable(selector) else selector
        kept = {} if found is Omit else {key: value for key, value in found.items() if key not in gpus(v)}
        return kept or Omit

    def gpus(v: Any) -> tuple[str, ...]:
        return (gpu_types.label(v.options), *gpu_types.PRODUCTS)

    return labels
