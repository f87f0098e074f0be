"""JC4514: code=git without a repository or a commit, or with a folder outside the repository."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...diagnostics.diagnostic import Diagnostic
from ...plan.derive import brings_code
from ...spec.job_spec import JobSpec


def check(spec: JobSpec) -> Iterator[Diagnostic]:
    if spec.code.kind != "git" or not brings_code(spec):
        return
    for key, value, form, example in (
        ("repository", spec.code.repository, r"(?!\w+::)[^\s-]\S*", "https://github.com/ORG/NAME"),
        ("commit", spec.code.commit, r"[0-9a-f]{40}([0-9a-f]{24})?", "0123456789abcdef0123456789abcdef01234567"),
    ):
        if value is None or not re.fullmatch(form, value):
            title = f"code=git needs code.{key}" if value is None else f"code.{key}: {value!r} is not a valid {key}"
            because = "a run uses the code of one commit (`git rev-parse HEAD`), because a branch can move"
            yield Diagnostic("JC4514", title, because, f"code.{key}={example}", key=f"code.{key}")
    root = spec.code.root
    if root.startswith("/") or ".." in root.split("/"):
        title = f"code.root: {root!r} is not a folder in the repository"
        because = "the ranks start in this folder of the checked-out commit"
        yield Diagnostic("JC4514", title, because, "code.root=. for the top of the repository", key="code.root")
