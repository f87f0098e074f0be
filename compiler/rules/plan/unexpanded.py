"""Text such as `$SCRATCH/runs` or `~/runs` where no shell expands it: JC3002."""

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, get_args

from ...diagnostics.diagnostic import Diagnostic, Severity
from ...frontend.overrides import format_command_override
from ...plan import derive
from ...plan.launch_plan import LaunchPlan
from ...spec.job_spec import JobSpec
from ...spec.type_hints import dataclass_field_types
from ...spec.value_types import MountTarget, Path
from ._programs import SEARCHED
from ._shell import is_command_in_one_word, quote_for_bash, shell_c_text

_SECTIONS = ("code", "python", "container", "mounts", "storage", "caches")  # estimate.run is read here, not on a node
_FOUND_IN_PATH = re.compile(r"(?<!\\)(\$\{\w+\}|\$[A-Za-z_]\w*|\$\([a-z][^()]*\))|(`[a-z][^`]*`)|^(~[\w.-]*)(?:/|$)")
# $USER, ${SCRATCH} or $(hostname), or any name at the start of a path; not $5, $$, \$USER, $Name, $N$, ${oc.env:USER}
_FOUND_IN_TEXT = re.compile(
    r"(?<![\\$])(\$\{[A-Z][A-Z\d_]+\}|\$(?!(?:LIB|ORIGIN|PLATFORM)\b)[A-Z][A-Z\d_]+(?![\w$])|\$\([a-z][^()]*\))"
    r"|(?:^|[=:,])(\$\{\w+\}|\$(?!(?:LIB|ORIGIN|PLATFORM)\b)\w+)/"
)
_OVERRIDE_REFERENCE = re.compile(r"\$\{env\.(\w+)\}")  # no shell accepts a dot in a name
_HOME = re.compile(r"(?:^|(?<=[=:]))(~/)")
_OLD_COMMAND = re.compile(r"`([a-z][^`]*)`")
_OLD_WORD = re.compile(r"^[^\s`]*(`[a-z][^`]*`)(?:[^\s`]|`[^`]*`)*$")  # next to other words, it is text about code
_EXPANDED = re.compile(r"PS\d|PROMPT_COMMAND|BASH_ENV|ENV")  # bash 5.2 expands these itself when it reads them


def check_unexpanded_path(spec: JobSpec, plan: LaunchPlan) -> Iterator[Diagnostic]:
    """JC3002: `$SCRATCH/runs` or `~/runs` as one of the job's folders. Scripts quote it, so it is not expanded.

    Exceptions: the folders of `caches` may contain `$UID` and `~/` (cache_folder in runtime/node/node_environment.py),
    and SkyPilot's node disks are below `~/` (storage.root with storage.run=node, storage.scratch).
    """
    for key, path in [entry for name in _SECTIONS for entry in _find_paths(getattr(spec, name), name)]:
        match = _FOUND_IN_PATH.search(_strip_node_expansions(spec, key, path))
        if text := next(filter(None, match.groups()), "") if match else "":
            text += "/" * text.startswith("~")
            title = f"{key} contains {text}, which is not expanded"
            because = f"the scripts quote the path, so it would contain {text} literally"
            hint = "an absolute path"
            if key == "storage.root" and spec.storage.run != "object":
                hint += "; or set JOBC_RUN_ROOT in the shell that calls jobctl submit, which expands it"
            yield _unexpanded_diagnostic(title, because, hint, key)


def _find_paths(value: Any, key: str) -> Iterator[tuple[str, str]]:
    """Yield each value of a path type and the source of each host mount, with its key."""
    if isinstance(value, tuple):
        for i, item in enumerate(value):
            yield from _find_paths(item, f"{key}.{i}")
    elif is_dataclass(value):
        cls: type = type(value)
        types = dataclass_field_types(cls)
        for field in fields(value):
            hint = types[field.name.rstrip("_")]
            text, options = getattr(value, field.name), (hint, *get_args(hint))
            is_path = Path in options or MountTarget in options
            if isinstance(text, str) and (is_path or (field.name == "source" and getattr(value, "kind", "") == "host")):
                yield f"{key}.{field.name}", text


def _strip_node_expansions(spec: JobSpec, key: str, path: str) -> str:
    """Return the path without those parts that a script expands on purpose."""
    if key.startswith("caches."):
        path = path.replace("$UID", "")
    is_of_node = key == "storage.scratch" or (key == "storage.root" and spec.storage.run != "shared")
    return path.removeprefix("~/") if key.startswith("caches.") or is_of_node else path


def check_unexpanded_variable(spec: JobSpec, plan: LaunchPlan) -> Iterator[Diagnostic]:
    """JC3002: text such as `$SCRATCH/data` or `~/data` that no shell expands, so that the ranks get it literally, and
    `${env.NAME}` after ` -- `, which jobc replaces only in overrides and files.
    """
    for name, value in spec.env.items():
        if (expression := _find_unexpanded(value)) and not _EXPANDED.fullmatch(name):
            because = f"the scripts quote env, so the ranks get {expression} literally"
            hint = f"set env.{name} to the expanded value"
            if not plan.uses_trainer:
                in_shell = _wrap_in_shell(f"export {name}={_quote_for_expansion(value)}; ", derive.rank_command(spec))
                hint += f"; or expand it on the node: ~env.{name} {in_shell}"
            yield _unexpanded_diagnostic(
                f"env.{name} contains {expression}, which is not expanded", because, hint, f"env.{name}"
            )
    command = spec.command or ()
    if is_command_in_one_word(command) or any(
        shell_c_text(command[start:SEARCHED]) for start in range(min(SEARCHED, len(command)))
    ):
        return  # JC3010 then suggests a shell
    for word in command:
        if (key := _OVERRIDE_REFERENCE.search(word)) and key[1] in spec.env:
            title = f"the command contains {key[0]}, which is not replaced by the variable's value"
            because = "jobc replaces ${…} in overrides and config files, not in the arguments after --"
            hint = f"{shlex.quote(format_command_override(command))}, without the words after --"
            yield _unexpanded_diagnostic(title, because, hint, "command")
            return
        if expression := _find_unexpanded(word):
            because = "the arguments after -- reach the program unchanged; no shell on the node expands them"
            hint = _wrap_in_shell("", derive.rank_command(spec))
            yield _unexpanded_diagnostic(
                f"the command contains {expression}, which is not expanded", because, hint, "command"
            )
            return


def _find_unexpanded(text: str) -> str:
    """Return the first unexpanded text as typed, or "" if there is none."""
    match = next(filter(None, (pattern.search(text) for pattern in (_FOUND_IN_TEXT, _HOME, _OLD_WORD))), None)
    return next(filter(None, match.groups()), "") if match else ""


def _wrap_in_shell(first: str, command: Sequence[str]) -> str:
    """Return command-line words that run the command in a shell, which expands the text. first: shell text before it"""
    return f"-- {quote_for_bash(['bash', '-c', f'{first}exec ' + ' '.join(map(_quote_for_expansion, command))])}"


def _quote_for_expansion(word: str) -> str:
    """Return a word quoted so that a shell expands only the intended parts and does not split the word."""
    if not _find_unexpanded(word):
        return shlex.quote(word)
    expanded = _HOME.sub("$HOME/", _OLD_COMMAND.sub(r"$(\1)", word) if _OLD_WORD.search(word) else word)
    return '"' + re.sub(r'(["\\`])', r"\\\1", expanded) + '"'


def _unexpanded_diagnostic(title: str, because: str, hint: str, key: str) -> Diagnostic:
    return Diagnostic("JC3002", title, because, hint, key=key, severity=Severity.WARNING)
