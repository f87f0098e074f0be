"""Turn the exceptions of hydra-core 1.3 into diagnostics that name the override or file to blame, with a correction."""

import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from hydra.core.object_type import ObjectType
from hydra.errors import MissingConfigException

from ...runtime.system.frozen_dataclass import dataclass
from ..diagnostics.diagnostic import Diagnostic, join_with_or, nearest
from ..diagnostics.origin import Origin
from ..spec import aliases
from ..spec.examples import example_value, list_of_texts, override_for_shell
from ..spec.job_spec import JobSpec
from ..spec.type_hints import type_of_key, union_members
from .interpolation import MachineDependentError
from .overrides import Override
from .unknown_key import unknown_key_diagnostic
from .yaml_source import groups_in_defaults_list, read_files

_TWICE = re.compile(r"(?:^|for )(\S+?)(?: appears more than once|\. To override)")

_BELOW_LIST = re.compile(
    r"invalid literal for int\(\) with base 10: '(.*)'|Index '(.*)' \(str\) is not an int", re.DOTALL
)


def hydra_key_diagnostic(override: Override) -> Diagnostic:
    because = "jobc only composes with Hydra and does not start a Hydra job, so this setting has no effect"
    hint = "--out DIR sets where artifacts go, --config-dir DIR where config files are"
    title = f"{override.key} is a setting of Hydra itself"
    return Diagnostic("JC1102", title, because, hint, override.origin.position_of_key(override.key), override.key)


def group_and_overrides_with_other_prefix(
    error: Exception, overrides: Sequence[Override], loader: Any
) -> tuple[str, list[Override]] | None:
    """If Hydra rejects a group because of its prefix, return the group, and the overrides with the other prefix.
    Otherwise return None.

    Hydra requires `+group=option` for a group without a default and `group=option` for a group with one. Users do not
    need to know which kind of group they set.
    """
    alone = re.search(r"Could not override '([^']+)'\.\s*No match in the defaults list", str(error))
    twice = _TWICE.search(str(error))
    group = (alone or twice or [""] * 2)[1]
    old, new = ("", "+") if alone else ("+", "")
    candidates = [
        o for o in overrides if o.operator == old and group == (f"{o.key}@{o.package}" if o.package else o.key)
    ]
    if not candidates or not loader.get_group_options(candidates[-1].key) or (twice and len(candidates) > 1):
        return None
    chosen = replace(candidates[-1], operator=new, canonical=f"{new}{candidates[-1].canonical.removeprefix(old)}")
    return group, [
        chosen if o is candidates[-1] else o for o in overrides if o is candidates[-1] or o not in candidates
    ]


def diagnose_hydra_error(
    error: Exception, overrides: Sequence[Override], loader: Any, config_name: str, known: Callable[[], list[str]]
) -> tuple[Diagnostic, Override | None]:
    """Return the diagnostic for Hydra's exception, and the override to blame (None if a file is to blame).

    known: returns all keys.
    """
    if read := _diagnose_machine_read(error, overrides, loader):
        return read
    message = str(error) + (f"\n{error.__cause__}" if error.__cause__ else "")
    if isinstance(error, MissingConfigException):
        return _missing_config_diagnostic(error, overrides, loader, config_name)
    if isinstance(error, (ValueError, TypeError)):
        return _diagnose_null_group(error, overrides, loader, known())
    twice = _TWICE.search(message)
    if twice and (added := [o for o in overrides if o.operator == "+" and o.key == twice[1]]):
        options = ",".join(o.redacted_text.partition("=")[2].strip("[]") for o in added)
        because, hint = "add all options of a group with a single +", f"+{twice[1]}=[{options}]"
        title, last = f"cannot compose: {twice[1]} is added {len(added)} times", added[-1]
        return Diagnostic("JC1105", title, because, hint, last.origin, last.key), None
    if fault := _defaults_list_error(message, loader):
        return fault, None
    if isinstance(error, RecursionError):
        because = "a defaults list includes its own file, or the values are nested too deeply"
        hint = "remove the cycle from the defaults lists"
        return Diagnostic("JC1105", "cannot compose: the config includes itself", because, hint), None
    quoted = re.search(
        r"(?:override|delete from config\.|already at|merging override) '?([^'\s]+?)(?:'|\.?\s|\.?$)", message
    )
    blamed = quoted[1] if quoted else ""
    below = re.search(r"full_key: (\S+)", message)
    blame_tests: Sequence[Callable[[Override], bool]] = (  # the most reliable first
        lambda o: o.key in (blamed, below[1] if below else ""),
        lambda o: f"'{o.key}'" in message,
        lambda o: bool(blamed) and o.canonical.startswith(blamed),
        lambda o: o.canonical in message,
    )
    culprit = next((o for test in blame_tests for o in overrides if test(o)), None)
    origin = culprit.origin if culprit else None
    key = culprit.key if culprit else ""
    first_line = message.split("\n", 1)[0]
    if "already at" in message and culprit:
        hint = culprit.redacted_text.lstrip("+")
        return Diagnostic("JC1104", f"{key} already exists", "+ only adds new keys", hint, origin, key), culprit
    if culprit and ("Could not override" in message or "does not exist" in message):
        return unknown_key_diagnostic(message, culprit, loader, known()), culprit
    if culprit and "force-add" in message:
        title = f"cannot compose: {key} is a group, and options of groups are set without ++"
        hint = culprit.redacted_text.lstrip("+")
        return Diagnostic("JC1105", title, "++ only works for keys", hint, origin, key), culprit
    if culprit and "Cannot merge DictConfig with ListConfig" in message:
        title, because = f"cannot compose: {key} is a list", "a mapping was given"
        key_type = type_of_key(JobSpec, key)
        hint = list_of_texts(key)
        if key_type:
            hint = override_for_shell(key, example_value(union_members(key_type), "TEXT"))
        if culprit.canonical.partition("=")[2].startswith("["):
            title, because = f"cannot compose: {key} is a mapping", "a list was given"
            hint = f"{key}.NAME=VALUE for each entry"
        return Diagnostic("JC1105", title, because, hint, origin, key), culprit
    hint = "jobc --cfg job prints the config to which the override applies"
    because = next((line.strip() for line in message.split("\n")[1:] if line.strip()), "Hydra rejects it")
    return Diagnostic("JC1105", f"cannot compose: {first_line}", because, hint, origin, key), culprit


def _diagnose_machine_read(
    error: Exception, overrides: Sequence[Override], loader: Any
) -> tuple[Diagnostic, Override | None] | None:
    """Return JC1107 for a defaults list or group choice whose interpolation would read the compiling machine."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, MachineDependentError):
        cause = cause.__cause__ or cause.__context__
    if cause is None:
        return None
    culprit = next((o for o in overrides if "${" in o.canonical and loader.get_group_options(o.key)), None)
    because = "the same overrides would choose other files on another machine"
    hint = f"{culprit.key}=OPTION" if culprit else "add the option's name to the defaults list"
    origin, key = (culprit.origin, culprit.key) if culprit else (None, "")
    return Diagnostic("JC1107", str(cause).split("\n", 1)[0], because, hint, origin, key), culprit


def _diagnose_null_group(
    error: ValueError | TypeError, overrides: Sequence[Override], loader: Any, known_keys: list[str]
) -> tuple[Diagnostic, Override | None]:
    """Return JC1109 for group=null, or JC1102 for a key below a list: Hydra 1.3 raises ValueError for both."""
    if (word := _BELOW_LIST.search(str(error))) and (
        below := next((o for o in overrides if (word[1] or word[2]) in o.key.split(".")[1:]), None)
    ):
        of_list = below.key.partition(f".{word[1] or word[2]}")[0]
        title, hint = f"unknown key or group {below.key}", f"{of_list}=[…] sets the whole list; [] empties it"
        because = f"{of_list} is a list, and its items have no names"
        return Diagnostic("JC1102", title, because, hint, below.origin.position_of_key(below.key), below.key), below
    culprit = next((o for o in overrides if o.canonical.endswith("=null") and loader.get_group_options(o.key)), None)
    if culprit is None:
        raise error
    key, options = culprit.key, loader.get_group_options(culprit.key)
    because = f"group {key} has: {', '.join(sorted(options))}"
    hint = f"{key}={options[0]}" if key in known_keys else f"~{key}"
    return Diagnostic("JC1109", f"group {key} cannot be null", because, hint, culprit.origin, key), culprit


@dataclass(frozen=True)
class _DefaultsListItem:
    """An item of a defaults list.

    origin: position of its group.
    overrides: whether it starts with `override`.
    """

    origin: Origin
    option: str
    overrides: bool


def _items_of_group(group: str) -> Iterator[_DefaultsListItem]:
    """Yield the items that choose an option of the group, found in the text, because Hydra records no positions."""
    line_of = re.compile(
        r"[^#]*?(?:-\s+|[\[{,]\s*)['\"]?(?:(override|optional)\s+)?/?"
        rf"({re.escape(group)})(?:@[\w.]+)?['\"]?\s*:\s*['\"\[]?([^\s'\",\]}}#]+)"
    )
    for source, text in read_files.items():
        root, _, path = source.rpartition(":")
        for number, line in enumerate(text.split("\n"), 1):
            if match := line_of.match(line):
                yield _DefaultsListItem(
                    Origin(root, path, number, match.start(2) + 1), match[3], match[1] == "override"
                )


def _corrected_item(group: str, option: str, loader: Any) -> str:
    """Return a corrected item for a defaults list, which chooses an option of the group.

    Return "" if the group does not exist.
    option: the option as written. The result has the closest existing one.
    """
    options = loader.get_group_options(group)
    if not group or not options:
        return ""
    chosen = (_similar_options(options, option) or ["OPTION"])[0]
    return f"- {'override ' if group in groups_in_defaults_list() else ''}/{group}: {chosen}"


def _similar_options(options: Sequence[str], option: str) -> list[str]:
    """Return the option itself if it exists, or else similar ones, such as `deepspeed` for deepspeed/zero2."""
    return [part for part in (option, *option.split("/")) if part in options] or nearest(option, options)


def _defaults_list_error(message: str, loader: Any) -> Diagnostic | None:
    """Return JC1105 for an error in a file's defaults list, or None if the message is about another error."""
    if file := re.search(r"In '([^']+)': ConfigTypeError raised", message):
        because = "one file has a list where another file has a mapping"
        hint = "jobc --cfg job prints the values of the other files"
        return Diagnostic(
            "JC1105", f"cannot compose: {file[1]}.yaml does not merge with the other files", because, hint
        )
    if twice := _TWICE.search(message):
        group = twice[1].split("@")[0]
        chosen = [c for c in _items_of_group(group) if c.origin.is_user_file and not c.overrides]
        close = _similar_options(loader.get_group_options(group), chosen[-1].option) if chosen else []
        hint = f"- override /{twice[1]}: {(close or ['OPTION'])[0]}"
        because = (
            "config.yaml already chooses an option, so a second choice must be an `override`"
            if group in groups_in_defaults_list()
            else "only one option can be active"
        )
        title, position = f"cannot compose: two files choose {twice[1]}", chosen[-1].origin if chosen else None
        return Diagnostic("JC1105", title, because, hint, position)
    if lost := re.search(r"In '([^']+)': Could not override '([^']+)'", message):
        return _unmatched_override_diagnostic(lost[1], lost[2].split("@")[0], loader)
    return None


def _unmatched_override_diagnostic(file: str, group: str, loader: Any) -> Diagnostic:
    """Return JC1105 for an item with `override` whose group no file chooses.

    group: as in Hydra's message, where the file's folder precedes a group without a leading /.
    """
    beside = group.removeprefix(f"{file.rpartition('/')[0]}/")
    items = [c for c in _items_of_group(beside) if c.overrides and f"/{c.origin.path}".endswith(f"/{file}.yaml")]
    close = [name for name in nearest(beside, loader.list_groups("")) if name != beside]
    because = "no earlier file chooses that group"
    if beside != group and (item := _corrected_item(beside, items[0].option if items else "", loader)):
        because, hint = "a group without a leading / is relative to the file", item
    else:
        hint = f"did you mean override /{close[0]}?" if close else f"- /{beside}: OPTION, without override"
    position = items[0].origin if items else None
    return Diagnostic("JC1105", f"cannot compose: {file}.yaml overrides {group}", because, hint, position)


def _missing_config_diagnostic(
    error: MissingConfigException, overrides: Sequence[Override], loader: Any, config_name: str
) -> tuple[Diagnostic, Override | None]:
    group, option = _missing_group_and_option(error, overrides, loader)
    if not group:
        names = [n for n in loader.get_group_options("", ObjectType.CONFIG) if not n.startswith("_")]
        close = nearest(option, names)
        hint = f"did you mean --config-name {close[0]}?" if close else f"known configs: {', '.join(names)}"
        return Diagnostic(
            "JC1108", f"no config named {option or config_name}", "no config folder contains this file", hint
        ), None
    options = list(error.options or loader.get_group_options(group))
    parent = re.search(r"In '([^']+)'", str(error))
    if not options and parent and (fault := _misplaced_group_diagnostic(parent[1], f"{group}/{option}", loader)):
        return fault, None
    culprit = next((o for o in overrides if o.key == group and option in o.canonical), None)
    meant = aliases.value_from_alias(group, option)
    close = [meant] if meant.partition(" ")[0] in options else _similar_options(options, option)
    close = close or (options if len(options) == 1 else [])
    plus = "+" if culprit and culprit.redacted_text.startswith("+") else ""
    if culprit is None:
        hint = _corrected_item(group, option, loader) or f"remove {group}"
    elif lacks := aliases.hint_for_unsupported_feature(option):
        hint = f"remove {culprit.redacted_text}; {lacks}"
    elif group == "python" and re.search(r"^[.~]|/", option):
        hint = _environment_hint(option)
    elif "," in option:
        hint = f"for a sweep: jobc -m {group}={option}"
    elif close:
        hint = f"{plus}{group}={close[0]}"
    else:
        hint = join_with_or([f"{plus}{group}={name}" for name in sorted(options)[:3]] or [f"remove {group}"])
    position = (
        culprit.origin if culprit else next((c.origin for c in _items_of_group(group) if c.option == option), None)
    )
    because = f"group {group} has: {', '.join(sorted(options)) or 'no options'}"
    if position is None and parent:
        because = f"{parent[1]}.yaml selects this option; {because}"
    return Diagnostic("JC1109", f"no option {option!r} in group {group}", because, hint, position, group), culprit


def _environment_hint(path: str) -> str:
    """Return the overrides for a Python interpreter or environment that was given as python=PATH."""
    if re.match(r"/usr/(local/)?bin/", path):
        return f"python.interpreter={shlex.quote(path)}"
    folder = re.sub(r"/bin(/(python[\d.]*|activate))?/?$", "", path)
    return f"python=venv python.path={shlex.quote(folder)}"


def _missing_group_and_option(
    error: MissingConfigException, overrides: Sequence[Override], loader: Any
) -> tuple[str, str]:
    """Return the missing group and option, such as parallel and deepspeed/zero2, because `parallel` has no subgroup."""
    missing_path = (error.missing_cfg_file or "").removesuffix(".yaml")
    parts = missing_path.split("/")
    for count in range(len(parts) - 1, 0, -1):
        group, option = "/".join(parts[:count]), "/".join(parts[count:])
        if re.search(r"/\.{0,2}$", group):
            continue  # the option is a path, as in python=/opt/venv
        is_set_on_command_line = any(o.key == group and option in o.canonical for o in overrides)
        if (error.options or is_set_on_command_line) and loader.get_group_options(group):
            return group, option
    group, _, option = missing_path.rpartition("/")
    return group, option


def _misplaced_group_diagnostic(file: str, wanted: str, loader: Any) -> Diagnostic | None:
    """Return JC1109 for `- backend: slurm` in experiment/mine.yaml, which Hydra reads as experiment/backend.

    Returns None if the user meant no existing group.
    wanted: the missing path, such as experiment/backend/slurm.
    """
    folder = file.rpartition("/")[0]
    parts = wanted.removeprefix(f"{folder}/").split("/") if wanted.startswith(f"{folder}/") else []
    for count in range(len(parts) - 1, 0, -1):
        meant, option = "/".join(parts[:count]), "/".join(parts[count:])
        if hint := _corrected_item(meant, option, loader):
            break
    else:
        return None
    position = next((c.origin for c in _items_of_group(meant) if f"/{c.origin.path}".endswith(f"/{file}.yaml")), None)
    group, options = f"{folder}/{meant}", ", ".join(sorted(loader.get_group_options(meant)))
    because = f"a group without a leading / is relative to the file; group {meant} has: {options}"
    return Diagnostic("JC1109", f"no option {option!r} in group {group}", because, hint, position, group)
