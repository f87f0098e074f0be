"""JC3014: `train.py \\ # all GPUs` in a shell's text: a backslash before a blank continues no line."""

from __future__ import annotations

from collections.abc import Iterator

from ...diagnostics import Diagnostic
from ...plan import LaunchPlan
from ...spec import JobSpec
from ._shell import broken_continuations, on_a_line, text_of_bash


def check(spec: JobSpec, plan: LaunchPlan) -> Iterator[Diagnostic]:
    text = text_of_bash(spec.command)
    if not (broken := broken_continuations(text)):
        return
    start, end = broken[0]
    next_line = text[end:].split("\n", 1)[0].strip()
    title = f"the command ends before `{next_line}`, which is on the next line"
    because = f"`{text[start:end].strip()}`: a backslash continues a line only as its very last sign"
    mended = text
    for start, end in reversed(broken):
        mended = f"{mended[:start]}\\\n{mended[end:]}"
    words = [mended if word == text else word for word in spec.command or ()]
    yield Diagnostic("JC3014", title, because, f"-- {on_a_line(words)}", key="command", judgment=True)
