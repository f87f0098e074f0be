"""JC2013: a NUL character in the command or in env, which cannot be passed to a process."""

from __future__ import annotations

from collections.abc import Iterator

from ...diagnostics.diagnostic import Diagnostic
from ...spec.job_spec import JobSpec


def check(spec: JobSpec) -> Iterator[Diagnostic]:
    words = [("command", word) for word in spec.command or ()] + [(f"env.{n}", v) for n, v in spec.env.items()]
    for key, word in words:
        if "\0" in word:
            because = "the operating system ends arguments and variables at NUL"
            yield Diagnostic("JC2013", f"{key} contains a NUL character", because, "remove it", key=key)
