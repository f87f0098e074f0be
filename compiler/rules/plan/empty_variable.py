"""JC3004: a variable set to an empty value, which is not the same as an unset one.

CUDA_VISIBLE_DEVICES is excluded: an empty value hides the GPUs, which is intended on a CPU.
Source: PyTorch 2.13, observed: a ValueError for TORCH_DISTRIBUTED_DEBUG, an AttributeError for TORCH_LOGS, `Invalid
        value for environment variable` for numbers and flags (c10d/Utils.hpp, getCvarInt, getCvarBool), `unsupported
        gloo device` for GLOO_DEVICE_TRANSPORT
        NCCL 2.28: an empty number is its default (misc/param.cc), and an empty NCCL_NET names no network (init.cc)
        libgomp 12, observed: `Invalid value for environment variable OMP_NUM_THREADS`, and continues
        UCX: ucs_config_parser_parse_field; libfabric: fi_param_get_int in src/var.c.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...diagnostics.diagnostic import Diagnostic, Severity
from ...plan.launch_plan import LaunchPlan
from ...spec.job_spec import JobSpec
from ._variables import user_variables

_READ = {  # prefix -> what an empty value means to its reader
    "TORCH_DISTRIBUTED_": "torch fails on an empty value",
    "TORCH_NCCL_": "torch fails on an empty number or flag",
    "TORCH_GLOO_": "torch fails on an empty number or flag",
    "TORCH_LOGS": "torch 2.13 fails on an empty value",
    "NCCL_": "NCCL uses its default for an empty number, and looks for an unnamed network if NCCL_NET is empty",
    "RCCL_": "RCCL uses its default for an empty number",
    "GLOO_": "Gloo fails on an empty GLOO_DEVICE_TRANSPORT, and uses its default for an empty interface",
    "UCX_": "UCX fails on a number or flag that it cannot parse",
    "FI_": "libfabric reads an empty number as 0",
    "OMP_": "OpenMP reports an empty value as invalid and uses its default",
}


def check(spec: JobSpec, plan: LaunchPlan) -> Iterator[Diagnostic]:
    for variable in user_variables(spec):
        because = next((words for prefix, words in _READ.items() if variable.name.startswith(prefix)), "")
        if not variable.value and because:
            title, hint = f"{variable.title} is set to an empty value", f"{variable.without()}, to leave it unset"
            yield Diagnostic("JC3004", title, because, hint, key=variable.key, severity=Severity.WARNING)
