"""JC4716: sbatch options in a task, which SkyPilot passes on unchecked or ignores.

In:  the finished task. The options in it that config.py derives from job keys are always valid.
Source: SkyPilot 0.14.1, _build_custom_sbatch_directives in sky/provision/slurm/instance.py; Slurm 22.05 to 25.11.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from .....compiler.diagnostics.diagnostic import Diagnostic, join_with_or
from ...._shared import sbatch_options
from ...._shared.sbatch_options import EXCLUSIVE
from ...finished_task import SBATCH, FinishedTask

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
    **dict.fromkeys(sbatch_options.CONTAINER, "image, container and mounts"),
    **dict.fromkeys(("wrap", "test-only", "wait", "help", "usage", "version"), "jobctl submit, which calls SkyPilot"),
}  # fmt: skip
# sbatch options that config.py derives from job keys. If such an option were set twice, one of the values would be
# ignored.
QUEUED: Mapping[str, str] = {
    "account": "queue.account", "qos": "queue.qos", "reservation": "queue.reservation",
    "nodelist": "hosts or queue.nodelist", "exclude": "queue.exclude", "exclusive": "queue.exclusive",
    "dependency": "queue.after",
}  # fmt: skip
SBATCH_TIME = r"(\d+-)?\d+(:\d+){0,2}|UNLIMITED|INFINITE"  # sbatch manual, --time


def check(task: FinishedTask) -> Iterator[Diagnostic]:
    for name, value in task.section(*SBATCH).items():
        yield from _check_option(task, task.key_that_set((*SBATCH, name)), name.replace("_", "-"), value)


def _check_option(task: FinishedTask, key: str, option: str, value: Any) -> Iterator[Diagnostic]:
    """Check one option. option: its name as SkyPilot writes it after `#SBATCH --`"""
    title = f"{key}: {value!r} is not valid"
    if option in OWNED:
        title = f"{key} has no effect"
        because = f"SkyPilot sets this option from {OWNED[option]}, and ignores your value with a warning"
        hint = f"remove {key}, and set {OWNED[option]}"
    elif option in BREAKS and value not in (None, False):
        title = f"{key} would contradict the plan"
        because = "SkyPilot passes the option to sbatch, which would then start something other than the compiled job"
        hint = f"remove {key}, and use {BREAKS[option]}"
    elif option in task.queued and key.startswith("backend.config."):  # JC4600 reports this for backend.extra
        title = f"{key} is set twice"
        because = f"{QUEUED[option]} already sets --{option}, and this value would override it"
        hint = f"remove {key}, or {QUEUED[option]}"
    elif option not in sbatch_options.OPTIONS | sbatch_options.PLUGINS:
        title = f"sbatch has no option --{option}"
        because = f"SkyPilot passes on --{option}, and sbatch fails on unknown options"
        hint = _option_hint(key, sbatch_options.similar_options(option))
    elif option == "time" and not re.fullmatch(SBATCH_TIME, str(value), re.IGNORECASE):
        because = "sbatch expects minutes, HH:MM:SS or D-HH:MM:SS, and SkyPilot passes the value on unchanged"
        hint = f'{key}="12:00:00"'
    elif option == "exclusive" and value is not None and not _is_exclusive_value(value):
        because = f"sbatch accepts the option without a value, or with one of {', '.join(EXCLUSIVE)}"
        hint = f"{key}=true"
    else:
        return
    yield Diagnostic("JC4716", title, because, hint, key=key)


def _is_exclusive_value(value: Any) -> bool:
    """Return whether SkyPilot writes --exclusive as sbatch expects it. It writes a Boolean without a value."""
    return isinstance(value, bool) or str(value).lower() in EXCLUSIVE


def _option_hint(key: str, meant: list[str]) -> str:
    """Return the hint for an unknown option. meant: known options with similar names"""
    if not meant:
        return f"remove {key}"
    if owner := OWNED.get(meant[0]) or BREAKS.get(meant[0]):
        return f"remove {key}, and use {owner}"
    above = key.rpartition(".")[0]
    return f"did you mean {join_with_or(f'{above}.{name}' for name in meant)}?"
