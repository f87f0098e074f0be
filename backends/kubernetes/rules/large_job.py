"""JC4507: a job too large for its ConfigMap, which holds launch.sh, jobctl, spec.yaml and job.json. The job's own text
appears in launch.sh, spec.yaml and, several times, in job.json.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from ....compiler.diagnostics.diagnostic import Diagnostic
from ....compiler.emit.artifact import Artifact
from ....compiler.pipeline.library import program
from ....compiler.plan.launch_plan import LaunchPlan
from ..names import without_neutral_fields
from ..options import KubernetesOptions

KIB = 1024
MOST_CONFIG_KIB = 900  # etcd accepts 1024; the rest is for the object itself


def size_in_config_map(file: Artifact) -> int:
    """Return the size in bytes of a file in a ConfigMap, where binary files are stored as base64."""
    return len(file.content) if file.binary is None else -(-len(file.content) // 3) * 4


def check(plan: LaunchPlan, options: KubernetesOptions) -> Iterator[Diagnostic]:
    program_size = size_in_config_map(program(plan.uses_trainer))
    own_size = len(json.dumps(without_neutral_fields(plan), ensure_ascii=False).encode())
    total = (program_size + 6 * own_size) // KIB
    if total > MOST_CONFIG_KIB:
        because = f"the artifact is sent in a ConfigMap, which holds {MOST_CONFIG_KIB} KiB; this one would be {total}"
        hint = "move long text to a file in the image (code=image) or on a mounted volume (code=shared)"
        yield Diagnostic("JC4507", "the job is too large for a ConfigMap", because, hint)
