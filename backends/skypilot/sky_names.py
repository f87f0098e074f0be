"""Names known to SkyPilot 0.14.1: task config keys, sbatch options, image sizes.

GPU names are in backends/_shared/gpus.py.
Sources: OVERRIDEABLE_CONFIG_KEYS_IN_TASK in sky/skylet/constants.py; sky/provision/slurm/instance.py for the sbatch
options that SkyPilot ignores with a warning.
"""

from collections.abc import Mapping

from .._shared.sbatch_options import CONTAINER

# A task's `config:`: section -> its keys. SkyPilot accepts other keys but drops them.
CONFIG_KEYS: Mapping[str, tuple[str, ...]] = {
    "kubernetes": (
        "custom_metadata", "pod_config", "provision_timeout", "dws", "kueue", "quota", "remote_identity",
        "enable_docker", "set_pod_resource_limits",
    ),
    "docker": ("run_options",),
    "nvidia_gpus": ("disable_ecc",),
    "ssh": ("custom_metadata", "pod_config", "provision_timeout"),
    "azure": ("remote_identity", "vpc_name"),
    "gcp": (
        "vpc_name", "subnet_names", "managed_instance_group", "enable_gvnic", "enable_gpu_direct", "placement_policy",
    ),
    "vast": ("datacenter_only", "create_instance_kwargs"),
    "slurm": ("sbatch_options", "quota", "cpu_partition"),
    "active_workspace": (),
}  # fmt: skip

# sbatch options that SkyPilot sets itself (it drops the user's with a warning) -> the job key to set instead.
OWNED: Mapping[str, str] = {
    "job-name": "backend.cluster", "output": "storage.root", "error": "storage.root", "nodes": "nodes",
    "wait-all-nodes": "nodes", "no-requeue": "backend.managed", "cpus-per-task": "cpus", "mem": "mem", "gres": "gpus",
    "partition": "queue.name",
}  # fmt: skip
# sbatch options that SkyPilot passes on but that contradict the plan -> the job key to set instead.
_LAYOUT = ("ntasks", "ntasks-per-node", "ntasks-per-core", "ntasks-per-gpu", "ntasks-per-socket", "ntasks-per-tres")
BREAKS: Mapping[str, str] = {
    "array": "jobc -m, which compiles each point as a job",
    **dict.fromkeys((*_LAYOUT, "tasks-per-node"), "nodes and procs"),
    **dict.fromkeys(("gpus", "gpus-per-node", "gpus-per-socket", "gpus-per-task", "gpu-bind", "tres-per-task"), "gpus"),
    "cpus-per-gpu": "cpus", "mem-per-cpu": "mem", "mem-per-gpu": "mem", "requeue": "backend.managed",
    "nodefile": "queue.nodelist", "clusters": "backend.infra", "cluster": "backend.infra",
    **dict.fromkeys(CONTAINER, "image, container and mounts"),
    **dict.fromkeys(("wrap", "test-only", "wait", "help", "usage", "version"), "submit, which calls SkyPilot"),
}  # fmt: skip
# sbatch options that config.py derives from job keys. If such an option were set twice, one of the values would be
# ignored.
QUEUED: Mapping[str, str] = {
    "account": "queue.account", "qos": "queue.qos", "reservation": "queue.reservation",
    "nodelist": "hosts or queue.nodelist", "exclude": "queue.exclude", "exclusive": "queue.exclusive",
    "dependency": "queue.after",
}  # fmt: skip
SBATCH_TIME = r"(\d+-)?\d+(:\d+){0,2}|UNLIMITED|INFINITE"  # sbatch manual, --time

# Minimum disk in GB: the size of SkyPilot's machine image (DEFAULT_AMI_GB and similar in sky/clouds/), or the cloud's
# own minimum (scp). For other clouds, the smallest of these applies.
LEAST_DISK_GB: Mapping[str, int] = {"aws": 45, "gcp": 50, "azure": 30, "scp": 100}

# Values in `resources` that SkyPilot's schema does not restrict, but that SkyPilot rejects when it reads them.
TIERS: Mapping[str, tuple[str, ...]] = {
    "disk_tier": ("low", "medium", "high", "ultra", "best"),
    "network_tier": ("standard", "best"),
}
