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

LATE = "and SkyPilot would find no such machine at launch"


class RequestedGpu(NamedTuple):
    """A requested GPU type.

    key: the job key that sets the type
    cloud: the machine's cloud, or "" for any
    """

    key: str
    cloud: str
    type: str

    @property
    def is_site(self) -> bool:
        return self.cloud in SITES

    @property
    def most(self) -> int:
        """Return the maximum number of these GPUs in one machine in that cloud or at that site."""
        return (
            max_gpus_at_site(self.type) if self.is_site else max_gpus_per_machine(self.cloud, self.type)
        ) or MOST_GPUS


def requested_gpus(plan: LaunchPlan, options: SkypilotOptions) -> list[RequestedGpu]:
    """Return each requested type once per cloud, with clouds before on-premises sites."""
    return sorted(dict.fromkeys(_typed_requests(plan, options)), key=lambda request: request.is_site)


def requested_plain_gpus(plan: LaunchPlan, options: SkypilotOptions) -> list[RequestedGpu]:
    """Return the requests with a plain type, such as `H100`; `H100:8` is rejected by JC4704."""
    return [request for request in requested_gpus(plan, options) if ":" not in request.type]


def _typed_requests(plan: LaunchPlan, options: SkypilotOptions) -> Iterator[RequestedGpu]:
    """Yield the requests in any_of and ordered, or else the job's request."""
    gpu_type = plan.resources.gpu_type
    entries = [(f"backend.{n}", alternative) for n in ("any_of", "ordered") for alternative in getattr(options, n)]
    for key, alternative in entries:
        if name := alternative.gpu_type or gpu_type:
            yield RequestedGpu(
                key if alternative.gpu_type else "gpu_type", infra_cloud(alternative.infra or options.infra), name
            )
    if gpu_type and not entries:
        yield RequestedGpu("gpu_type", requested_cloud(plan, options), gpu_type)


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


def check_number_in_gpu_type(plan: LaunchPlan, options: SkypilotOptions) -> Iterator[Diagnostic]:
    """JC4704: a number of GPUs in gpu_type, as in SkyPilot's own `H100:8`."""
    for request in requested_gpus(plan, options):
        if ":" in request.type:
            because = "gpus sets the number, in whole GPUs: the trainer uses one per rank"
            hint = f"gpu_type={request.type.partition(':')[0]} gpus={max(plan.topology.gpus, 1)}"
            yield Diagnostic("JC4704", f"{request.type} is not a GPU type", because, hint, key=request.key)


def check_unknown_gpu(plan: LaunchPlan, options: SkypilotOptions) -> Iterator[Diagnostic]:
    """JC4704: an unknown GPU type. This is only a warning at a site, which may use its own names."""
    reported = set()
    for request in requested_plain_gpus(plan, options):
        if request.type in GPUS or (request.key, request.type) in reported:
            continue
        reported.add((request.key, request.type))
        near = nearest(request.type.upper(), GPUS)
        because = "SkyPilot accepts any name, but would not find this GPU at launch"
        hint = f"gpu_type={near[0]}" if near else "gpu_type=H100; see `sky gpus list` for all types"
        severity = Severity.WARNING if request.is_site else Severity.ERROR
        title = f"GPU type {request.type} is unknown"
        yield Diagnostic("JC4704", title, because, hint, key=request.key, severity=severity)


def check_too_many_gpus(plan: LaunchPlan, options: SkypilotOptions) -> Iterator[Diagnostic]:
    """JC4705: more GPUs per node than any machine has."""
    count = plan.topology.gpus
    for request in requested_plain_gpus(plan, options):
        if count > request.most:
            usual = min(request.most, GPUS.get(request.type, 8))
            because = f"a machine has at most {request.most} of these GPUs, and gpus is per node"
            hint = f"nodes={-(-count * plan.topology.nodes // usual)} gpus={usual}"
            title = f"gpus={count} is too many {request.type} GPUs for one node"
            yield Diagnostic("JC4705", title, because, hint, key="gpus")


def check_unusual_gpus(plan: LaunchPlan, options: SkypilotOptions) -> Iterator[Diagnostic]:
    """JC4705: more GPUs per node than most machines have, at a site whose profile sets no number. This is a warning."""
    count = plan.topology.gpus
    for request in requested_plain_gpus(plan, options):
        if request.is_site and options.most_gpus is None and USUAL_GPUS < count <= request.most:
            because = (
                f"few machines have more than {USUAL_GPUS} GPUs, and SkyPilot only checks at launch; gpus is per node"
            )
            fewer = gpu_spread_overrides(count, plan.topology.nodes, USUAL_GPUS)
            hint = f"{fewer}, or site.gpus={count} in the cluster profile if the machines have that many"
            title = f"gpus={count} is too many {request.type} GPUs for one node"
            yield Diagnostic("JC4705", title, because, hint, key="gpus", severity=Severity.WARNING)


def check_gpus_not_offered(plan: LaunchPlan, options: SkypilotOptions) -> Iterator[Diagnostic]:
    """JC4705: a GPU count or type that none of the cloud's machines have.

    This is a warning, because clouds change their offers.
    """
    count = plan.topology.gpus
    if not count or options.instance_type is not None:
        return
    for request in requested_plain_gpus(plan, options):
        if request.cloud and not request.is_site and count <= request.most:
            yield from _check_offered_count(request, count)


def _check_offered_count(each: RequestedGpu, count: int) -> Iterator[Diagnostic]:
    numbers = offered_gpu_counts(each.cloud, each.type)
    if numbers is None or count in numbers:
        return
    if numbers:
        because = f"machines are offered with {join_with_or(map(str, numbers))} of these GPUs, {LATE}"
        near = [*[n for n in numbers if n < count][-1:], *[n for n in numbers if n > count][:1]]
        hints = [f"gpus={number}" for number in near]
    else:
        because = f"{each.cloud} offers other GPU types, {LATE}"
        hints = [f"backend.infra={name}" for name in clouds_offering(each.type)] or ["gpu_type=H100"]
    title = f"no known {each.cloud} machine has {count} {each.type}"
    yield Diagnostic("JC4705", title, because, join_with_or(hints), key="gpus", severity=Severity.WARNING)
