"""Build a task's `config:` section: infrastructure settings for which SkyPilot tasks have no key.

Out:   ~/.sky/config.yaml keys for this task: sbatch options, the Kueue queue, host folders, and the size of /dev/shm in
       pods and containers; `backend.config` is merged last.
Source: SkyPilot 0.14.1: OVERRIDEABLE_CONFIG_KEYS_IN_TASK in sky/skylet/constants.py; merge_k8s_configs in
       sky/utils/config_utils.py, which merges volumes by name, mounts by path, and an unnamed container into SkyPilot's
       own; `dshm` in sky/templates/kubernetes-ray.yml.j2; docker_start_cmds in sky/provision/docker_utils.py.
"""

from collections.abc import Mapping
from typing import Any

from ...compiler.plan.launch_plan import LaunchPlan, to_mutable_tree
from .._shared.kubernetes_fields import to_api_form
from .._shared.sbatch_options import dependency_value
from .options import SkypilotOptions

PODS = ("kubernetes", "ssh")  # infrastructures whose machines are pods; each has a `pod_config`
SITES = ("slurm", *PODS)  # on-premises infrastructure, not a cloud
MIB = 1024**2


def requested_cloud(plan: LaunchPlan, options: SkypilotOptions) -> str:
    """Return the first word of the requested infra, or "" if SkyPilot chooses the infrastructure."""
    return "kubernetes" if needs_pods(plan, options) else options.cloud


def needs_pods(plan: LaunchPlan, options: SkypilotOptions) -> bool:
    """Return whether the task must run in pods: no infra is set, but a host folder is mounted, which cloud VMs lack."""
    infra = options.infra or options.any_of or options.ordered
    return not infra and any(mount.kind == "host" for mount in plan.mounts)


def task_config_section(v: Any) -> dict[str, Any] | None:
    cloud_name = requested_cloud(v.plan, v.options)
    sections: dict[str, Any] = {}
    if cloud_name == "slurm" and (options := sbatch_options(v.plan)):
        sections["slurm"] = {"sbatch_options": options}
    if cloud_name == "kubernetes" and v.plan.queue.name:
        sections["kubernetes"] = {"kueue": {"local_queue_name": v.plan.queue.name}}
    if (pod := pod_config(v.plan)) and cloud_name in ("", *PODS):
        sections.setdefault(cloud_name or "kubernetes", {})["pod_config"] = pod
    if v.plan.resources.shm_bytes and v.plan.container.image and cloud_name not in SITES:
        sections["docker"] = {"run_options": [f"--shm-size={-(-v.plan.resources.shm_bytes // MIB)}m"]}
    given = to_mutable_tree(v.options.config)
    for tree in (given[name] for name in PODS if isinstance(given.get(name), Mapping)):
        if "pod_config" in tree:  # for example, Kubernetes requires text for an integer annotation
            tree["pod_config"] = to_api_form("Pod", tree["pod_config"])
    return _merge_like_skypilot(sections, given) or None


def sbatch_options(plan: LaunchPlan) -> dict[str, Any]:
    """Return sbatch options that SkyPilot does not set itself."""
    queue = plan.queue
    values = {
        "account": queue.account,
        "qos": queue.qos,
        "reservation": queue.reservation,
        "nodelist": ",".join(plan.resources.hosts or queue.nodelist),
        "exclude": ",".join(queue.exclude),
        "exclusive": queue.exclusive or None,
        "dependency": dependency_value(queue.after) or None,
    }
    return {key: value for key, value in values.items() if value}


def pod_config(plan: LaunchPlan) -> dict[str, Any] | None:
    """Return the pod config: host folders, and the size of /dev/shm."""
    hosts = {f"mount-{i}": mount for i, mount in enumerate(plan.mounts) if mount.kind == "host"}
    volumes: list[dict[str, Any]] = [
        {"name": name, "hostPath": {"path": mount.source, "type": "Directory"}} for name, mount in hosts.items()
    ]
    if plan.resources.shm_bytes:
        mib = -(-plan.resources.shm_bytes // MIB)
        size = f"{mib}Mi" if mib % 1024 else f"{mib // 1024}Gi"
        volumes.append({"name": "dshm", "emptyDir": {"medium": "Memory", "sizeLimit": size}})
    mounts = [
        {"name": name, "mountPath": mount.target, **({"readOnly": True} if mount.read_only else {})}
        for name, mount in hosts.items()
    ]
    containers = {"containers": [{"volumeMounts": mounts}]} if mounts else {}
    return {"spec": {**containers, "volumes": volumes}} if volumes else None


def _merge_like_skypilot(made: Any, given: Any) -> Any:
    """Merge `given` over `made` as SkyPilot does: mappings key by key, and lists by concatenation."""
    if isinstance(made, Mapping) and isinstance(given, Mapping):
        merged = {key: _merge_like_skypilot(made[key], given[key]) if key in given else made[key] for key in made}
        return {**merged, **{key: value for key, value in given.items() if key not in made}}
    return [*made, *given] if isinstance(made, list) and isinstance(given, list) else given
