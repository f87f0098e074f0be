"""Check what the user adds to accelerate.yaml and deepspeed.json: JC4600, JC4602 to JC4604, JC4606, and JC2060 for
gpu_ids.

In:  the plan, and the trees that the user merges into accelerate.yaml (`extra`) and deepspeed.json (`deepspeed_extra`).
     Any job can set them in the section `accelerate`; backend accelerate has the same keys in the section `backend`.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from .. import rules
from ..diagnostics.diagnostic import Diagnostic
from ..emit.extra_entries import check_extra_entries
from ..launchers.accelerate.protected_keys import accelerate_protected_keys, deepspeed_protected_keys
from ..plan.launch_plan import LaunchPlan
from ..spec.job_spec import JobSpec
from ..spec.site_facts import describe_partitions, site_limit

Tree = Mapping[str, Any]


def check(plan: LaunchPlan, extra: Tree, deepspeed_extra: Tree, section: str) -> Iterator[Diagnostic]:
    """Yield all findings in both trees. section: the section that contains the keys, `accelerate` or `backend`"""
    if extra or deepspeed_extra:  # most jobs have neither and need not load the tables
        yield from check_extra_entries(extra, accelerate_protected_keys(plan), (section, "extra"))
        yield from check_extra_entries(deepspeed_extra, deepspeed_protected_keys(plan), (section, "deepspeed_extra"))
        yield from rules.check_rules("accelerate", plan, extra, deepspeed_extra, section)


def check_gpu_ids(spec: JobSpec, extra: Tree, section: str) -> Iterator[Diagnostic]:
    """Yield JC2060 for GPU numbers (from 0) that the site's nodes do not have. extra, section: as in check()"""
    limit, ids = site_limit(spec, "gpus"), extra.get("gpu_ids")
    beyond = [name for name in str(ids).split(",") if re.fullmatch(r"\d{1,17}", name) and limit and int(name) >= limit]
    if beyond:
        key = f"{section}.extra.gpu_ids"
        because = f"{describe_partitions(spec)} has {limit} GPUs on each node, numbered from 0"
        yield Diagnostic("JC2060", f"{key} names GPU {', '.join(beyond)}", because, f"{key}=all", key=key)
