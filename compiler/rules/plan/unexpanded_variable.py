"""JC3002: text such as `$SCRATCH/data` where no shell expands it. Ranks get it letter for letter."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence

from ...diagnostics import Diagnostic, Severity
from ...plan import LaunchPlan
from ...spec import JobSpec
from ._shell import shell_text

# $USER, ${SCRATCH} or $(hostname), or any name where a path begins; not $5, $$, \$USER, $Name, $N$ or ${oc.env:USER}.
_FOUND = re.compile(
    r"(?<![\\$])(\$\{[A-Z][A-Z\d_]+\}|\$(?!(?:LIB|ORIGIN|PLATFORM)\b)[A-Z][A-Z\d_]+(?![\w$])|\$\([a-z][^()]*\))"
    r"|(?:^|[=:,])(\$\{\w+\}|\$(?!(?:LIB|ORIGIN|PLATFORM)\b)\w+)/"
)
_EXPANDED = re.compile(r"PS\d|PROMPT_COMMAND|BASH_ENV|ENV")  # by bash 5.2 itself, when it reads them


def check(spec: JobSpec, plan: LaunchPlan) -> Iterator[Diagnostic]:
    for name, value in spec.env.items():
        if (found := _found(value)) and not _EXPANDED.fullmatch(name):
            because = f"env is quoted, so the ranks get the letters {found}, on purpose or not"
            text = f"export {name}={_for_shell(value)}; {_exec(spec.command or ('train.py',))}"
            hint = f"the value itself; or ~env.{name} -- bash -c {shlex.quote(text)}"
            yield _warning(f"env.{name} holds {found}, which nothing expands", because, hint, f"env.{name}")
    command = spec.command or ()
    if any(shell_text(command[at:]) for at in range(len(command))):
        return
    for word in command:
        if found := _found(word):
            because = "the words after -- reach the program as they are; no shell on the node reads them"
            hint = f"-- bash -c {shlex.quote(_exec(command))}"
            yield _warning(f"the command holds {found}, which nothing expands", because, hint, "command")
            return


def _found(text: str) -> str:
    """The first such variable as it was typed; "" for none."""
    found = _FOUND.search(text)
    return found[1] or found[2] if found else ""


def _exec(command: Sequence[str]) -> str:
    """The command for a shell; a script of Python as node.sh starts it."""
    python = ["python3"] if command[0].endswith(".py") else []
    return " ".join(["exec", *python, *map(_for_shell, command)])


def _for_shell(word: str) -> str:
    """A word for a shell that expands its variables and splits nothing."""
    return shlex.quote(word) if not _found(word) else '"' + re.sub(r'(["\\`])', r"\\\1", word) + '"'


def _warning(title: str, because: str, hint: str, key: str) -> Diagnostic:
    return Diagnostic("JC3002", title, because, hint, key=key, severity=Severity.WARNING)
