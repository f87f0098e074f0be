"""JC3014: `train.py \\ # all GPUs` in a shell's text: a backslash before a blank does not continue the line."""

from __future__ import annotations

from collections.abc import Iterator

from ...diagnostics.diagnostic import Diagnostic
from ...plan.launch_plan import LaunchPlan
from ...spec.job_spec import JobSpec
from ._shell import find_broken_continuations, nested_bash_texts, quote_for_bash


def check(spec: JobSpec, plan: LaunchPlan) -> Iterator[Diagnostic]:
    results = ((text, find_broken_continuations(text)) for text in nested_bash_texts(spec.command))
    text, broken = next((result for result in results if result[1]), ("", []))
    if not broken:
        return
    start, end = broken[0]
    next_line = text[end:].split("\n", 1)[0].strip()
    title = f"the command ends before `{next_line}`, which is on the next line"
    if not next_line:
        title = "the command ends with a blank argument"
    because = f"`{text[start:end].strip()}`: a backslash continues a line only as its last character"
    mended = text
    for start, end in reversed(broken):
        mended = f"{mended[:start]}\\\n{mended[end:]}"
    words = [mended if word == text else word for word in spec.command or ()]
    hint = f"-- {quote_for_bash(words)}" if mended in words else "remove the whitespace after the backslash"
    yield Diagnostic("JC3014", title, because, hint, key="command", judgment=True)
