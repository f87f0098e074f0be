"""JC3005: a variable with an old name that its reader ignores or will ignore.

Source: PyTorch 2.2 (c10d, Utils.hpp warns of the old NCCL names); pytorch/pytorch#183387 of PyTorch 2.9.1;
        transformers 5 (reads HF_HOME and HF_HUB_CACHE); huggingface_hub 1.0 (constants.py: hf_transfer is not used).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...diagnostics.diagnostic import Diagnostic, Severity
from ...plan.launch_plan import LaunchPlan
from ...spec.job_spec import JobSpec
from ._variables import user_variables

_OF_TORCH = {  # old name -> new name, since when
    f"NCCL_{name}": (f"TORCH_NCCL_{name}", "torch 2.2")
    for name in ("ASYNC_ERROR_HANDLING", "BLOCKING_WAIT", "DESYNC_DEBUG", "ENABLE_TIMING")
}
_OF_OTHERS = {  # packages whose version the spec does not contain and torch's version does not imply
    "TRANSFORMERS_CACHE": (
        "HF_HUB_CACHE",
        "transformers 5",
    ),  # HF_HOME is the parent folder: huggingface_hub appends /hub
    "HF_HUB_ENABLE_HF_TRANSFER": ("HF_XET_HIGH_PERFORMANCE", "huggingface_hub 1.0"),
}


def check(spec: JobSpec, plan: LaunchPlan) -> Iterator[Diagnostic]:
    renamed = {**_OF_OTHERS, **(_OF_TORCH if _torch(spec) >= (2, 2) else {})}
    for variable in user_variables(spec):
        if variable.name in renamed:
            new, since = renamed[variable.name]
            title, because = f"{variable.title} was renamed", f"since {since}, the variable has been named {new}"
            yield _warning(title, because, variable.without(f"env.{new}={variable.value}"), variable.key)
        elif variable.name == "PYTORCH_ALLOC_CONF" and _torch(spec) < (2, 10):
            title = f"torch {spec.site.torch} does not read PYTORCH_ALLOC_CONF for CUDA"
            because = "torch 2.9 and older read PYTORCH_CUDA_ALLOC_CONF, which newer versions accept too"
            yield _warning(
                title, because, variable.without(f"env.PYTORCH_CUDA_ALLOC_CONF={variable.value}"), variable.key
            )


def _torch(spec: JobSpec) -> tuple[int, int]:
    """Return the site's torch version, or one newer than any release if the site does not set it."""
    match = re.match(r"(\d+)\.(\d+)", spec.site.torch or "")
    return (int(match[1]), int(match[2])) if match else (99, 0)


def _warning(title: str, because: str, hint: str, key: str) -> Diagnostic:
    return Diagnostic("JC3005", title, because, hint, key=key, severity=Severity.WARNING)
