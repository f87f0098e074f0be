"""JC4507: a job too large for its ConfigMap, which holds launch.sh, job.json and jobctl. The job's own text appears
in launch.sh and several times in job.json.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from ....compiler.diagnostics.diagnostic import Diagnostic
from ....compiler.pipeline.library import contents_of, program_on_nodes
from ....compiler.plan.launch_plan import LaunchPlan
from ..config_map import packed
from ..names import without_neutral_fields
from ..options import KubernetesOptions

KIB = 1024
MOST_CONFIG_KIB = 900  # etcd accepts 1024; the rest is for the object itself


def check(plan: LaunchPlan, options: KubernetesOptions) -> Iterator[Diagnostic]:
    program_size = len(packed(program_on_nodes(contents_of(plan), Path(__file__).parents[1])).text)
    own_size = len(json.dumps(without_neutral_fields(plan), ensure_ascii=False).encode())
    total = (program_size + 6 * own_size) // KIB
    if total > MOST_CONFIG_KIB:
        because = f"the artifact is sent in a ConfigMap of at most {MOST_CONFIG_KIB} KiB; this one would be {total}"
        hint = "move long text to a file in the image (code=image) or on a mounted volume (code=shared)"
        yield Diagnostic("JC4507", "the job is too large for a ConfigMap", because, hint)
