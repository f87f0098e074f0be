"""JC3010: the whole command quoted as one word, which would be taken for a file name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from ...diagnostics.diagnostic import Diagnostic
from ...plan import derive
from ...plan.launch_plan import LaunchPlan
from ...spec.job_spec import JobSpec
from ._shell import in_one_word, on_a_line, open_quote, unquoted


def check(spec: JobSpec, plan: LaunchPlan) -> Iterator[Diagnostic]:
    if spec.command and in_one_word(spec.command):
        because = "no shell splits this argument, so the whole text would be taken as the program's name"
        text = " ".join(spec.command)
        in_shell = " ".join(derive.command(replace(spec, command=tuple(text.split(" ")))))
        hint = f"-- {on_a_line(['bash', '-c', in_shell])}"
        if open_quote(text) is not None:  # no shell can read it
            hint = f"-- {on_a_line(text.split())}"
        elif not re.search(r"[^\w ./:=,@%+'\"-]", unquoted(text)) and "\\" not in text:  # else only a shell parses it
            hint = f"-- {text}; or, for a shell, {hint}"
        title = f"the command is one argument with spaces: {spec.command[0]!r}"
        yield Diagnostic("JC3010", title, because, hint, key="command", judgment=True)
