"""Quotes and line continuations in the command: JC3010, JC3013, JC3014."""

import re
from collections.abc import Iterator
from dataclasses import replace

from ...diagnostics.diagnostic import Diagnostic
from ...plan import derive
from ...plan.launch_plan import LaunchPlan
from ...spec.job_spec import JobSpec
from ._shell import (
    blank_quoted_text,
    find_broken_continuations,
    is_command_in_one_word,
    nested_bash_texts,
    position_of_unclosed_quote,
    quote_for_bash,
)


def check_command_in_one_word(spec: JobSpec, plan: LaunchPlan) -> Iterator[Diagnostic]:
    """JC3010: quotes around the whole command, which make it one word that would be taken for a file name."""
    if spec.command and is_command_in_one_word(spec.command):
        because = "no shell splits this argument, so the whole text would be taken as the program's name"
        text = " ".join(spec.command)
        in_shell = " ".join(derive.command(replace(spec, command=tuple(text.split(" ")))))
        hint = f"-- {quote_for_bash(['bash', '-c', in_shell])}"
        if position_of_unclosed_quote(text) is not None:  # no shell can read it
            hint = f"-- {quote_for_bash(text.split())}"
        elif (
            not re.search(r"[^\w ./:=,@%+'\"-]", blank_quoted_text(text)) and "\\" not in text
        ):  # otherwise only a shell can parse it
            hint = f"-- {text}; or, for a shell, {hint}"
        title = f"the command is one argument with spaces: {spec.command[0]!r}"
        yield Diagnostic("JC3010", title, because, hint, key="command", judgment=True)


def check_open_quote(spec: JobSpec, plan: LaunchPlan) -> Iterator[Diagnostic]:
    """JC3013: `bash -c 'python train.py --note "abc'`: an unclosed quote in a shell's text."""
    results = ((text, position_of_unclosed_quote(text)) for text in nested_bash_texts(spec.command))
    text, position = next((result for result in results if result[1] is not None), ("", None))
    if position is not None:
        line = text[position:].split("\n", 1)[0]
        title = f"unclosed quote: `{line[:40]}{'…' if len(line) > 40 else ''}`"
        because = "the shell finds no closing quote before the end of the text, and runs nothing"
        yield Diagnostic(
            "JC3013", title, because, "close the quote, or escape it with a backslash", key="command", judgment=True
        )


def check_broken_continuation(spec: JobSpec, plan: LaunchPlan) -> Iterator[Diagnostic]:
    """JC3014: `train.py \\ # all GPUs` in a shell's text: a backslash before a blank does not continue the line."""
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
