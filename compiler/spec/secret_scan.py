"""Detect passwords and tokens. An artifact must not contain them, because everyone with access to the run can read it.

A job must refer to a secret instead: secrets.NAME=env:NAME, file:PATH or k8s:SECRET/KEY. Messages do not repeat the
value.

A value counts as a secret if it contains a token in a known issuer's format, if its name can only mean a secret, or if
its name may mean a secret and the value is long and random. The names that count depend on the context:

    context                                   no other meaning       another meaning
    env.NAME                                  _OF_VARIABLE           _OTHER
    NAME=value, in shell text                 _OF_VARIABLE, as NAME  _OTHER, and _OF_VARIABLE in lower case
    --name value, --a.name=value, +a.name=v   _OF_PROGRAM            _OTHER
    wandb login value                         all
"""

import re
from collections.abc import Sequence
from functools import cache

from ..diagnostics.diagnostic import nearest

# Common names of variables that can only contain secrets, and formats of tokens (GitHub, GitLab, Hugging Face, AWS and
# others document their prefixes for scanners). Tokens are longer than the words in a path or a package name:
# `hf_transfer` and `sk-learn-tools` are not tokens, and `$` starts a variable's name.
_OF_VARIABLE = re.compile(
    r"(^|_)(PASSWORD|PASSWD|SECRET|SECRET_KEY|API_KEY|ACCESS_KEY|SECRET_ACCESS_KEY|PRIVATE_KEY)$"
    r"|(^|_)(HF|HUB|GH|GITHUB|GITLAB|GIT|AUTH|ACCESS|SESSION|BEARER|API|WANDB|NGC)_TOKEN$"
)
_TOKEN = re.compile(
    r"(?<![\w.+-])("  # at the start of a word
    r"[a-z][a-z0-9+.-]*://[^/\s:@]*:(?![${<%])[^/\s@\"']+@|"  # a URL with a password
    r"(hf_|gh[oprsu]_)[A-Za-z0-9]{16,}(?!\w)|(github_pat_|glpat-|nvapi-)[\w-]{16,}|"
    r"sk-(?=[\w-]*[0-9])[\w-]{20,}|xox[bp]-[0-9][\w-]{12,}|(AKIA|ASIA)[A-Z0-9]{16}(?!\w)|"
    r"eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.|"  # a JSON Web Token
    r"(?i:authorization: *basic +[a-z0-9+/]{8,}|"  # in an HTTP header
    r"((authorization|(x-)?(api-key|auth-token)|private-token): *(token +)?|bearer +)"
    r"(?=[a-z._~+/-]*\d)\w[\w.~+/-]{15,})"
    r")|-----BEGIN [A-Z ]*PRIVATE KEY"
)
# Values that are not secrets: a boolean, a word for "none", or a location. Servers with OpenAI's interface
# (vLLM, llama.cpp) require a key and accept any; their manuals use EMPTY and sk-no-key-required.
_NO_SECRET = re.compile(
    r"true|false|yes|no|on|off|auto|[01]|none|null|nil|n/?a|empty|dummy|fake|unused|not[-_]needed|(sk-)?no-key-required"
    r"|(?P<one>.)(?P=one)*|<.*|(env|file|k8s):.*|@?(~|\.{1,2})?/[\w.-]+/.*|@?(~|\.{1,2})/.+",
    re.I,
)
# The last part of an option's name. A cache key or a public key is not a secret, even if it is random.
_OF_PROGRAM = re.compile(
    r"(password|passwd|api[-_]?key|secret[-_]?(access[-_]?)?key|(access|auth|hf)[-_]?token)$", re.I
)
_OTHER = re.compile(r"^(?!.*(cache|hash|public)).*(key|token|secret)$", re.I)
_SWITCH = re.compile(r"(no|use|with|without|enable|disable|skip|require|need|has|is|ask|prompt|reset)[-_]", re.I)
_RANDOM = re.compile(
    r"(?=(?:\D*\d){3})((?=.*[a-f])[0-9a-f]{32,}|(?=.*[a-z])(?=.*[A-Z])[A-Za-z0-9+/]{32,}=*)"  # hexadecimal, base64
)
_VALUE = r"[^\s\"'`$<{();&|][^\s\"';&|)]*"
_GIVEN = re.compile(rf"(?<![\w$])([A-Za-z_]\w*)=[\"']?({_VALUE})")  # in a shell, or in `docker run -e`
_OPTION = re.compile(r"--?([\w.-]+)(?:=(.+))?")
_OF_HYDRA = re.compile(rf"(?!.*[,()[\]])[+~]{{0,2}}([\w./@-]+)=[\"']?({_VALUE})[\"']?[;&|]*")  # not Python code
_LOGIN = re.compile(
    r"\bwandb\s+login(?:\s+--?[\w-]+(?:[=\s]\s*https?://\S+)?)*\s+[\"']?(?=(?:[a-zA-Z_-]*\d){3})[\w-]{32,}(?![\w/.])"
)

_REFERENCES = re.compile(  # valid values of `secrets`: a reference, or a mapping or a sweep of them
    r"""(?:[\s,{}"']|null|(?:\w+\s*:\s*)?(?:env:[A-Za-z_]\w*|(?:file|k8s):[^\s,{}"']+))*"""
)


def redact_override(override: str) -> str:
    """Return an override in a form that is safe for messages and logs. It is `secrets.NAME=…` if the override sets
    `secrets`, or a section with a similar name, to anything but references.
    """
    head, equals, value = override.partition("=")
    section = re.split(r"[^\w-]", head.lstrip("+~"))[0]
    is_safe = not equals or not _resembles_secrets(section) or _REFERENCES.fullmatch(value)
    return override if is_safe else f"{head}=…"


@cache
def _resembles_secrets(section: str) -> bool:
    return bool(nearest(section, ["secrets"]))


def looks_like_token(text: str) -> bool:
    return bool(_TOKEN.search(text))


def is_secret_name(name: str) -> bool:
    return bool(_OF_VARIABLE.search(name.upper()))


def is_never_secret(value: str) -> bool:
    """Return whether a value cannot be a secret, whatever its name: `True`, `EMPTY`, `/run/token`."""
    return bool(_NO_SECRET.fullmatch(value))


def is_secret_assignment(name: str, value: str) -> bool:
    return bool(value) and _is_secret(value, is_secret_name(name), name)


def find_secret_in_text(text: str) -> str:
    """Return the variable to which the text assigns a secret, TOKEN for a token without a name, or ""."""
    for name, value in _GIVEN.findall(text):
        if _is_secret(value, is_secret_name(name) and name.isupper(), name) or _TOKEN.match(value):
            return str(name)
    return "WANDB_API_KEY" if _LOGIN.search(text) else "TOKEN" * looks_like_token(text)


def describe_secret_in_command(words: Sequence[str]) -> str:
    """Describe the secret found in a command's words without revealing it, or "" if there is none."""
    return next(filter(None, map(_revealed_secret, words, (*words[1:], ""))), "")


def _revealed_secret(word: str, following: str) -> str:
    if match := _OPTION.fullmatch(word) or _OF_HYDRA.fullmatch(word):
        value = match[2] or ("" if following.startswith("-") else following)
        name = re.split(r"[./@]", match[1])[-1]
        is_plain = bool(_OF_PROGRAM.search(name)) and not _SWITCH.match(name)
        if value and not value.startswith("$") and _is_secret(value.rstrip(";&|)"), is_plain, name):
            return f"a value for {word.partition('=')[0].lstrip('+~')}"
    name = find_secret_in_text(word)
    return "what looks like a token" if name == "TOKEN" else name and f"a value for {name}"


def _is_secret(value: str, has_no_other_meaning: bool, name: str) -> bool:
    return not is_never_secret(value) and (
        has_no_other_meaning or bool(_OTHER.search(name) and _RANDOM.fullmatch(value))
    )
