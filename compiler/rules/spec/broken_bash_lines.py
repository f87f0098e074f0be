"""JC2024: lines of setup, before, per_node, then or after that bash cannot parse."""

from __future__ import annotations

from collections.abc import Iterator

from ...bash_syntax import syntax_error
from ...diagnostics.diagnostic import Diagnostic
from ...frontend.observed_files import ask_program
from ...spec.job_spec import JobSpec

KEYS = ("setup", "before", "per_node", "then", "after")


def check(spec: JobSpec) -> Iterator[Diagnostic]:
    if any(getattr(spec, key) for key in KEYS):
        ask_program("bash")
    for key in KEYS:
        lines = getattr(spec, key)
        scripts = lines if key == "then" else ["\n".join(lines)]
        for error in filter(None, (syntax_error(f"{script}\n") for script in scripts if script)):
            because = f"bash reports {error}"
            hint = "close the quote, the block or the here-document that the message names"
            yield Diagnostic("JC2024", f"{key}: bash cannot parse it", because, hint, key=key, judgment=True)
