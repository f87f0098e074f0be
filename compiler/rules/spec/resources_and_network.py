"""Hosts, shared memory, the fabric and NCCL's settings: JC2005, JC2017, JC2050, JC2051."""

from collections.abc import Iterator

from ....runtime.system.reserved_variables import is_reserved
from ...diagnostics.diagnostic import Diagnostic, Severity
from ...plan.derive import usable_hosts
from ...spec.job_spec import JobSpec
from ...spec.value_types import format_bytes


def check_fewer_hosts_than_nodes(spec: JobSpec) -> Iterator[Diagnostic]:
    """JC2005: fewer hosts than nodes, although each node needs a separate host.

    Source: DeepSpeed 0.19.5, launcher/runner.py: if `--num_nodes` exceeds the number of hosts, it uses all hosts.
    """
    if spec.hosts is None or len(usable := usable_hosts(spec, spec.hosts)) >= spec.nodes:
        return
    title = f"{len(usable)} host{'s' * (len(usable) != 1)} for {spec.nodes} nodes"
    because = "each node needs its own host"
    if excluded := len(spec.hosts) - len(usable):
        because += f", without the {excluded} of queue.exclude"
    hint = f"nodes={len(usable)}, or list more hosts" if usable else "list other hosts, or queue.exclude=null"
    yield Diagnostic("JC2005", title, because, hint, key="hosts")


def check_shm_not_below_mem(spec: JobSpec) -> Iterator[Diagnostic]:
    """JC2017: shared memory that is not smaller than the job's memory, toward which it counts. JC4508 checks pods.

    Source: the Linux kernel's documentation, Control Group v2.
    """
    if spec.shm and spec.mem and spec.shm >= spec.mem and spec.container.kind != "pod":
        because = "/dev/shm counts toward the job's memory, and the job is killed when that memory is full"
        hint = f"mem={format_bytes(2 * spec.shm)}"
        title = f"shm={format_bytes(spec.shm)} is not smaller than mem={format_bytes(spec.mem)}"
        yield Diagnostic("JC2017", title, because, hint, key="shm", severity=Severity.WARNING)


def check_invalid_network_setting(spec: JobSpec) -> Iterator[Diagnostic]:
    """JC2050: a network setting whose value is empty or whose variable jobc derives."""
    for i, setting in enumerate(spec.network.settings):
        key = f"network.settings.{i}.name"
        if not setting.value:
            because = "an empty value is not the same as an unset variable"
            hint = f"{setting.name}: 0, or remove {setting.name}"
            title = f"network.settings sets {setting.name} to an empty value"
            yield Diagnostic("JC2050", title, because, hint, key=key)
        elif is_reserved(setting.name):
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
