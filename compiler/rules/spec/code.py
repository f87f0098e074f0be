"""The job's code and its own bash lines: JC2024, JC4514, JC4516."""

import re
from collections.abc import Iterator

from ... import bash_syntax
from ...diagnostics.diagnostic import Diagnostic, Severity
from ...frontend.observed_files import record_no_answer, record_program_lookup
from ...plan.derive import runs_user_code
from ...spec.job_spec import JobSpec


def check_code_without_commit(spec: JobSpec) -> Iterator[Diagnostic]:
    """JC4514: code=git without a repository or a commit, or with a folder outside the repository."""
    if spec.code.kind != "git" or not runs_user_code(spec):
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


def check_password_in_repository(spec: JobSpec) -> Iterator[Diagnostic]:
    """JC4516: a password in the repository's URL."""
    if spec.code.kind != "git" or spec.code.repository is None:
        return
    match = re.match(r"(\w+://)([^/@]*):[^/@]*@(.*)|(https?://)[^/@:]+@(.*)", spec.code.repository)
    if match:
        plain = f"{match[1]}{match[3]}" if match[1] else f"{match[4]}{match[5]}"
        because = "the artifact would contain the password in plain text"
        hint = f"code.repository={plain} secrets.GIT_TOKEN=env:GIT_TOKEN (or k8s:SECRET/KEY)"
        title = "code.repository contains a password"
        yield Diagnostic("JC4516", title, because, hint, key="code.repository", private=True)


def check_bash_lines(spec: JobSpec) -> Iterator[Diagnostic]:
    """JC2024: lines of `setup`, `before`, `per_node`, `then` or `after` that bash cannot parse."""
    keys = ("setup", "before", "per_node", "then", "after")
    if any(getattr(spec, key) for key in keys):
        record_program_lookup("bash")
    for key in keys:
        lines = getattr(spec, key)
        scripts = lines if key == "then" else ["\n".join(lines)]
        errors = [bash_syntax.syntax_error(f"{script}\n") for script in scripts if script]
        if None in errors:
            record_no_answer("bash")
            title = f"{key}: not checked, because bash did not respond within {bash_syntax.TIMEOUT_S} s"
            because = "bash parses such lines in milliseconds, unless this machine is overloaded"
            hint = "run the command again"
            yield Diagnostic("JC2024", title, because, hint, key=key, severity=Severity.WARNING)
        for error in filter(None, errors):
            because = f"bash reports {error}"
            hint = "close the quote, the block or the here-document that the message names"
            yield Diagnostic("JC2024", f"{key}: bash cannot parse these lines", because, hint, key=key, judgment=True)
