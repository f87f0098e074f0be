"""Exit codes that the shell text loses: JC3008, JC3009.

Texts with compound commands (groups, loops, conditions, functions) are not checked, because they may handle the exit
code.
"""

import re
from collections.abc import Iterator, Sequence

from ...diagnostics.diagnostic import Diagnostic, Severity
from ...plan.launch_plan import LaunchPlan
from ...spec.job_spec import JobSpec
from ._programs import SHELLS, TOOLS, program_name, starts_training
from ._shell import (
    ShellCommand,
    add_shell_option,
    blank_quoted_text,
    find_broken_continuations,
    has_compound_commands,
    shell_options,
    shell_text,
    split_into_commands,
)

_IN_PIPE = ("|", "|&")
_NO_RESULT = (*TOOLS, "disown", "sleep", "sync")  # last commands whose exit code is not that of the job
_HANDLED = re.compile(r"\btrap\b|\b(exit|return) +[^0 ;\n]", re.IGNORECASE)


def check_status_lost_in_pipe(spec: JobSpec, plan: LaunchPlan) -> Iterator[Diagnostic]:
    """JC3008: `bash -c 'python train.py | tee log'`: the exit code is that of tee, so a crash looks like success.

    The program is the last command that trains, or else a script at the beginning of the last pipe.
    """
    commands = _simple_commands(spec)
    first = max((index for index, c in enumerate(commands[:-1], 1) if c.join not in _IN_PIPE), default=0)
    programs = [c for c in commands if starts_training(c.words)]
    programs = programs or [c for c in commands[first : first + 1] if _is_script(c.words)]
    if not programs or programs[-1].join not in _IN_PIPE or _is_option_set(spec, commands, "pipefail"):
        return
    because = "a pipe returns the exit code of its last command, so a crash would look like success"
    mended = add_shell_option(spec.command or (), "-o", "pipefail")
    hint = f"-- {mended}; or remove the pipe: jobctl writes a log for each rank"
    title = "the program is in a pipe, which hides its exit code"
    yield Diagnostic("JC3008", title, because, hint, key="command", severity=Severity.WARNING)


def _is_script(words: Sequence[str]) -> bool:
    if program_name(words) in SHELLS:
        words = [word for word in words[1:] if not word.startswith("-")]
    return bool(words) and (words[0].startswith("./") or words[0].endswith(".sh"))


def check_status_lost_at_end(spec: JobSpec, plan: LaunchPlan) -> Iterator[Diagnostic]:
    """JC3009: `bash -c 'python train.py; cp -r out /nfs'`: only the last command determines the exit code.

    Source: bash 5.2, manual: `set -e` ignores background commands and commands before `||`.
    """
    commands = _simple_commands(spec)
    while commands and not commands[-1].typed and (len(commands) < 2 or commands[-2].join != "&"):
        commands.pop()
    separators = [_separator_after(commands, i) for i, c in enumerate(commands[:-1]) if starts_training(c.words)]
    lost = {separator for separator in separators if separator}
    last = commands[-1].words if commands else ()
    is_result = bool(last) and program_name(last) not in _NO_RESULT and list(last) not in (["wait"], ["exit", "0"])
    stops = _is_option_set(spec, commands, "errexit", "e")
    if not lost or is_result or (stops and "||" not in lost and lost != {"&"}):
        return
    shown = " ".join(commands[-1].typed) or "&"
    because = f"the exit code of `{shown}` becomes the exit code of the job, even if the program failed"
    title = "the last command in the shell script hides the program's exit code"
    hint = f"-- {add_shell_option(spec.command or (), '-e')}, which stops at the first failure"
    if "&" in lost:
        hint = "put the program last; wait for each background process by its PID: wait $first; wait $second"
    elif "||" in lost:
        hint = "put the program last; or save status=$? right after it, and exit $status at the end"
    yield Diagnostic("JC3009", title, because, hint, key="command", severity=Severity.WARNING)


def _simple_commands(spec: JobSpec) -> list[ShellCommand]:
    """Return the commands of the shell text, or none if it may handle the exit code or has a broken line (JC3014)."""
    text = shell_text(spec.command)
    commands = split_into_commands(text)
    is_handled = has_compound_commands(commands) or re.search(r"(?i)\$\{?pipestatus", text)
    return [] if is_handled or _HANDLED.search(blank_quoted_text(text)) or find_broken_continuations(text) else commands


def _separator_after(commands: Sequence[ShellCommand], index: int) -> str:
    """Return what separates a command, with its pipe and what follows `&&`, from the rest: `;`, `&` … or ""."""
    return next(command.join for command in commands[index:] if command.join not in (*_IN_PIPE, "&&"))


def _is_option_set(spec: JobSpec, commands: Sequence[ShellCommand], option: str, letter: str = "-") -> bool:
    """Return whether the shell is started with an option, or sets it in a command such as `set -euo pipefail`."""
    options = [shell_options(spec.command), *(c.words[1:] for c in commands if program_name(c.words) == "set")]
    flags = [flag for words in options for flag in words]
    return option in flags or any(re.fullmatch(rf"-[A-Za-z]*{letter}[A-Za-z]*", flag) for flag in flags)
