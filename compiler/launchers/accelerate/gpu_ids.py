"""The value of gpu_ids in accelerate.yaml, which accelerate passes to CUDA_VISIBLE_DEVICES unchecked."""

import re
from typing import Any

DESCRIPTION, EXAMPLE = 'all, or different GPUs of a node, such as "0,1"', "all"


def is_valid_gpu_ids(value: Any) -> bool:
    """Return whether the value is `all`, or a list of distinct numbers or UUIDs (CUDA Guide, CUDA_VISIBLE_DEVICES)."""
    if value == "all":
        return True
    names = str(value).split(",") if isinstance(value, str) or type(value) is int else []
    distinct = len({name.lstrip("0") if name.strip("0") else "0" for name in names}) == len(names) > 0
    return distinct and all(re.fullmatch(r"\d+|(GPU|MIG)-[\w/-]+", name) for name in names)
