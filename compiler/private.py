"""What looks like a password or a token, which is not for the files of an artifact: whoever sees the run may read them.

Whoever has one refers to it: secrets.NAME=env:NAME, file:PATH or k8s:SECRET/KEY. Messages do not repeat what was typed.
"""

from __future__ import annotations

import re

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
# NAME=value, of a shell or of `docker run -e`
_GIVEN = re.compile(r"(?<![\w$])([A-Za-z_]\w*)=[\"']?(?=[^\s\"'`$<{();&|])")


def looks_like_token(text: str) -> bool:
    """Whether it holds what looks like a token of a known issuer."""
    return bool(_TOKEN.search(text))


def names_secret(name: str) -> bool:
    """A variable that holds a password or a token, by its name."""
    return bool(_NAME.search(name))


def secret_in(text: str) -> str:
    """The variable that a text gives a secret; TOKEN for one without a variable; "" where there is no secret."""
    given = [found for found in _GIVEN.finditer(text) if _NAME.search(found[1]) or _TOKEN.match(text, found.end())]
    return given[0][1] if given else "TOKEN" * looks_like_token(text)
