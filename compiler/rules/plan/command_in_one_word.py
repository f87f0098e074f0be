"""JC3010: the whole command quoted as one word, which would be taken for a file name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from ...diagnostics.diagnostic import Diagnostic
from ...plan import derive
from ...plan.launch_plan import LaunchPlan
from ...spec.job_spec import JobSpec
from ._shell import blank_out_quoted_text, is_quoted_into_one_word, position_of_unclosed_quote, quote_for_bash


def check(spec: JobSpec, plan: LaunchPlan) -> Iterator[Diagnostic]:
    if spec.command and is_quoted_into_one_word(spec.command):
        because = "no shell splits this argument, so the whole text would be taken as the program's name"
        text = " ".join(spec.command)
        in_shell = " ".join(derive.command(replace(spec, command=tuple(text.split(" ")))))
        hint = f"-- {quote_for_bash(['bash', '-c', in_shell])}"
        if position_of_unclosed_quote(text) is not None:  # no shell can read it
            hint = f"-- {quote_for_bash(text.split())}"
        elif (
            not re.search(r"[^\w ./:=,@%+'\"-]", blank_out_quoted_text(text)) and "\\" not in text
        ):  # else only a shell parses it
            hint = f"-- {text}; or, for a shell, {hint}"
        title = f"the command is one argument with spaces: {spec.command[0]!r}"
        yield Diagnostic("JC3010", title, because, hint, key="command", judgment=True)
