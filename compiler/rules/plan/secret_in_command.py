"""JC3003: a password or token among the words of the command, or in a label: all users of a node can read it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...diagnostics import Diagnostic
from ...plan import LaunchPlan
from ...private import is_no_secret, looks_like_token, secret_in
from ...spec import JobSpec
from ._shell import shell_text

_FLAG = re.compile(
    r"--?[\w-]*?(password|passwd|api[-_]?key|secret[-_]?key|access[-_]?token|auth[-_]?token|hf[-_]?token)(=(.+))?", re.I
)
# Less plain names: a long random value tells. A key of a cache or a public one is none, however random.
_MAY_BE_FLAG = re.compile(r"--?(?![\w-]*(?:cache|hash|public))[\w-]*(key|token|secret)(=(.+))?", re.I)
_SWITCH = re.compile(r"--?(no|use|with|without|enable|disable|skip|require|need|has|is|ask|prompt|reset)[-_].*", re.I)
_RANDOM = re.compile(
    r"(?=(?:\D*\d){3})((?=.*[a-f])[0-9a-f]{32,}|(?=.*[a-z])(?=.*[A-Z])[A-Za-z0-9+/]{32,}=*)"  # hexadecimal, base64
)


def check(spec: JobSpec, plan: LaunchPlan) -> Iterator[Diagnostic]:
    in_shell = re.sub("[\"']", "", shell_text(spec.command)).split()
    words = (*(spec.command or ()), *in_shell)
    shown = next(filter(None, map(_what, words, (*words[1:], ""))), "")
    if shown:
        because = "`ps` shows the words of a command to all users of the node, and node.sh holds them in clear"
        hint = "secrets.NAME=env:NAME, and let the program read it from its environment"
        yield Diagnostic(
            "JC3003", f"the command holds {shown}", because, hint, key="command", private=True, judgment=True
        )
    for name, value in spec.labels.items():
        if looks_like_token(value):
            because = "labels are shown to everybody who may list jobs"
            hint = f"~labels.{name}; a secret is secrets.NAME=env:NAME"
            title, key = f"labels.{name} looks like a secret", f"labels.{name}"
            yield Diagnostic("JC3003", title, because, hint, key=key, private=True, judgment=True)


def _what(word: str, following: str) -> str:
    """What a word of the command gives away, in words that do not repeat it."""
    if found := _FLAG.fullmatch(word) or _MAY_BE_FLAG.fullmatch(word):
        value = found[3] or ("" if found[2] or following.startswith("-") else following)
        is_plain = found.re is _FLAG and not _SWITCH.fullmatch(word) and not is_no_secret(value.rstrip(";&|)"))
        if value and not value.startswith("$") and (is_plain or _RANDOM.fullmatch(value)):
            return f"a value for {word.partition('=')[0]}"
    name = secret_in(word)
    return "what looks like a token" if name == "TOKEN" else name and f"a value for {name}"
