"""What SkyPilot 0.14.1 knows by name: the keys that a task may override, what it says to sbatch itself.

Its GPUs are in backends/_shared/gpus.py.
Sources: OVERRIDEABLE_CONFIG_KEYS_IN_TASK in sky/skylet/constants.py; sky/provision/slurm/instance.py for the options of
sbatch that it drops with a warning.
"""

from __future__ import annotations

from collections.abc import Mapping

# `config:` of a task: section -> keys below it. What is not here is taken and dropped.
CONFIG_KEYS: Mapping[str, tuple[str, ...]] = {
    "docker": ("run_options",),
    "nvidia_gpus": ("disable_ecc",),
    "ssh": ("custom_metadata", "pod_config", "provision_timeout"),
    "kubernetes": (
        "custom_metadata", "pod_config", "provision_timeout", "dws", "kueue", "quota", "remote_identity",
        "enable_docker", "set_pod_resource_limits",
    ),
    "azure": ("remote_identity", "vpc_name"),
    "gcp": (
        "vpc_name", "subnet_names", "managed_instance_group", "enable_gvnic", "enable_gpu_direct", "placement_policy",
    ),
    "vast": ("datacenter_only", "create_instance_kwargs"),
    "slurm": ("sbatch_options", "quota", "cpu_partition"),
    "active_workspace": (),
}  # fmt: skip

# Options of sbatch that SkyPilot gives itself, and the key of a job that it gives them from.
OWNED: Mapping[str, str] = {
    "job-name": "backend.cluster", "J": "backend.cluster", "output": "storage.root", "o": "storage.root",
    "error": "storage.root", "e": "storage.root", "nodes": "nodes", "N": "nodes", "wait-all-nodes": "nodes",
    "no-requeue": "backend.managed", "cpus-per-task": "cpus", "c": "cpus", "mem": "mem", "gres": "gpus",
    "partition": "queue.name", "p": "queue.name",
}  # fmt: skip
SBATCH_TIME = r"(\d+-)?\d+(:\d+){0,2}|UNLIMITED|INFINITE"  # sbatch manual, --time

# Words of resources that SkyPilot's schema takes as any text, and refuses when it reads them.
TIERS: Mapping[str, tuple[str, ...]] = {
    "disk_tier": ("low", "medium", "high", "ultra", "best"),
    "network_tier": ("standard", "best"),
}
