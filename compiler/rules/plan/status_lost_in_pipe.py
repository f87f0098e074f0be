"""JC3008: `bash -c 'python train.py | tee log'`: the status is that of tee, so a crash counts as success."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ...diagnostics import Diagnostic, Severity
from ...plan import LaunchPlan
from ...spec import JobSpec
from ._programs import started, trains
from ._shell import Command, commands, is_set, shell_text, with_option

_OPEN = ("{", "if", "for", "while", "until", "case", "select")
_CLOSE = ("}", "fi", "done", "esac")


def check(spec: JobSpec, plan: LaunchPlan) -> Iterator[Diagnostic]:
    text = shell_text(spec.command)
    if not any(map(trains, _hidden(commands(text)))) or re.search(r"\$\{?pipestatus", text, re.I):
        return
    because = "the status of a pipe is that of its last command: requeues and the exit code would call a crash done"
    mended = with_option(spec.command or (), "-o", "pipefail")
    hint = f"-- {mended}; node.sh writes a log of each rank, so the pipe may go"
    title = "the program is in a pipe, which hides its status"
    yield Diagnostic("JC3008", title, because, hint, key="command", severity=Severity.WARNING)


def _hidden(found: Sequence[Command]) -> Iterator[Sequence[str]]:
    """The words of those whose status a pipe hides: each before its last one, alone or in a group."""
    is_kept, kept = False, list[bool]()
    for each in found:
        is_kept = is_set("pipefail", each.words, is_kept)
        kept.append(is_kept)
    groups = [False]  # whether a pipe hides them, the innermost last
    for each, is_kept in zip(reversed(found), reversed(kept), strict=True):
        in_pipe = groups[-1] or each.join in ("|", "|&")
        if in_pipe and not is_kept:
            yield each.words
        groups += [in_pipe] * _closed(each)
        groups = groups[: max(1, len(groups) - _opened(each))]


def _closed(command: Command) -> int:
    """The number of groups that end with it."""
    return command.typed.count(")") + (command.typed[:1] != () and command.typed[0] in _CLOSE)


def _opened(command: Command) -> int:
    in_front = command.typed[: len(command.typed) - len(started(command.typed)) + 1]
    return "".join(word for word in command.typed if word in ("(", "((")).count("(") + sum(w in _OPEN for w in in_front)
