"""JC3009: `bash -c 'python train.py; cp -r out /nfs'`: the last command decides the status, whatever was before it.

Source bash 5.2, manual: `set -e` does not see what is in the background, what `||` or `&&` follows, nor a condition.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ...diagnostics import Diagnostic, Severity
from ...plan import LaunchPlan
from ...spec import JobSpec
from ._shell import RUNS, program, shell_text, started, unquoted

_ENDS = re.compile(r";|\n|(?<![&><])&(?![&>])|\|\|")
_COMMENT = re.compile(r"(?m)(?:^|(?<=[\s;]))#.*")
_FILES = ("cat", "chmod", "cp", "echo", "kill", "ls", "mv", "pkill", "printf", "rm", "rsync", "scp", "tar", "touch")
_NOT_THE_JOB = re.compile(r"\bpython[\d.]* (-V|--version|-m (pip|venv|ensurepip))\b|\bsetup\.py\b")
# A last command that is trusted to judge for itself, or to be the work: a test, a script, what starts another program.
_JUDGES = (
    "[", "[[", "test", "((", "grep", "diff", "cmp", "false", "fi", "done", "esac", "}", ")", "eval", "source", ".",
    "sh", "bash", "zsh", "make", "srun", "mpirun", "mpiexec", "accelerate", "deepspeed", "horovodrun", "colossalai",
)  # fmt: skip


@dataclass(frozen=True)
class _Part:
    """Of a shell's text, up to what ends it: `;`, a new line, `&`, `||`, or "" at the end of the text."""

    text: str
    end: str
    start: int

    @property
    def commands(self) -> list[Sequence[str]]:
        """The words of each between `&&` and `|`, from the program on."""
        return [started(one.strip(" \t(").split()) for one in re.split(r"&&|\|&?", self.text)]

    @property
    def runs(self) -> bool:
        """Whether it trains."""
        return any(
            RUNS.search(" ".join(words)) and not _NOT_THE_JOB.search(" ".join(words)) and program(words) not in _FILES
            for words in self.commands
        )


def check(spec: JobSpec, plan: LaunchPlan) -> Iterator[Diagnostic]:
    text = shell_text(spec.command)
    parts = _parts(text)
    while len(parts) > 1 and (parts[-1].text.strip() in ("exit", "return") or not parts[-1].text.strip()):
        if parts[-2].end == "&" and not parts[-1].text.strip():
            break
        parts.pop()
    if len(parts) < 2 or _decides(parts[-1], unquoted(text)) or not (lost := _lost(parts)):
        return
    last = text[parts[-1].start :][: len(parts[-1].text)].strip() or "&"
    because = f"`{last}` comes last, and its status is the job's, whatever became of the program"
    title = "the last command of the shell hides the program's status"
    shell, *words = spec.command or ()
    hint = f"-- {shlex.join([shell, '-e', *words])}, which stops at the first failure"
    if any(part.end == "&" for part in lost):
        hint = "the program last; of several in the background `wait` for each by its number: wait $first; wait $second"
    elif not all(_is_seen(part) for part in lost) or re.search(r"\bset \+\w*[eo]", text):
        hint = "the program last; or status=$? right behind it, and exit $status at the end"
    yield Diagnostic("JC3009", title, because, hint, key="command", severity=Severity.WARNING)


def _parts(text: str) -> list[_Part]:
    plain = _COMMENT.sub(lambda found: " " * len(found[0]), unquoted(text))
    found, start = [], 0
    for end in _ENDS.finditer(plain):
        found.append(_Part(plain[start : end.start()], end[0], start))
        start = end.end()
    found.append(_Part(plain[start:], "", start))
    return [part for part in found if part.text.strip() or part is found[-1]]


def _lost(parts: Sequence[_Part]) -> list[_Part]:
    """The programs before the last command whose failure nothing of the text sees."""
    stops, lost, behind = False, list[_Part](), list[_Part]()
    for part in parts[:-1]:
        words = part.text.split()
        stops = _stops(part, stops)
        if _exits(part):
            lost, behind = [], []
        elif part.runs and words[0] != "until" and words[:2] != ["while", "!"]:
            if part.end == "&":
                behind.append(part)
            elif not (stops and _is_seen(part)):
                lost.append(part)
    waits = parts[-1].text.split() == ["wait"]
    in_front = any(part.runs and part.end != "&" for part in parts)
    return lost + (behind if waits or not in_front else [])


def _stops(part: _Part, before: bool) -> bool:
    """Whether the shell stops at a failure from here on."""
    for words in part.commands:
        for option, name in zip(words, (*words[1:], ""), strict=False) if words[:1] == ["set"] else ():
            if re.fullmatch(r"[-+][A-Za-z]*e[A-Za-z]*", option) or (option[1:] == "o" and name == "errexit"):
                before = option[0] == "-"
    return before


def _is_seen(part: _Part) -> bool:
    """Whether `set -e` sees the failure of its program."""
    *others, _ = re.split("&&", part.text)
    guarded = part.end in ("||", "&") or part.text.split()[0] in ("if", "elif", "while", "!")
    return not guarded and not RUNS.search(" ".join(others))


def _exits(part: _Part) -> bool:
    """`exit $status`, also in a condition: whoever writes that has looked at the status."""
    return any(words[:1] in (["exit"], ["return"]) and words[1:2] not in ([], ["0"]) for words in part.commands)


def _decides(last: _Part, text: str) -> bool:
    """Whether the last command knows better than to succeed whatever happened, or may be the program itself."""
    words = last.commands[-1] if last.commands else ()
    name, first = program(words), words[0] if words else ""
    if last.runs or _exits(last) or name in _JUDGES or first.startswith(("$", "_", "((", "./", "[[")):
        return True
    if name == "wait":
        return len(words) > 1
    is_function = bool(first) and re.search(rf"(?<!\S){re.escape(first)} *\(\)|\bfunction {re.escape(first)}\b", text)
    return bool(is_function) or ("/" in first and name not in _FILES) or first.endswith(".sh")
