"""JC3008: `bash -c 'python train.py | tee log'`: the status is that of tee, so a crash counts as success."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from ...diagnostics import Diagnostic, Severity
from ...plan import LaunchPlan
from ...spec import JobSpec
from ._shell import RUNS, shell_text, unquoted


def check(spec: JobSpec, plan: LaunchPlan) -> Iterator[Diagnostic]:
    text = shell_text(spec.command)
    pipes = [re.split(r"\|&?", one) for one in re.split(r";|\n|&&|\|\|", unquoted(text))]
    if "pipefail" in text or not any(RUNS.search(part) for pipe in pipes for part in pipe[:-1]):
        return
    because = "the status of a pipe is that of its last command: requeues and the exit code would call a crash done"
    shell, *words = spec.command or ()
    hint = f"-- {shlex.join([shell, '-o', 'pipefail', *words])}; node.sh writes a log of each rank, so the pipe may go"
    title = "the program is in a pipe, which hides its status"
    yield Diagnostic("JC3008", title, because, hint, key="command", severity=Severity.WARNING)
