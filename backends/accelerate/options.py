"""The options of backend accelerate: types and docs; the defaults are in conf/backend/accelerate.yaml."""

from collections.abc import Mapping
from typing import Any

from ...runtime.system.frozen_dataclass import dataclass
from .._shared.ssh import SshOptions


@dataclass(frozen=True)
class AccelerateOptions(SshOptions):
    """The ssh options, plus extra and deepspeed_extra: trees merged last into accelerate.yaml and deepspeed.json."""

    extra: Mapping[str, Any]
    deepspeed_extra: Mapping[str, Any]
