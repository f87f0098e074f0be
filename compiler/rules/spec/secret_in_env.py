"""JC4515: a password or token in a value of env."""

from __future__ import annotations

from collections.abc import Iterator

from ...diagnostics.diagnostic import Diagnostic
from ...spec.job_spec import JobSpec
from ...spec.secret_scan import is_assignment_of_secret, looks_like_token


def check(spec: JobSpec) -> Iterator[Diagnostic]:
    for name, value in spec.env.items():
        if name not in spec.secrets and (is_assignment_of_secret(name, value) or looks_like_token(value)):
            because = "launch.sh and spec.yaml would show the value in plain text to everyone who can read the run"
            hint = f"secrets.{name}=env:{name}, and export {name} where you submit; or file:PATH, or k8s:SECRET/KEY"
            title = f"env.{name} looks like a secret"
            yield Diagnostic("JC4515", title, because, hint, key=f"env.{name}", private=True, judgment=True)
