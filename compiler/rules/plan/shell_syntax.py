"""JC3015: a command that only a shell can run, such as `NAME=VALUE python train.py` or `cd src && python train.py`."""

import re
from collections.abc import Iterator, Sequence

from ...diagnostics.diagnostic import Diagnostic, Severity
from ...plan.launch_plan import LaunchPlan
from ...spec.job_spec import JobSpec
from ._shell import quote_for_bash

_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_OPERATORS = ("&&", "||", ";", "|", "&")
_BUILTINS = ("cd", "source", ".", "export", "set", "ulimit", "umask", "unset", "eval", "exec", "alias")


def check(spec: JobSpec, plan: LaunchPlan) -> Iterator[Diagnostic]:
    words = spec.command or ()
    because = "the command runs without a shell, so this word would be taken as the program's name"
    if assignment := _ASSIGNMENT.fullmatch(words[0]) if words else None:
        rest = next((i for i, word in enumerate(words) if not _ASSIGNMENT.fullmatch(word)), len(words))
        variables = [f"env.{word}" for word in words[:rest]]
        hint = f"{quote_for_bash(variables)} -- {quote_for_bash(words[rest:])}"
        yield _error(f"the command begins with an assignment: {assignment[0]!r}", because, hint)
    elif words[:1] and words[0] in _BUILTINS:
        yield _error(f"{words[0]} is not a program but a command of the shell", because, _wrap_in_shell(words))
    elif operator := next((word for word in words if word in _OPERATORS), ""):
        because = "the command runs without a shell, so this word would be an argument of the program"
        title = f"the command contains the word {operator!r}"
        yield Diagnostic("JC3015", title, because, _wrap_in_shell(words), key="command", severity=Severity.WARNING)


def _error(title: str, because: str, hint: str) -> Diagnostic:
    return Diagnostic("JC3015", title, because, hint, key="command", judgment=True)


def _wrap_in_shell(words: Sequence[str]) -> str:
    text = " ".join(word if word in _OPERATORS else quote_for_bash([word]) for word in words)
    return f"-- {quote_for_bash(['bash', '-c', text])}"
