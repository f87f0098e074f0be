"""JC4507: a job too large for its ConfigMap, which holds the scripts, the trainer and train.json. The job's own text
appears in several of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from ....compiler.diagnostics.diagnostic import Diagnostic
from ....compiler.emit.artifact import Artifact
from ....compiler.pipeline.library import library
from ....compiler.plan.launch_plan import LaunchPlan
from ..names import without_neutral_fields
from ..options import KubernetesOptions

KIB = 1024
MOST_CONFIG_KIB = 900  # etcd accepts 1024; the rest is for the object itself


def size_in_config_map(file: Artifact) -> int:
    """Return the size in bytes of a file in a ConfigMap, where binary files are stored as base64."""
    return len(file.content) if file.binary is None else -(-len(file.content) // 3) * 4


def check(plan: LaunchPlan, options: KubernetesOptions) -> Iterator[Diagnostic]:
    library_size = sum(size_in_config_map(file) for file in library(plan.uses_trainer))
    own_size = len(json.dumps(without_neutral_fields(plan), ensure_ascii=False).encode())
    total = (library_size + 4 * own_size) // KIB
    if total > MOST_CONFIG_KIB:
        because = f"the artifact is sent in a ConfigMap, which holds {MOST_CONFIG_KIB} KiB; this one would be {total}"
        hint = "move long text to a file in the image (code=image) or on a mounted volume (code=shared)"
        yield Diagnostic("JC4507", "the job is too large for a ConfigMap", because, hint)
