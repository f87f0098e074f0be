"""JC4516: a password in the repository's URL."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...diagnostics.diagnostic import Diagnostic
from ...spec.job_spec import JobSpec


def check(spec: JobSpec) -> Iterator[Diagnostic]:
    if spec.code.kind != "git" or spec.code.repository is None:
        return
    match = re.match(r"(\w+://)([^/@]*):[^/@]*@(.*)|(https?://)[^/@:]+@(.*)", spec.code.repository)
    if match:
        plain = f"{match[1]}{match[3]}" if match[1] else f"{match[4]}{match[5]}"
        because = "the artifact would contain the password in plain text"
        hint = f"code.repository={plain} secrets.GIT_TOKEN=env:GIT_TOKEN (or k8s:SECRET/KEY)"
        title = "code.repository contains a password"
        yield Diagnostic("JC4516", title, because, hint, key="code.repository", private=True)
