"""Requested GPU types with key and cloud, shared by the GPU rules.

In   plan, options
Out  Clouds are held to what they sell (_shared/gpus.py). On Slurm, Kubernetes and pools of ssh the machines are the
     site's own: their GPUs have the names that it gave them, and `site.gpus` says how many there are (JC2060); where
     it says nothing, more than nodes usually have are a warning
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ....compiler.plan.launch_plan import LaunchPlan
from ..._shared.gpus import MOST_GPUS, most_at_site, most_in
from ..config import SITES, cloud
from ..options import SkypilotOptions, cloud_of


class Asked(NamedTuple):
    """key: that says the type; cloud: of the machine, "" for any"""

    key: str
    cloud: str
    type: str

    @property
    def is_site(self) -> bool:
        return self.cloud in SITES

    @property
    def most(self) -> int:
        """GPUs of a machine there."""
        return (most_at_site(self.type) if self.is_site else most_in(self.cloud, self.type)) or MOST_GPUS


def asked(plan: LaunchPlan, options: SkypilotOptions) -> list[Asked]:
    """Return each type once per cloud, clouds before on-premises sites."""
    return sorted(dict.fromkeys(_typed(plan, options)), key=lambda request: request.is_site)


def counted(plan: LaunchPlan, options: SkypilotOptions) -> list[Asked]:
    """Return the plain types, such as `H100`; `H100:8` is rejected elsewhere."""
    return [request for request in asked(plan, options) if ":" not in request.type]


def _typed(plan: LaunchPlan, options: SkypilotOptions) -> Iterator[Asked]:
    """Yield the types of the entries of any_of and ordered, or else of the job."""
    gpu_type = plan.resources.gpu_type
    entries = [(f"backend.{n}", alternative) for n in ("any_of", "ordered") for alternative in getattr(options, n)]
    for key, alternative in entries:
        if name := alternative.gpu_type or gpu_type:
            yield Asked(key if alternative.gpu_type else "gpu_type", cloud_of(alternative.infra or options.infra), name)
    if gpu_type and not entries:
        yield Asked("gpu_type", cloud(plan, options), gpu_type)
