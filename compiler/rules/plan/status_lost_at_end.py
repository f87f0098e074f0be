"""JC3009: `bash -c 'python train.py; echo done'`: the last command decides the status, and it always succeeds."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from ...diagnostics import Diagnostic, Severity
from ...plan import LaunchPlan
from ...spec import JobSpec
from ._shell import RUNS, shell_text, unquoted

_BACKGROUND = r"(?<![&>])&(?![&>])"
_SUCCEEDS = re.compile(r"(echo|printf|date|true|:|rm|sync|touch|exit 0)\b\s*[^&|]*$|wait$")


def check(spec: JobSpec, plan: LaunchPlan) -> Iterator[Diagnostic]:
    text = unquoted(shell_text(spec.command)).strip().rstrip(";").strip()
    *before, last = re.split(rf";|\n|{_BACKGROUND}|\|\|", text)
    escapes = re.search(rf"\|\||{_BACKGROUND}", text)  # what `set -e` does not see
    if re.search(r"\bset -[a-z]*e|\berrexit\b", text) and not escapes:
        return
    if not RUNS.search(" ".join(before)) or not _SUCCEEDS.match(last.strip() or "true"):
        return
    because = f"`{last.strip() or '&'}` comes last and succeeds, whatever became of the program"
    title = "the last command of the shell hides the program's status"
    shell, *words = spec.command or ()
    hint = f"-- {shlex.join([shell, '-e', *words])}, which stops at the first failure"
    if escapes:
        hint = "the program last; of several in the background `wait` for each by its number: wait $first; wait $second"
    yield Diagnostic("JC3009", title, because, hint, key="command", severity=Severity.WARNING)
