"""Check the user's additions to accelerate.yaml and deepspeed.json: JC4600, JC4602 to JC4604, JC4606; gpu_ids: JC2060.

In:  the plan, and the trees that the user merges into accelerate.yaml (extra) and deepspeed.json (deepspeed_extra):
     `accelerate.extra` of any job, and `backend.extra` of backend accelerate.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from .. import rules
from ..diagnostics.diagnostic import Diagnostic
from ..emit.extra_entries import check_extra_entries
from ..launchers.accelerate.protected_keys import protected_keys_of_accelerate, protected_keys_of_deepspeed
from ..plan.launch_plan import LaunchPlan
from ..rules import findings
from ..spec.job_spec import JobSpec
from ..spec.site_facts import describe_partitions, site_limit

Tree = Mapping[str, Any]


def check(plan: LaunchPlan, extra: Tree, deepspeed_extra: Tree, section: str) -> Iterator[Diagnostic]:
    """Yield all findings in both trees. section: section of the keys, `accelerate` or `backend`"""
    if extra or deepspeed_extra:  # most jobs have neither, and do not need to load the tables
        yield from check_extra_entries(extra, protected_keys_of_accelerate(plan), (section, "extra"))
        yield from check_extra_entries(deepspeed_extra, protected_keys_of_deepspeed(plan), (section, "deepspeed_extra"))
        yield from findings(f"{rules.__name__}.accelerate", plan, extra, deepspeed_extra, section)


def check_gpu_ids(spec: JobSpec, extra: Tree, section: str) -> Iterator[Diagnostic]:
    """Yield JC2060 for GPU numbers (from 0) that the site's nodes do not have. extra, section: as in check()"""
    limit, ids = site_limit(spec, "gpus"), extra.get("gpu_ids")
    beyond = [name for name in str(ids).split(",") if re.fullmatch(r"\d+", name) and limit and int(name) >= limit]
    if beyond:
        key = f"{section}.extra.gpu_ids"
        because = f"{describe_partitions(spec)} has {limit} GPUs on each node, numbered from 0"
        yield Diagnostic("JC2060", f"{key} names GPU {', '.join(beyond)}", because, f"{key}=all", key=key)
