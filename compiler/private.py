"""Rules against passwords and tokens in the files of an artifact, which anybody may read who sees the run.

Whoever has one refers to it: secrets.NAME=env:NAME, file:PATH or k8s:SECRET/KEY. Messages do not repeat what was typed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from .diagnostics import Diagnostic
from .sourcemap import SpecValue
from .spec import JobSpec

# Variables that hold nothing else, by their usual names; and how tokens look (GitHub, GitLab, Hugging Face, AWS and
# others document what they put in front, so that it can be found). Longer than the words of a path or a package:
# `hf_transfer` and `sk-learn-tools` are none, and what follows `$` is a variable's name.
_NAME = re.compile(
    r"(^|_)(PASSWORD|PASSWD|SECRET|SECRET_KEY|API_KEY|ACCESS_KEY|SECRET_ACCESS_KEY|PRIVATE_KEY)$"
    r"|(^|_)(HF|HUB|GH|GITHUB|GITLAB|GIT|AUTH|ACCESS|SESSION|BEARER|API|WANDB|NGC)_TOKEN$"
)
_TOKEN = re.compile(
    r"(?<![\w.+-])("  # where a word begins
    r"[a-z][a-z0-9+.-]*://[^/\s:@]*:(?![${<%])[^/\s@\"']+@|"  # a URL with a password
    r"(hf_|gh[oprsu]_)[A-Za-z0-9]{16,}(?!\w)|(github_pat_|glpat-|nvapi-)[\w-]{16,}|"
    r"sk-(?=[\w-]*[0-9])[\w-]{20,}|xox[bp]-[0-9][\w-]{12,}|(AKIA|ASIA)[A-Z0-9]{16}(?!\w)"
    r")|-----BEGIN [A-Z ]*PRIVATE KEY"
)
_GIVEN = re.compile(r"(?<![\w$])([A-Za-z_]\w*)=[\"']?(?=[^\s\"'`$<{(])")  # NAME=value, of a shell or of `docker run -e`
_OWN_RULE = ("env.", "labels.", "secrets.", "command", "code.repository")  # JC4515, JC3003 and JC4516 look at them


def looks_like_token(text: str) -> bool:
    """Whether it holds what looks like a token of a known issuer."""
    return bool(_TOKEN.search(text))


def names_secret(name: str) -> bool:
    """A variable that holds a password or a token, by its name."""
    return bool(_NAME.search(name))


def env_holds_no_secret(spec: JobSpec) -> Iterator[Diagnostic]:
    """JC4515"""
    for name, value in spec.env.items():
        if name not in spec.secrets and value and (names_secret(name) or looks_like_token(value)):
            because = "node.sh and spec.yaml would hold it in clear, for all who can read the run"
            hint = f"secrets.{name}=env:{name}, and export {name} where you submit; or file:PATH, or k8s:SECRET/KEY"
            title = f"env.{name} looks like a secret"
            yield Diagnostic("JC4515", title, because, hint, key=f"env.{name}", private=True, judgment=True)


def texts_hold_no_secret(values: Mapping[str, SpecValue]) -> Iterator[Diagnostic]:
    """JC4515, of every other text of a job and of its backend: spec.yaml has them all, the engine's files most.

    values: by spec key, as Typed has them
    """
    for key, leaf in values.items():
        if key.startswith(_OWN_RULE):
            continue
        if name := next(filter(None, map(_held, _texts(leaf.value))), ""):
            because = "spec.yaml and the files of the engine would hold it in clear, for all who can read the run"
            hint = f"secrets.{name}=env:{name} (for pods k8s:SECRET/KEY), and ${name} where a shell reads the text"
            title = f"{key} holds what looks like a secret"
            yield Diagnostic("JC4515", title, because, hint, key=key, private=True, judgment=True)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, (list, Mapping)):
        for inner in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(inner)


def _held(text: str) -> str:
    """The variable that a text gives a secret; TOKEN for one without a variable; "" where there is no secret."""
    given = [found for found in _GIVEN.finditer(text) if _NAME.search(found[1]) or _TOKEN.match(text, found.end())]
    return given[0][1] if given else "TOKEN" * looks_like_token(text)


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
