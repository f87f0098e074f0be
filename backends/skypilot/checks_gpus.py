"""GPUs that SkyPilot would look for in vain: JC4703 of no type, JC4704 of no known one, JC4705 a number on one machine.

In   plan, options
Out  Clouds are held to what they sell (_shared/gpus.py). On Slurm, Kubernetes and pools of ssh the machines are the
     site's own: their GPUs have the names that it gave them, and `site.gpus` says how many there are (JC2060); where
     it says nothing, more than nodes usually have are a warning
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ...compiler.diagnostics import Diagnostic, Severity, alternatives, nearest
from ...compiler.plan import LaunchPlan
from .._shared.gpus import GPUS, MOST_GPUS, USUAL_GPUS, most_at_site, most_in, sellers, sold, spread
from .config import SITES, cloud
from .options import SkypilotOptions, cloud_of

LATE = "and SkyPilot would find none when it launches"


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


def check(plan: LaunchPlan, options: SkypilotOptions) -> Iterator[Diagnostic]:
    types = sorted(dict.fromkeys(asked(plan, options)), key=lambda each: each.is_site)
    if plan.topology.gpus and not types and options.instance_type is None:
        because = "SkyPilot asks for GPUs by name, such as H100:8"
        yield Diagnostic("JC4703", "GPUs of no type", because, "gpu_type=H100", key="gpu_type")
    for i, each in enumerate(types):
        if ":" in each.type:
            because = "the number is gpus, of whole GPUs: the trainer has one for each rank"
            hint = f"gpu_type={each.type.partition(':')[0]} gpus={max(plan.topology.gpus, 1)}"
            yield Diagnostic("JC4704", f"{each.type} is no type of GPU", because, hint, key=each.key)
            continue
        if each.type not in GPUS and (each.key, each.type) not in {(one.key, one.type) for one in types[:i]}:
            yield unknown(each)
        if plan.topology.gpus > each.most:
            yield too_many(each, plan)
        elif plan.topology.gpus > USUAL_GPUS and each.is_site and options.most_gpus is None:
            yield rare(each, plan)
        elif plan.topology.gpus and options.instance_type is None and each.cloud and not each.is_site:
            yield from not_sold(each, plan.topology.gpus)


def asked(plan: LaunchPlan, options: SkypilotOptions) -> Iterator[Asked]:
    """Each type once for each cloud: of the entries of any_of and ordered, else of the job itself."""
    own = plan.resources.gpu_type
    entries = [(f"backend.{n}", each) for n in ("any_of", "ordered") for each in getattr(options, n)]
    for key, each in entries:
        if name := each.gpu_type or own:
            yield Asked(key if each.gpu_type else "gpu_type", cloud_of(each.infra or options.infra), name)
    if own and not entries:
        yield Asked("gpu_type", cloud(plan, options), own)


def unknown(each: Asked) -> Diagnostic:
    near = nearest(each.type.upper(), GPUS)
    because = "SkyPilot takes any name, and finds none when it launches"
    hint = f"gpu_type={near[0]}" if near else "gpu_type=H100; `sky gpus list` shows them"
    severity = Severity.WARNING if each.is_site else Severity.ERROR  # a site may have called its own so
    return Diagnostic("JC4704", f"no GPU {each.type} is known", because, hint, key=each.key, severity=severity)


def too_many(each: Asked, plan: LaunchPlan) -> Diagnostic:
    count = plan.topology.gpus
    usual = min(each.most, GPUS.get(each.type, 8))
    because = f"a machine has at most {each.most} of them, and gpus is per node"
    hint = f"nodes={-(-count * plan.topology.nodes // usual)} gpus={usual}"
    return Diagnostic("JC4705", f"{count} {each.type} on a node", because, hint, key="gpus")


def rare(each: Asked, plan: LaunchPlan) -> Diagnostic:
    """On nodes of a site of which no profile says how many GPUs they have."""
    count = plan.topology.gpus
    because = f"few machines have more than {USUAL_GPUS}, and SkyPilot finds out when it launches; gpus is per node"
    hint = f"{spread(count, plan.topology.nodes, USUAL_GPUS)}, or site.gpus={count} in the profile if they have as many"
    title = f"{count} {each.type} on a node"
    return Diagnostic("JC4705", title, because, hint, key="gpus", severity=Severity.WARNING)


def not_sold(each: Asked, count: int) -> Iterator[Diagnostic]:
    """A warning, for what clouds sell changes: a number between the sizes of its machines, a type that it has not."""
    numbers = sold(each.cloud, each.type)
    if numbers is None or count in numbers:
        return
    if numbers:
        because = f"there are machines with {_in_words(numbers)} of them, {LATE}"
        near = [*[n for n in numbers if n < count][-1:], *[n for n in numbers if n > count][:1]]
        hints = [f"gpus={number}" for number in near]
    else:
        because = f"it has other types, {LATE}"
        hints = [f"backend.infra={name}" for name in sellers(each.type)] or ["gpu_type=H100"]
    title = f"no machine of {each.cloud} is known that has {count} {each.type}"
    yield Diagnostic("JC4705", title, because, alternatives(hints), key="gpus", severity=Severity.WARNING)


def _in_words(numbers: Sequence[int]) -> str:
    *first, last = map(str, numbers)
    return f"{', '.join(first)} or {last}" if first else last
