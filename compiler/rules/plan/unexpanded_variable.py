"""JC3002: text such as `$SCRATCH/data` or `~/data` where no shell expands it, so the ranks receive it literally."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence

from ...diagnostics.diagnostic import Diagnostic, Severity
from ...plan import derive
from ...plan.launch_plan import LaunchPlan
from ...spec.job_spec import JobSpec
from ._programs import SEARCHED
from ._shell import is_quoted_into_one_word, quote_for_bash, shell_text

# $USER, ${SCRATCH} or $(hostname), or any name at the start of a path; not $5, $$, \$USER, $Name, $N$, ${oc.env:USER}
_FOUND = re.compile(
    r"(?<![\\$])(\$\{[A-Z][A-Z\d_]+\}|\$(?!(?:LIB|ORIGIN|PLATFORM)\b)[A-Z][A-Z\d_]+(?![\w$])|\$\([a-z][^()]*\))"
    r"|(?:^|[=:,])(\$\{\w+\}|\$(?!(?:LIB|ORIGIN|PLATFORM)\b)\w+)/"
)
_HOME = re.compile(r"(?:^|(?<=[=:]))(~/)")
_OLD_COMMAND = re.compile(r"`([a-z][^`]*)`")
_OLD_WORD = re.compile(r"^[^\s`]*(`[a-z][^`]*`)(?:[^\s`]|`[^`]*`)*$")  # with other words, it is prose about code
_EXPANDED = re.compile(r"PS\d|PROMPT_COMMAND|BASH_ENV|ENV")  # bash 5.2 expands these itself when it reads them


def check(spec: JobSpec, plan: LaunchPlan) -> Iterator[Diagnostic]:
    for name, value in spec.env.items():
        if (expression := _found(value)) and not _EXPANDED.fullmatch(name):
            because = f"the scripts quote env, so the ranks get {expression} literally"
            hint = "the expanded value"
            if not plan.uses_trainer:
                hint += f"; or ~env.{name} {_in_shell(f'export {name}={_for_shell(value)}; ', derive.command(spec))}"
            yield _warning(f"env.{name} contains {expression}, which is not expanded", because, hint, f"env.{name}")
    command = spec.command or ()
    if is_quoted_into_one_word(command) or any(
        shell_text(command[start:SEARCHED]) for start in range(min(SEARCHED, len(command)))
    ):
        return  # JC3010 then suggests a shell
    for word in command:
        if expression := _found(word):
            because = "the arguments after -- reach the program unchanged; no shell on the node expands them"
            hint = _in_shell("", derive.command(spec))
            yield _warning(f"the command contains {expression}, which is not expanded", because, hint, "command")
            return


def _found(text: str) -> str:
    """Return the first unexpanded text as typed; "" if there is none."""
    match = next(filter(None, (pattern.search(text) for pattern in (_FOUND, _HOME, _OLD_WORD))), None)
    return next(filter(None, match.groups()), "") if match else ""


def _in_shell(first: str, command: Sequence[str]) -> str:
    """Return command-line words that run the command in a shell, which expands the text. first: shell text to run
    before it
    """
    return f"-- {quote_for_bash(['bash', '-c', f'{first}exec ' + ' '.join(map(_for_shell, command))])}"


def _for_shell(word: str) -> str:
    """Return a word quoted for a shell, so that only the intended parts are expanded and nothing is split."""
    if not _found(word):
        return shlex.quote(word)
    expanded = _HOME.sub("$HOME/", _OLD_COMMAND.sub(r"$(\1)", word) if _OLD_WORD.search(word) else word)
    return '"' + re.sub(r'(["\\`])', r"\\\1", expanded) + '"'


def _warning(title: str, because: str, hint: str, key: str) -> Diagnostic:
    return Diagnostic("JC3002", title, because, hint, key=key, severity=Severity.WARNING)
