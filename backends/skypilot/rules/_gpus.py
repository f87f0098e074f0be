"""The requested GPU types, each with its key and cloud, shared by the GPU rules.

In   plan, options
Out  the requests. For clouds, they are compared with what is on offer (_shared/gpus.py). On Slurm, Kubernetes and ssh
     pools, the site owns the machines: the site names their GPUs, and `site.gpus` sets the number per node (JC2060). If
     that is unset, more GPUs than nodes usually have get a warning
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ....compiler.plan.launch_plan import LaunchPlan
from ..._shared.gpus import MOST_GPUS, max_gpus_at_site, max_gpus_in
from ..config import SITES, cloud
from ..options import SkypilotOptions, cloud_of


class RequestedGpu(NamedTuple):
    """A requested GPU type. key: the job key that sets the type; cloud: the machine's cloud, "" for any"""

    key: str
    cloud: str
    type: str

    @property
    def is_site(self) -> bool:
        return self.cloud in SITES

    @property
    def most(self) -> int:
        """Return the maximum number of these GPUs in one machine in that cloud or at that site."""
        return (max_gpus_at_site(self.type) if self.is_site else max_gpus_in(self.cloud, self.type)) or MOST_GPUS


def requested_gpus(plan: LaunchPlan, options: SkypilotOptions) -> list[RequestedGpu]:
    """Return each requested type once per cloud, clouds before on-premises sites."""
    return sorted(dict.fromkeys(_typed(plan, options)), key=lambda request: request.is_site)


def requested_plain_gpus(plan: LaunchPlan, options: SkypilotOptions) -> list[RequestedGpu]:
    """Return the requests with a plain type, such as `H100`; `H100:8` is rejected by JC4704."""
    return [request for request in requested_gpus(plan, options) if ":" not in request.type]


def _typed(plan: LaunchPlan, options: SkypilotOptions) -> Iterator[RequestedGpu]:
    """Yield the requests in any_of and ordered, or else the job's request."""
    gpu_type = plan.resources.gpu_type
    entries = [(f"backend.{n}", alternative) for n in ("any_of", "ordered") for alternative in getattr(options, n)]
    for key, alternative in entries:
        if name := alternative.gpu_type or gpu_type:
            yield RequestedGpu(
                key if alternative.gpu_type else "gpu_type", cloud_of(alternative.infra or options.infra), name
            )
    if gpu_type and not entries:
        yield RequestedGpu("gpu_type", cloud(plan, options), gpu_type)
