"""What SkyPilot 0.14.1 knows by name: GPUs, the keys that a task may override, options of sbatch, sizes of images.

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

# Options of sbatch that SkyPilot gives itself, dropping others' with a warning: the key of a job that they come from.
OWNED: Mapping[str, str] = {
    "job-name": "backend.cluster", "output": "storage.root", "error": "storage.root", "nodes": "nodes",
    "wait-all-nodes": "nodes", "no-requeue": "backend.managed", "cpus-per-task": "cpus", "mem": "mem", "gres": "gpus",
    "partition": "queue.name",
}  # fmt: skip
# Options that it hands on, and that make another job of it than the plan: with the key that says what they would say.
_LAYOUT = ("ntasks", "ntasks-per-node", "ntasks-per-core", "ntasks-per-gpu", "ntasks-per-socket", "ntasks-per-tres")
BREAKS: Mapping[str, str] = {
    "array": "jobc -m, which makes a job of each point",
    **dict.fromkeys((*_LAYOUT, "tasks-per-node"), "nodes and procs"),
    **dict.fromkeys(("gpus", "gpus-per-node", "gpus-per-socket", "gpus-per-task", "gpu-bind", "tres-per-task"), "gpus"),
    "cpus-per-gpu": "cpus", "mem-per-cpu": "mem", "mem-per-gpu": "mem", "requeue": "backend.managed",
    "nodefile": "queue.nodelist", "clusters": "backend.infra", "cluster": "backend.infra",
    **dict.fromkeys(("wrap", "test-only", "wait", "help", "usage", "version"), "submit.sh, which lets SkyPilot submit"),
}  # fmt: skip
# Options that config.py makes of keys of a job: said twice, the one would hide the other.
QUEUED: Mapping[str, str] = {
    "account": "queue.account", "qos": "queue.qos", "reservation": "queue.reservation",
    "nodelist": "hosts or queue.nodelist", "exclude": "queue.exclude", "exclusive": "queue.exclusive",
    "dependency": "queue.after",
}  # fmt: skip
SBATCH_TIME = r"(\d+-)?\d+(:\d+){0,2}|UNLIMITED|INFINITE"  # sbatch manual, --time

# GB that SkyPilot's own image of a machine takes (DEFAULT_AMI_GB and its like in sky/clouds/), or that a cloud asks for
# (scp); any other cloud: the least of them.
LEAST_DISK_GB: Mapping[str, int] = {"aws": 45, "gcp": 50, "azure": 30, "scp": 100}

# Words of resources that SkyPilot's schema takes as any text, and refuses when it reads them.
TIERS: Mapping[str, tuple[str, ...]] = {
    "disk_tier": ("low", "medium", "high", "ultra", "best"),
    "network_tier": ("standard", "best"),
}
