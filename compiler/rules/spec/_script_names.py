"""Find names that a job's environment variables must not have, because the artifact's scripts or bash use them.

In:  the scripts themselves, so that no name is missed. They use lower case for their own variables and upper case for
     environment variables.
Out: the set of their names, and a function that returns whether bash uses a variable of a given name.
Source: the section "Bash Variables" in the manual of bash 5.2, and the observed effect of `export NAME=x`.
"""

import re
from collections.abc import Iterator
from functools import cache

from ...plugins.registry import PACKAGE

_READONLY = {"BASHOPTS", "BASH_VERSINFO", "EUID", "PPID", "SHELLOPTS", "UID"}  # `export` fails, and so does launch.sh
_SET_BY_BASH = {
    "BASHPID", "BASH_ALIASES", "BASH_ARGC", "BASH_ARGV", "BASH_CMDS", "BASH_COMMAND", "BASH_LINENO", "BASH_REMATCH",
    "BASH_SOURCE", "DIRSTACK", "EPOCHREALTIME", "EPOCHSECONDS", "FUNCNAME", "GROUPS", "HISTCMD", "IFS", "LINENO",
    "OLDPWD", "PIPESTATUS", "PWD", "RANDOM", "SECONDS", "SHLVL", "SRANDOM", "_",
}  # fmt: skip
_OBEYED = {"EXECIGNORE", "FUNCNEST"}  # change bash 5.2's behavior: with FUNCNEST=1 or EXECIGNORE=*, no job starts

_READ = re.compile(r"\$\{?[#!]?([a-z_]\w*)")
_SET = re.compile(  # at the start of a command
    r"""(?:^|;|\b(?:then|else|do|export|local)|&&|\|\||[({])[ ]*([a-z_]\w*)(?:\[[^]\n]*\])?\+?=
    | (?:^|;|\bdo)[ ]*for[ ](?:\(\()?([a-z_]\w*)
    | \b(?:read|mapfile)(?:[ ]-\w+)*[ ]([a-z_]\w*)
    | \{([a-z_]\w*)\}[<>]""",
    re.MULTILINE | re.VERBOSE,
)
_TALK = re.compile(r"^ *#.*|\{%.*?%\}|\{#.*?#\}|\{\{.*?\}\}", re.MULTILINE)  # comments, and Jinja syntax


def is_bash_variable(name: str) -> bool:
    """Return whether bash sets the variable, makes it read-only, or behaves differently with it."""
    return name in _READONLY | _SET_BY_BASH | _OBEYED


@cache
def script_variables() -> frozenset[str]:
    """Return the variables of all scripts and their functions."""
    folders = [PACKAGE / "compiler/templates", *sorted((PACKAGE / "backends").glob("*/templates"))]
    templates = (file.read_text(encoding="utf-8") for folder in folders for file in sorted(folder.rglob("*.j2")))
    return frozenset(name for text in templates for name in _variable_names(_TALK.sub("", text)))


def _variable_names(text: str) -> Iterator[str]:
    yield from _READ.findall(text)
    yield from (next(filter(None, groups)) for groups in _SET.findall(text))
