"""JC2061: a GPU type that the site does not have."""

from __future__ import annotations

from collections.abc import Iterator

from ...diagnostics.diagnostic import Diagnostic, nearest
from ...spec.job_spec import JobSpec
from ...spec.site_facts import possible_partitions, site_fact


def check(spec: JobSpec) -> Iterator[Diagnostic]:
    gpu_types = [site_fact(spec, "gpu_types", partition) for partition in possible_partitions(spec) or (None,)]
    if spec.gpu_type is None or None in gpu_types or any(spec.gpu_type in types for types in gpu_types):
        return
    names = sorted({name for types in gpu_types for name in types})
    because = f"the site has {', '.join(names)}" if names else "the site's machines have no GPUs"
    hint = f"gpu_type={(nearest(spec.gpu_type, names) or names)[0]}" if names else "gpu_type=null gpus=0"
    yield Diagnostic("JC2061", f"GPU {spec.gpu_type} is not available at this site", because, hint, key="gpu_type")
