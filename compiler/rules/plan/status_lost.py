"""Exit codes that the shell text loses: JC3008, JC3009."""

import re
from collections.abc import Iterator, Sequence

from ....runtime.system.frozen_dataclass import dataclass
from ...diagnostics.diagnostic import Diagnostic, Severity
from ...plan.launch_plan import LaunchPlan
from ...spec.job_spec import JobSpec
from ._programs import TOOLS, program_name, starts_training, strip_command_prefix
from ._shell import (
    SHELLS,
    ShellCommand,
    add_shell_option,
    blank_quoted_text,
    find_broken_continuations,
    is_shell_option_set,
    shell_c_text,
    split_into_commands,
)

_FILTERS = ("awk", "egrep", "exit", "grep", "head", "logger", "sed", "set", "sort", "tail", "tee", "tr", "ts", "wc")
_OPEN = ("{", "if", "for", "while", "until", "case", "select")
_CLOSE = ("}", "fi", "done", "esac")
_ENDS = (";", ";;", "\n", "&", "||", "")
# Last commands that may check the result or do the work: a test, a script, or a command that starts another command.
_JUDGES = (
    "[", "[[", "test", "((", "grep", "diff", "cmp", "false", "fi", "done", "esac", "}", ")", "eval", "source", ".",
    "sh", "bash", "zsh", "make",
)  # fmt: skip


def check_status_lost_in_pipe(spec: JobSpec, plan: LaunchPlan) -> Iterator[Diagnostic]:
    """JC3008: `bash -c 'python train.py | tee log'`: the exit code is that of tee, so a crash looks like success.

    The program is the last command that trains, or else a script that is followed only by filters or commands that
    print.
    """
    text = shell_c_text(spec.command)
    if not _is_status_hidden(split_into_commands(text)) or re.search(r"\$\{?pipestatus", text, re.I):
        return
    because = "a pipe returns the exit code of its last command, so a crash would look like success"
    mended = add_shell_option(spec.command or (), "-o", "pipefail")
    hint = f"-- {mended}; or remove the pipe: jobctl writes a log for each rank"
    title = "the program is in a pipe, which hides its exit code"
    yield Diagnostic("JC3008", title, because, hint, key="command", severity=Severity.WARNING)


def _is_status_hidden(found: Sequence[ShellCommand]) -> bool:
    training = [command for command in found if starts_training(command.words)]
    others = [command for command in found if program_name(command.words) not in ("", *_FILTERS, *TOOLS)]
    if not training:
        training = [command for command in others[-1:] if _is_script(command.words)]
    return bool(training) and training[-1] in _commands_hidden_by_pipe(found)


def _is_script(words: Sequence[str]) -> bool:
    first = words[0]
    if program_name(words) in SHELLS:
        first = next((word for word in words[1:] if not word.startswith("-")), "")
    return first.startswith("./") or first.endswith(".sh")


def _commands_hidden_by_pipe(found: Sequence[ShellCommand]) -> Iterator[ShellCommand]:
    """Yield the commands whose exit code a pipe hides: all in a pipe except the last, even inside a group."""
    is_kept, pipefail_states = False, list[bool]()
    for command in found:
        is_kept = is_shell_option_set("pipefail", command.words, is_kept)
        pipefail_states.append(is_kept)
    groups = [False]  # for each open group, whether a pipe hides it; the innermost group is last
    for command, is_kept in zip(reversed(found), reversed(pipefail_states), strict=True):
        in_pipe = groups[-1] or command.join in ("|", "|&")
        if in_pipe and not is_kept:
            yield command
        typed = command.typed
        in_front = typed[: len(typed) - len(strip_command_prefix(typed)) + 1]
        closed = typed.count(")") + sum(word in _CLOSE for word in typed[:1])
        opened = typed.count("(") + 2 * typed.count("((") + sum(word in _OPEN for word in in_front)
        groups += [in_pipe] * closed
        groups = groups[: max(1, len(groups) - opened)]


@dataclass(frozen=True)
class _CommandSegment:
    """Part of a shell text up to its separator: `;`, a newline, `&`, `||`, or "" at the end of the text."""

    commands: tuple[ShellCommand, ...]  # commands joined by `&&` and `|`

    @property
    def typed(self) -> tuple[str, ...]:
        return tuple(word for command in self.commands for word in command.typed)

    @property
    def separator(self) -> str:
        return self.commands[-1].join

    @property
    def runs_training(self) -> bool:
        return any(starts_training(command.words) for command in self.commands)


def check_status_lost_at_end(spec: JobSpec, plan: LaunchPlan) -> Iterator[Diagnostic]:
    """JC3009: `bash -c 'python train.py; cp -r out /nfs'`: only the last command determines the exit code.

    Source: bash 5.2, manual: `set -e` ignores background commands, commands before `||` or `&&`, and conditions.
    """
    text = shell_c_text(spec.command)
    if find_broken_continuations(text):  # JC3014 reports this, and the commands after it would be misread
        return
    segments = _split_commands(split_into_commands(text))
    while len(segments) > 1 and segments[-1].typed in ((), ("exit",), ("return",)):
        if segments[-2].separator == "&" and not segments[-1].typed:
            break
        segments.pop()
    if (
        len(segments) < 2
        or _sets_exit_code(segments[-1], blank_quoted_text(text))
        or not (lost := _undetected_segments(segments))
    ):
        return
    last = text[segments[-1].commands[0].start : segments[-1].commands[-1].end].strip() or "&"
    because = f"the exit code of `{last}` becomes the exit code of the job, even if the program failed"
    title = "the last command in the shell script hides the program's exit code"
    hint = f"-- {add_shell_option(spec.command or (), '-e')}, which stops at the first failure"
    if any(segment.separator == "&" for segment in lost):
        hint = "put the program last; wait for each background process by its PID: wait $first; wait $second"
    elif not all(_is_failure_detected(segment) for segment in lost) or re.search(r"\bset \+\w*[eo]", text):
        hint = "put the program last; or save status=$? right after it, and exit $status at the end"
    yield Diagnostic("JC3009", title, because, hint, key="command", severity=Severity.WARNING)


def _split_commands(found: Sequence[ShellCommand]) -> list[_CommandSegment]:
    segments, start = list[_CommandSegment](), 0
    for index, command in enumerate(found, start=1):
        if command.join in _ENDS:
            segments.append(_CommandSegment(tuple(found[start:index])))
            start = index
    return [segment for segment in segments if segment.typed or segment is segments[-1]]


def _undetected_segments(segments: Sequence[_CommandSegment]) -> list[_CommandSegment]:
    """Return the programs before the last command, if the text does not detect that they failed."""
    stops, lost, behind = False, list[_CommandSegment](), list[_CommandSegment]()
    for segment in segments[:-1]:
        for command in segment.commands:
            stops = is_shell_option_set("errexit", command.words, stops, letter="e")
        if _is_status_checked(segment):
            lost, behind = [], []
        elif segment.runs_training and segment.typed[0] != "until" and segment.typed[:2] != ("while", "!"):
            if segment.separator == "&":
                behind.append(segment)
            elif not (stops and _is_failure_detected(segment)):
                lost.append(segment)
    waits = segments[-1].typed == ("wait",)
    in_front = any(segment.runs_training and segment.separator != "&" for segment in segments)
    return lost + (behind if waits or not in_front else [])


def _is_failure_detected(segment: _CommandSegment) -> bool:
    """Return whether `set -e` detects a failure of the segment's program."""
    guarded = segment.separator in ("||", "&") or segment.typed[0] in ("if", "elif", "while", "!")
    before = max((index for index, command in enumerate(segment.commands, start=1) if command.join == "&&"), default=0)
    return not guarded and not any(starts_training(command.words) for command in segment.commands[:before])


def _is_status_checked(segment: _CommandSegment) -> bool:
    """Return whether a command is `exit $status`, even in a condition. If so, the script itself checks the status."""
    commands = [(*command.words, "", "")[:2] for command in segment.commands]
    return any(name in ("exit", "return") and status not in ("", "0") for name, status in commands)


def _sets_exit_code(last: _CommandSegment, text: str) -> bool:
    """Return whether the last command sets the exit code on purpose, or may be the training program."""
    words = last.commands[-1].words
    name, first = program_name(words), words[0] if words else ""
    if last.runs_training or _is_status_checked(last) or name in _JUDGES or first.startswith(("$", "((", "./", "[[")):
        return True
    if name == "wait":
        return len(words) > 1
    is_function = bool(first) and re.search(rf"(?<!\S){re.escape(first)} *\(\)|\bfunction {re.escape(first)}\b", text)
    return bool(is_function) or ("/" in first and name not in TOOLS) or first.endswith(".sh")
