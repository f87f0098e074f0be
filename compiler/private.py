"""Rules against passwords and tokens in the files of an artifact, which anybody may read who sees the run.

Whoever has one refers to it: secrets.NAME=env:NAME, file:PATH or k8s:SECRET/KEY. Messages do not repeat what was typed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from .diagnostics import Diagnostic
from .spec import JobSpec

# Variables that hold nothing else, by their usual names; and what issuers put in front of a token (GitHub, GitLab,
# Hugging Face, AWS and others document it, so that it can be found).
_NAME = re.compile(
    r"(^|_)(PASSWORD|PASSWD|SECRET|SECRET_KEY|API_KEY|ACCESS_KEY|SECRET_ACCESS_KEY|PRIVATE_KEY)$"
    r"|(^|_)(HF|HUB|GH|GITHUB|GITLAB|GIT|AUTH|ACCESS|SESSION|BEARER|API|WANDB|NGC)_TOKEN$"
)
_VALUE = re.compile(
    r"[a-z][a-z0-9+.-]*://[^/\s:@]+:[^/\s@]+@|"  # a URL with a password
    r"(hf_|gh[opsu]_|github_pat_|glpat-|nvapi-|sk-|xox[bp]-|AKIA|ASIA)[A-Za-z0-9_-]{12,}|-----BEGIN [A-Z ]*PRIVATE KEY"
)


def looks_like_token(text: str) -> bool:
    """Whether it begins as tokens of known issuers do."""
    return bool(_VALUE.match(text))


def looks_secret(name: str, value: str) -> bool:
    """A variable that holds a password or a token, by its name or by what its value begins with."""
    return bool(value and (_NAME.search(name) or looks_like_token(value)))


def env_holds_no_secret(spec: JobSpec) -> Iterator[Diagnostic]:
    """JC4515"""
    for name, value in spec.env.items():
        if name not in spec.secrets and looks_secret(name, value):
            because = "node.sh and spec.yaml would hold it in clear, for all who can read the run"
            hint = f"secrets.{name}=env:{name}, and export {name} where you submit; or file:PATH, or k8s:SECRET/KEY"
            title = f"env.{name} looks like a secret"
            yield Diagnostic("JC4515", title, because, hint, key=f"env.{name}", private=True, judgment=True)


def repository_holds_no_password(spec: JobSpec) -> Iterator[Diagnostic]:
    """JC4516"""
    if spec.code.kind != "git" or spec.code.repository is None:
        return
    found = re.match(r"(\w+://)([^/@]*):[^/@]*@(.*)|(https?://)[^/@:]+@(.*)", spec.code.repository)
    if found:
        plain = f"{found[1]}{found[3]}" if found[1] else f"{found[4]}{found[5]}"
        because = "the artifact would hold it in clear"
        hint = f"code.repository={plain} secrets.GIT_TOKEN=env:GIT_TOKEN (or k8s:SECRET/KEY)"
        title = "code.repository holds a password"
        yield Diagnostic("JC4516", title, because, hint, key="code.repository", private=True)


PRIVATE_RULES = (env_holds_no_secret, repository_holds_no_password)
