"""Variables that the user sets for libraries and other programs: JC3004 to JC3007."""

import re
from collections.abc import Iterator
from itertools import takewhile

from ...diagnostics.diagnostic import Diagnostic, Severity
from ...plan.launch_plan import LaunchPlan
from ...spec.job_spec import JobSpec
from ._variables import user_variables

_READ = {  # prefix -> what the program that reads the variable makes of an empty value
    "TORCH_DISTRIBUTED_": "torch fails on an empty value",
    "TORCH_NCCL_": "torch fails on an empty number or flag",
    "TORCH_GLOO_": "torch fails on an empty number or flag",
    "TORCH_LOGS": "torch 2.13 fails on an empty value",
    "NCCL_": "NCCL uses its default for an empty number, and looks for a network without a name if NCCL_NET is empty",
    "RCCL_": "RCCL uses its default for an empty number",
    "GLOO_": "Gloo fails on an empty GLOO_DEVICE_TRANSPORT, and uses its default for an empty interface",
    "UCX_": "UCX fails on a number or flag that it cannot parse",
    "FI_": "libfabric reads an empty number as 0",
    "OMP_": "OpenMP reports an empty value as invalid and uses its default",
}
_OF_TORCH = {  # old name -> new name, since when
    f"NCCL_{name}": (f"TORCH_NCCL_{name}", "torch 2.2")
    for name in ("ASYNC_ERROR_HANDLING", "BLOCKING_WAIT", "DESYNC_DEBUG", "ENABLE_TIMING")
}
_OF_OTHERS = {  # packages whose version is neither in the spec nor implied by torch's version
    "TRANSFORMERS_CACHE": ("HF_HUB_CACHE", "transformers 5"),  # HF_HOME is the parent folder, without /hub
    "HF_HUB_ENABLE_HF_TRANSFER": ("HF_XET_HIGH_PERFORMANCE", "huggingface_hub 1.0"),
}
_KEYS_OF_TORCHRUN = {
    "PET_NNODES": "nodes=2",
    "PET_NPROC_PER_NODE": "procs=2",
    "PET_MASTER_PORT": "rendezvous.port=29400",
    "PET_MAX_RESTARTS": "lifecycle.max_restarts=1",
}


def check_empty_variable(spec: JobSpec, plan: LaunchPlan) -> Iterator[Diagnostic]:
    """JC3004: a variable set to an empty value, which is not the same as an unset variable.

    CUDA_VISIBLE_DEVICES is excluded: an empty value hides the GPUs, which is intended on a CPU.
    Source: PyTorch 2.13, observed: a ValueError for TORCH_DISTRIBUTED_DEBUG, an AttributeError for TORCH_LOGS,
            `Invalid value for environment variable` for numbers and flags (c10d/Utils.hpp, getCvarInt, getCvarBool),
            `unsupported gloo device` for GLOO_DEVICE_TRANSPORT
            NCCL 2.28: an empty number is its default (misc/param.cc), and an empty NCCL_NET names no network (init.cc)
            libgomp 12, observed: `Invalid value for environment variable OMP_NUM_THREADS`, and continues
            UCX: ucs_config_parser_parse_field; libfabric: fi_param_get_int in src/var.c.
    """
    for variable in user_variables(spec):
        because = next((words for prefix, words in _READ.items() if variable.name.startswith(prefix)), "")
        if not variable.value and because:
            title, hint = f"{variable.title} is set to an empty value", f"{variable.removal_hint()}, to leave it unset"
            yield Diagnostic("JC3004", title, because, hint, key=variable.key, severity=Severity.WARNING)


def check_renamed_variable(spec: JobSpec, plan: LaunchPlan) -> Iterator[Diagnostic]:
    """JC3005: a variable with an old name that its reader ignores or will ignore.

    Source: PyTorch 2.2 (c10d, Utils.hpp warns of the old NCCL names); pytorch/pytorch#183387 of PyTorch 2.9.1;
            transformers 5 (reads HF_HOME and HF_HUB_CACHE); huggingface_hub 1.0 (constants.py: hf_transfer is unused).
    """
    renamed = {**_OF_OTHERS, **(_OF_TORCH if _torch_version(spec) >= (2, 2) else {})}
    for variable in user_variables(spec):
        if variable.name in renamed:
            new, since = renamed[variable.name]
            title, because = f"{variable.title} was renamed", f"since {since}, the variable has been named {new}"
            yield _renamed_variable_diagnostic(
                title, because, variable.removal_hint(f"env.{new}={variable.value}"), variable.key
            )
        elif variable.name == "PYTORCH_ALLOC_CONF" and _torch_version(spec) < (2, 10):
            title = f"torch {spec.site.torch} does not read PYTORCH_ALLOC_CONF for CUDA"
            because = "torch 2.9 and older read PYTORCH_CUDA_ALLOC_CONF, which newer versions accept too"
            hint = variable.removal_hint(f"env.PYTORCH_CUDA_ALLOC_CONF={variable.value}")
            yield _renamed_variable_diagnostic(title, because, hint, variable.key)


def _torch_version(spec: JobSpec) -> tuple[int, int]:
    """Return the site's torch version. If the site does not set it, return one that is newer than any release."""
    match = re.match(r"(\d+)\.(\d+)", spec.site.torch or "")
    return (int(match[1]), int(match[2])) if match else (99, 0)


def _renamed_variable_diagnostic(title: str, because: str, hint: str, key: str) -> Diagnostic:
    return Diagnostic("JC3005", title, because, hint, key=key, severity=Severity.WARNING)


def check_torchrun_variable(spec: JobSpec, plan: LaunchPlan) -> Iterator[Diagnostic]:
    """JC3007: variables in `env` such as PET_NNODES. torchrun takes every option that launch.sh does not set from them.

    Source: torch/distributed/argparse_util.py of PyTorch 2.13.
    """
    for name in spec.env:
        if name.startswith("PET_"):
            because = "torchrun reads options from PET_ variables, which would override those in launch.sh and the plan"
            hint = f"~env.{name}" + (f", and {_KEYS_OF_TORCHRUN[name]}" if name in _KEYS_OF_TORCHRUN else "")
            yield Diagnostic("JC3007", f"env.{name} is an option of torchrun", because, hint, key=f"env.{name}")


_MASKS = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL")
_DEVICES = (r"\s*\+?0*(\d+)", r"(GPU-.+)", r"(MIG-.+)")  # all entries of one mask have the same kind


def check_visible_devices(spec: JobSpec, plan: LaunchPlan) -> Iterator[Diagnostic]:
    """JC3006: a variable that the user sets and that hides GPUs from ranks that need them.

    Source: CUDA Programming Guide 13 (CUDA_VISIBLE_DEVICES); torch 2.13, torch/cuda/__init__.py
            (_parse_visible_devices).
    """
    masks = {variable.name: variable for variable in user_variables(spec) if variable.name in _MASKS}
    procs = plan.topology.procs
    if not masks or not plan.topology.gpus:
        return
    first, *others = sorted(masks.values(), key=lambda variable: _MASKS.index(variable.name))
    if others:
        title = f"{' and '.join(variable.name for variable in (first, *others))} together"
        because = "each variable filters the GPUs that the other leaves visible, so ranks may find no GPU"
        yield _hidden_gpus_diagnostic(title, because, others[0].removal_hint(), others[0].key)
        return
    visible, hidden = _visible_count_and_reason(first.value)
    if visible < procs and first.is_literal:
        title = f"{first.title} leaves {visible} GPU{'s' * (visible != 1)} to {procs} rank{'s' * (procs != 1)}"
        because = "the other ranks fail immediately with `invalid device ordinal`" if visible else "no rank finds a GPU"
        alternative = f"procs={visible}" if visible else "gpus=0"
        hint = f"{first.removal_hint()}, so that the engine allocates the GPUs; or {alternative}"
        yield _hidden_gpus_diagnostic(title, "; ".join(filter(None, (hidden, because))), hint, first.key)


def _visible_count_and_reason(mask: str) -> tuple[int, str]:
    """Return how many GPUs a mask leaves visible, and why the rest is hidden."""
    names = mask.split(",")
    kind = next((pattern for pattern in _DEVICES if re.match(pattern, mask)), _DEVICES[0])
    devices = [match[1] for match in takewhile(bool, (re.match(kind, name) for name in names)) if match]
    if twice := next((device for device in devices if devices.count(device) > 1), None):
        return 0, f"GPU {twice} is listed twice, which hides all GPUs"
    hides = len(devices) < len(names) - 1
    return len(devices), f"{names[len(devices)]!r} is not a GPU, and CUDA ignores the rest of the list" if hides else ""


def _hidden_gpus_diagnostic(title: str, because: str, hint: str, key: str) -> Diagnostic:
    return Diagnostic("JC3006", title, because, hint, key=key, judgment=True)
