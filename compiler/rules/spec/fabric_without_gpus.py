"""JC2051: a network fabric that no rank uses.

Source: PyTorch, docs/source/distributed.md: which backend to use.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...diagnostics.diagnostic import Diagnostic, Severity
from ...spec.job_spec import JobSpec


def check(spec: JobSpec) -> Iterator[Diagnostic]:
    fabric = spec.network.profile
    if spec.gpus == 0 and spec.nodes > 1 and fabric not in ("auto", "ethernet"):
        title = f"network={fabric} has no effect on ranks without GPUs"
        because = "only NCCL uses the fabric; CPU ranks communicate with Gloo over TCP"
        hint = "gpus=8, the number per node; or network=ethernet"
        yield Diagnostic("JC2051", title, because, hint, key="network.profile", severity=Severity.NOTE)
