"""JC3013: `bash -c 'python train.py --note "abc'`: an unclosed quote in a shell's text."""

from __future__ import annotations

from collections.abc import Iterator

from ...diagnostics.diagnostic import Diagnostic
from ...plan.launch_plan import LaunchPlan
from ...spec.job_spec import JobSpec
from ._shell import nested_bash_texts, position_of_unclosed_quote


def check(spec: JobSpec, plan: LaunchPlan) -> Iterator[Diagnostic]:
    results = ((text, position_of_unclosed_quote(text)) for text in nested_bash_texts(spec.command))
    text, position = next((result for result in results if result[1] is not None), ("", None))
    if position is not None:
        line = text[position:].split("\n", 1)[0]
        title = f"unclosed quote: `{line[:40]}{'…' if len(line) > 40 else ''}`"
        because = "the shell reaches the end of the text without a closing quote, and runs nothing"
        yield Diagnostic(
            "JC3013", title, because, "close the quote, or escape it with a backslash", key="command", judgment=True
        )
