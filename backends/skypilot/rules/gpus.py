"""The requested GPU types and their number per node: JC4703, JC4704, JC4705.

For clouds, the requests are compared with the machines on offer (_shared/gpus.py). On Slurm, Kubernetes and ssh pools,
the site owns the machines: the site names their GPUs, and `site.gpus` sets the number per node (JC2060). If site.gpus
is unset, a request for more GPUs than nodes usually have gets a warning.
"""

from collections.abc import Iterator
from typing import NamedTuple

from ....compiler.diagnostics.diagnostic import Diagnostic, Severity, join_with_or, nearest
from ....compiler.plan.launch_plan import LaunchPlan
from ..._shared.gpus import (
    GPUS,
    MOST_GPUS,
    USUAL_GPUS,
    clouds_offering,
    gpu_spread_overrides,
    max_gpus_at_site,
    max_gpus_per_machine,
    offered_gpu_counts,
)
from ..config import SITES, requested_cloud
from ..options import SkypilotOptions, infra_cloud
from ..task import gpu_types_with_count


class RequestedGpu(NamedTuple):
    """A requested GPU type, the job key that sets it, and the machine's cloud, or "" for any."""

    key: str
    cloud: str
    type: str

    @property
    def is_site(self) -> bool:
        return self.cloud in SITES


def requested_gpus(plan: LaunchPlan, options: SkypilotOptions) -> list[RequestedGpu]:
    """Return each type in any_of and ordered, or else the job's, once per cloud, with clouds before sites."""
    job_type = plan.resources.gpu_type or ""
    requests = [
        RequestedGpu(
            key if entry.gpu_type else "gpu_type", infra_cloud(entry.infra or options.infra), entry.gpu_type or job_type
        )
        for key, entry in options.alternatives
    ] or [RequestedGpu("gpu_type", requested_cloud(plan, options), job_type)]
    return sorted(dict.fromkeys(request for request in requests if request.type), key=lambda request: request.is_site)


def check_gpus_without_type(plan: LaunchPlan, options: SkypilotOptions) -> Iterator[Diagnostic]:
    """JC4703: GPUs without gpu_type."""
    if not plan.topology.gpus or requested_gpus(plan, options) or options.instance_type is not None:
        return
    because = "SkyPilot requests GPUs by name, such as H100:8"
    if types := gpu_types_with_count(plan, options):
        title = f"gpu_type is not set: SkyPilot chooses the cheapest of {', '.join(types)} (backend.gpu_types)"
        yield Diagnostic("JC4703", title, because, "gpu_type=H100", key="gpu_type", severity=Severity.WARNING)
    else:
        yield Diagnostic("JC4703", "gpus needs gpu_type", because, "gpu_type=H100", key="gpu_type")


def check_gpu_type(plan: LaunchPlan, options: SkypilotOptions) -> Iterator[Diagnostic]:
    """JC4704: SkyPilot's own form `H100:8`, or an unknown GPU type. This is a warning for a site."""
    reported = set()
    for request in requested_gpus(plan, options):
        key, name = request.key, request.type
        if name in GPUS or (key, name) in reported:
            continue
        reported.add((key, name))
        if ":" in name:
            because = "gpus sets the number, in whole GPUs: the trainer uses one per rank"
            hint = f"gpu_type={name.partition(':')[0]} gpus={max(plan.topology.gpus, 1)}"
            yield Diagnostic("JC4704", f"{name} is not a GPU type", because, hint, key=key)
        else:
            near = nearest(name.upper(), GPUS)
            because = "SkyPilot accepts any name, but would not find this GPU at launch"
            hint = f"gpu_type={near[0]}" if near else "gpu_type=H100; see `sky gpus list` for all types"
            severity = Severity.WARNING if request.is_site else Severity.ERROR
            yield Diagnostic("JC4704", f"GPU type {name} is unknown", because, hint, key=key, severity=severity)


def check_gpu_count(plan: LaunchPlan, options: SkypilotOptions) -> Iterator[Diagnostic]:
    """JC4705: more GPUs per node than any machine has (error), or a count that few or no machines offer (warning)."""
    count, nodes = plan.topology.gpus, plan.topology.nodes
    for request in requested_gpus(plan, options):
        if ":" in request.type:
            continue  # JC4704
        at_site, in_cloud = max_gpus_at_site(request.type), max_gpus_per_machine(request.cloud, request.type)
        most = (at_site if request.is_site else in_cloud) or MOST_GPUS
        title = f"gpus={count} is too many {request.type} GPUs for one node"
        if count > most:
            because = f"a machine has at most {most} of these GPUs, and gpus is per node"
            hint = gpu_spread_overrides(count, nodes, min(most, GPUS.get(request.type, USUAL_GPUS)))
            yield Diagnostic("JC4705", title, because, hint, key="gpus")
        elif request.is_site and options.most_gpus is None and count > USUAL_GPUS:
            few = f"few machines have more than {USUAL_GPUS} GPUs"
            because = f"{few}, and SkyPilot only checks at launch; gpus is per node"
            fewer = gpu_spread_overrides(count, nodes, USUAL_GPUS)
            hint = f"{fewer}, or site.gpus={count} in the cluster profile if the machines have that many"
            yield Diagnostic("JC4705", title, because, hint, key="gpus", severity=Severity.WARNING)
        elif request.cloud and not request.is_site and count and options.instance_type is None:
            yield from _check_offered_count(request, count)


def _check_offered_count(request: RequestedGpu, count: int) -> Iterator[Diagnostic]:
    """Warn about a count or type that the cloud does not offer. This is not an error, because clouds add machines."""
    counts = offered_gpu_counts(request.cloud, request.type)
    if counts is None or count in counts:
        return
    late = "and SkyPilot would find no such machine at launch"
    if counts:
        because = f"clouds offer machines with {join_with_or(map(str, counts))} of these GPUs, {late}"
        near = [*[n for n in counts if n < count][-1:], *[n for n in counts if n > count][:1]]
        hints = [f"gpus={number}" for number in near]
    else:
        because = f"{request.cloud} offers other GPU types, {late}"
        hints = [f"backend.infra={name}" for name in clouds_offering(request.type)] or ["gpu_type=H100"]
    title = f"no known {request.cloud} machine has {count} {request.type}"
    yield Diagnostic("JC4705", title, because, join_with_or(hints), key="gpus", severity=Severity.WARNING)
