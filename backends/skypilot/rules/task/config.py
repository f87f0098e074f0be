"""`config` and `file_mounts` of the finished task: JC4709, JC4713, JC4715."""

import re
from collections.abc import Collection, Iterator, Mapping
from posixpath import normpath

from .....compiler.diagnostics.diagnostic import Diagnostic, nearest
from ...finished_task import SBATCH, FinishedTask, mapping_or_empty, text_or_empty
from ...schema import At

# A task's `config:`: section -> its keys (OVERRIDEABLE_CONFIG_KEYS_IN_TASK in sky/skylet/constants.py of SkyPilot
# 0.14.1). SkyPilot accepts other keys but drops them.
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


def check_config_not_overridable(task: FinishedTask) -> Iterator[Diagnostic]:
    """JC4715: keys of ~/.sky/config.yaml that a task cannot override; SkyPilot drops them."""
    for section, inner in task.section("config").items():
        valid_names = CONFIG_KEYS.get(section)
        if valid_names is None:
            because = f"in ~/.sky/config.yaml, a task can override only {', '.join(sorted(CONFIG_KEYS))}"
            yield _ignored_key_diagnostic(task, ("config", section), because, CONFIG_KEYS)
            continue
        for name in mapping_or_empty(inner):
            if name not in valid_names:
                because = f"in this section, a task can override only {', '.join(valid_names)}"
                yield _ignored_key_diagnostic(task, ("config", section, name), because, valid_names)


def _ignored_key_diagnostic(task: FinishedTask, path: At, because: str, names: Collection[str]) -> Diagnostic:
    key = task.key_that_set(path)
    similar = [*nearest(str(path[-1]), names), *names]
    hint = f"{key.rpartition('.')[0]}.{similar[0]}" if similar else f"remove {key}"
    return Diagnostic("JC4715", f"SkyPilot would ignore {key}", because, hint, key=key)


def check_unknown_qos(task: FinishedTask) -> Iterator[Diagnostic]:
    """JC4713: an unknown Slurm QOS."""
    qos, qos_names = text_or_empty(task.section(*SBATCH).get("qos")), task.options.qos
    if qos and qos_names is not None and qos not in qos_names:
        key = task.key_that_set((*SBATCH, "qos"))
        because = f"backend.qos lists {', '.join(qos_names) or 'none'}; Slurm would queue the job and never start it"
        hint = f"{key}={(nearest(qos, qos_names) or [*qos_names, 'null'])[0]}"
        yield Diagnostic("JC4713", f"QOS {qos} does not exist at this site", because, hint, key=key)


def check_relative_source(task: FinishedTask) -> Iterator[Diagnostic]:
    """JC4709: a relative source, which SkyPilot resolves in its working directory. Submit checks that sources exist."""
    for target, mount in task.section("file_mounts").items():
        if not isinstance(mount, (str, Mapping)):
            because = "a file mount must be a path, a bucket URL, or a mapping with a source"
            key = task.key_that_set(("file_mounts", target))
            yield Diagnostic("JC4709", f"{mount!r} is not an absolute path", because, f"remove {key}", key=key)
    for key, source in task.local_files().items():
        if source.startswith(("/", "~/")):
            continue
        if "://" in source:
            because = "SkyPilot reads each item of a list as a local path"
            hint = "a list of local paths only, or a single URL that is not in a list"
        else:
            because = "SkyPilot resolves a relative path against its working directory, which is the run folder"
            target = key.removeprefix("backend.file_mounts.")
            hint = "a path that begins with / or ~/, or a bucket URL"
            if task.options.file_mounts.get(target) == source and not re.search(r"[^\w./-]", target + source):
                override = f"""backend.file_mounts="{{{target}: '$PWD/{normpath(source)}'}}\""""
                hint = f"an absolute path: {override}, or a bucket URL"
        yield Diagnostic("JC4709", f"{source!r} is not an absolute path", because, hint, key=key)
