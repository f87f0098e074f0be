"""The fabric and NCCL's settings: JC2050, JC2051."""

from collections.abc import Iterator

from ...diagnostics.diagnostic import Diagnostic, Severity
from ...spec.derived_variables import is_derived
from ...spec.job_spec import JobSpec


def check_invalid_network_setting(spec: JobSpec) -> Iterator[Diagnostic]:
    """JC2050: a network setting whose value is empty or whose variable jobc derives."""
    for i, setting in enumerate(spec.network.settings):
        key = f"network.settings.{i}.name"
        if not setting.value:
            because = "an empty value is not the same as an unset variable"
            hint = f"{setting.name}: 0, or remove {setting.name}"
            yield Diagnostic(
                "JC2050", f"network.settings sets {setting.name} to an empty value", because, hint, key=key
            )
        elif is_derived(setting.name):
            because = "a value that you set would contradict the launcher's value"
            yield Diagnostic("JC2050", f"{setting.name} is derived and cannot be set", because, "remove it", key=key)


def check_fabric_without_gpus(spec: JobSpec) -> Iterator[Diagnostic]:
    """JC2051: a network fabric that no rank uses.

    Source: PyTorch, docs/source/distributed.md: which backend to use.
    """
    fabric = spec.network.profile
    if spec.gpus == 0 and spec.nodes > 1 and fabric not in ("auto", "ethernet"):
        title = f"network={fabric} has no effect on ranks without GPUs"
        because = "only NCCL uses the fabric; CPU ranks communicate with Gloo over TCP"
        hint = "gpus=8, the number per node; or network=ethernet"
        yield Diagnostic("JC2051", title, because, hint, key="network.profile", severity=Severity.NOTE)
