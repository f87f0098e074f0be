"""JC2072: NVMe offload without parallel.nvme_path, or that folder without offload.

Source: DeepSpeed 0.19.8: runtime/zero/config.py, and its JSON reference on offload (deepspeed.ai/docs/config-json).
"""

from __future__ import annotations

from collections.abc import Iterator

from ....trainer.config.schema import DeepspeedConfig
from ...diagnostics.diagnostic import Diagnostic
from ...spec.job_spec import JobSpec


def check(spec: JobSpec) -> Iterator[Diagnostic]:
    zero = spec.parallel
    if not isinstance(zero, DeepspeedConfig):
        return
    used = "nvme" in (zero.offload_optimizer_device, zero.offload_param_device)
    if used and zero.nvme_path is None:
        because = "DeepSpeed needs a folder on each node's local disk, and has no default for it"
        hint = "parallel.nvme_path=/local_nvme"
        yield Diagnostic("JC2072", "NVMe offload needs parallel.nvme_path", because, hint, key="parallel.nvme_path")
    if zero.nvme_path is not None and not used:
        because = "no NVMe offload is configured"
        hint = "parallel.nvme_path=null; or parallel.zero_stage=3 parallel.offload_param_device=nvme"
        yield Diagnostic("JC2072", "parallel.nvme_path has no effect", because, hint, key="parallel.nvme_path")
