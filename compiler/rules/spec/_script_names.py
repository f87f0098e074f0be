"""Find names that a job's environment variables must not have, because the artifact's scripts or bash use them.

In:  the scripts themselves, so that no name is missed. They use lower case for their own variables and upper case for
     environment variables.
Out: two sets of names, and a function that returns whether bash uses a variable of a given name.
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
_FUNCTION = re.compile(r"^(\w+)\(\) [{(]\n.*?^[})]", re.MULTILINE | re.DOTALL)
_LOCAL = re.compile(r"^ *local (.*)", re.MULTILINE)


def is_bash_variable(name: str) -> bool:
    """Return whether bash sets the variable, makes it read-only, or behaves differently with it."""
    return name in _READONLY | _SET_BY_BASH | _OBEYED


@cache
def node_script_variables() -> frozenset[str]:
    """Return the variables of launch.sh, without those that are local to functions."""
    return frozenset(_global_variables((PACKAGE / "compiler/templates/launch.sh.j2").read_text(encoding="utf-8")))


@cache
def script_variables() -> frozenset[str]:
    """Return the variables of all scripts and their functions, because many functions read secrets by name."""
    folders = [PACKAGE / "compiler/templates", *sorted((PACKAGE / "backends").glob("*/templates"))]
    templates = (file.read_text(encoding="utf-8") for folder in folders for file in sorted(folder.rglob("*.j2")))
    return frozenset(name for text in templates for name in _variable_names(text))


def _global_variables(text: str) -> Iterator[str]:
    """Return the variables that are set outside functions, and those that functions set without declaring them."""
    for function in _FUNCTION.finditer(text):
        local_names = {name for line in _LOCAL.findall(function[0]) for name in re.findall(r"(?:^|\s)(\w+)", line)}
        yield from (name for name in _assigned_names(function[0]) if name not in local_names)
    yield from _variable_names(_FUNCTION.sub("", text))


def _variable_names(text: str) -> Iterator[str]:
    yield from _READ.findall(_TALK.sub("", text))
    yield from _assigned_names(text)


def _assigned_names(text: str) -> Iterator[str]:
    return (next(filter(None, groups)) for groups in _SET.findall(_TALK.sub("", text)))
