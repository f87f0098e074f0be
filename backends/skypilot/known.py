"""What SkyPilot 0.14.1 knows by name: GPUs, the keys that a task may override, what it says to sbatch itself.

Sources: docs.skypilot.co/en/latest/compute/gpus.html and `sky gpus list`; OVERRIDEABLE_CONFIG_KEYS_IN_TASK in
sky/skylet/constants.py; sky/provision/slurm/instance.py for the options of sbatch that it drops with a warning.
"""

from __future__ import annotations

from collections.abc import Mapping

# GPU -> the most of them that a machine has.
GPUS: Mapping[str, int] = {
    **dict.fromkeys(("A10", "A10G", "A40", "A100-80GB", "A100-80GB-SXM", "H100", "H100-SXM", "H100-NVLINK"), 8),
    **dict.fromkeys(("H100-MEGA", "H100-80GB", "H200", "H200-SXM", "B200", "B300", "L4", "L40", "L40S"), 8),
    **dict.fromkeys(("RTX3090", "RTX4090", "RTX5090", "RTX6000-Ada", "RTXA4000", "RTXA5000", "RTXA6000"), 8),
    **dict.fromkeys(("RTXPRO6000", "V100", "V100-32GB", "T4", "P100", "MI250", "MI300X", "MI325X", "MI350X"), 8),
    **dict.fromkeys(("GB200", "GB300", "P4", "M60"), 4),
    **dict.fromkeys(("GH200", "T4g"), 2),
    **dict.fromkeys(("A100", "K80", "Trainium", "Trainium2", "Inferentia"), 16),
}
MOST_GPUS = 16

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
