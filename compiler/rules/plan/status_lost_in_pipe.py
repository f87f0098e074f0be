"""JC3008: `bash -c 'python train.py | tee log'`: the exit code is that of tee, so a crash counts as success.

The program is the last command that trains, or else a script followed only by filters or commands that print.
"""

import re
from collections.abc import Iterator, Sequence

from ...diagnostics.diagnostic import Diagnostic, Severity
from ...plan.launch_plan import LaunchPlan
from ...spec.job_spec import JobSpec
from ._programs import TOOLS, program_name, starts_training, words_from_program_on
from ._shell import SHELLS, ShellCommand, is_shell_option_set, shell_text, split_into_commands, with_shell_option

_FILTERS = ("awk", "egrep", "exit", "grep", "head", "logger", "sed", "set", "sort", "tail", "tee", "tr", "ts", "wc")
_OPEN = ("{", "if", "for", "while", "until", "case", "select")
_CLOSE = ("}", "fi", "done", "esac")


def check(spec: JobSpec, plan: LaunchPlan) -> Iterator[Diagnostic]:
    text = shell_text(spec.command)
    if not _is_hidden(split_into_commands(text)) or re.search(r"\$\{?pipestatus", text, re.I):
        return
    because = "a pipe returns the exit code of its last command, so a crash would count as success"
    mended = with_shell_option(spec.command or (), "-o", "pipefail")
    hint = f"-- {mended}; or remove the pipe: jobctl writes a log for each rank"
    title = "the program is in a pipe, which hides its exit code"
    yield Diagnostic("JC3008", title, because, hint, key="command", severity=Severity.WARNING)


def _is_hidden(found: Sequence[ShellCommand]) -> bool:
    last = next((command for command in reversed(found) if starts_training(command.words)), None)
    if not last:
        last = next(
            (command for command in reversed(found) if program_name(command.words) not in ("", *_FILTERS, *TOOLS)), None
        )
    return bool(last and (starts_training(last.words) or _is_script(last.words)) and last in _hidden(found))


def _is_script(words: Sequence[str]) -> bool:
    first = (
        next((word for word in words[1:] if not word.startswith("-")), "")
        if program_name(words) in SHELLS
        else words[0]
    )
    return first.startswith("./") or first.endswith(".sh")


def _hidden(found: Sequence[ShellCommand]) -> Iterator[ShellCommand]:
    """Yield the commands whose exit code a pipe hides: all but the pipe's last one, even inside a group."""
    is_kept, pipefail_states = False, list[bool]()
    for command in found:
        is_kept = is_shell_option_set("pipefail", command.words, is_kept)
        pipefail_states.append(is_kept)
    groups = [False]  # whether a pipe hides each open group, the innermost last
    for command, is_kept in zip(reversed(found), reversed(pipefail_states), strict=True):
        in_pipe = groups[-1] or command.join in ("|", "|&")
        if in_pipe and not is_kept:
            yield command
        groups += [in_pipe] * _closed(command)
        groups = groups[: max(1, len(groups) - _opened(command))]


def _closed(command: ShellCommand) -> int:
    return command.typed.count(")") + (command.typed[:1] != () and command.typed[0] in _CLOSE)


def _opened(command: ShellCommand) -> int:
    in_front = command.typed[: len(command.typed) - len(words_from_program_on(command.typed)) + 1]
    return "".join(word for word in command.typed if word in ("(", "((")).count("(") + sum(w in _OPEN for w in in_front)
