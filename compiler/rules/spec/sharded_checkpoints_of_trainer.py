"""JC2075: sharded checkpoints, which the trainer does not write."""

from __future__ import annotations

from collections.abc import Iterator

from ....trainer.config.schema import FsdpConfig
from ...diagnostics.diagnostic import Diagnostic
from ...spec.job_spec import HsdpSpec, JobSpec


def check(spec: JobSpec) -> Iterator[Diagnostic]:
    sharded = isinstance(spec.parallel, (FsdpConfig, HsdpSpec)) and spec.parallel.state_dict_type != "FULL_STATE_DICT"
    if sharded and spec.command is None:
        because = "the trainer saves full checkpoints, so that a run can resume with another world size or parallelism"
        hint = "parallel.state_dict_type=FULL_STATE_DICT"
        title = "jobc's own trainer does not write sharded checkpoints"
        yield Diagnostic("JC2075", title, because, hint, key="parallel.state_dict_type")
