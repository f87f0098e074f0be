"""Hydra composes one tree from the config folders and the overrides; this file is the only one that talks to it.

In:  the search path, a config name, canonical overrides.   Out: `Composed`: the resolved tree, where each leaf was
written, which option each group has. Hydra's exceptions become diagnostics here, all of one command line at once.
Hydra keeps its state in process-wide singletons, so this file has the global that they force on us.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

from hydra import compose as hydra_compose
from hydra import initialize
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.global_hydra import GlobalHydra
from hydra.core.object_type import ObjectType
from hydra.core.plugins import Plugins
from hydra.errors import HydraException, MissingConfigException
from hydra.plugins.search_path_plugin import SearchPathPlugin
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from .convert import join
from .diagnostics import CompileError, Diagnostic, nearest
from .overrides import Override
from .source import JobcSource, NoHydraJob, read_files
from .text import Origin, Text


@dataclass(frozen=True)
class Folder:
    """One folder of the search path. provider: see JobcSource; path: absolute."""

    provider: str
    path: str


@dataclass(frozen=True)
class Composed:
    """tree: resolved, text leaves; written: as in the files, interpolations kept; choices: group -> option."""

    tree: dict[str, Any]
    written: dict[str, Any]
    choices: dict[str, str]
    overrides: tuple[Override, ...]

    def origin_of(self, key: str) -> Origin | None:
        """Where the value at a dotted key was written; the first leaf's place for a mapping; None when unknown."""
        node = _at(self.written, key)
        if isinstance(node, Text):
            return node.origin
        for override in reversed(self.overrides):
            if override.operator != "~" and (key == override.key or key.startswith(override.key + ".")):
                return override.origin
            if override.operator == "~" and node is None and key == override.key:
                return override.origin
        return next((leaf.origin for _, leaf in _leaves(node, key) if isinstance(leaf, Text)), None)

    def origin_of_choice(self, group: str) -> Origin | None:
        """Where the option of a group was chosen, None when a defaults list did."""
        found = [o.origin for o in self.overrides if o.key == group and o.operator != "~"]
        return found[-1] if found else None

    def via(self, key: str) -> str:
        """The interpolation a leaf was written as, such as `${name}`; "" for a literal."""
        node = _at(self.written, key)
        return str(node) if isinstance(node, str) and "${" in node else ""


_search_path: list[Folder] = []  # of the compose under way; Hydra makes the plugin that reads it


class _SearchPath(SearchPathPlugin):
    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        search_path.prepend("no-hydra-job", "no-hydra-job://")
        for folder in _search_path:
            search_path.append(folder.provider, f"jobc://{folder.path}")


@cache
def _register_plugins() -> None:
    for plugin in (JobcSource, NoHydraJob, _SearchPath):
        Plugins.instance().register(plugin)


@contextmanager
def hydra_ready(folders: Sequence[Folder]) -> Iterator[Any]:
    """Hydra initialised on our folders, earlier ones winning; gives its config loader. Restores what was there."""
    _register_plugins()
    _search_path[:] = folders
    read_files.clear()
    before = GlobalHydra.instance().hydra
    GlobalHydra.instance().clear()
    try:
        with initialize(config_path=None, version_base="1.3"):
            yield GlobalHydra.instance().config_loader()
    finally:
        _search_path.clear()
        GlobalHydra.instance().hydra = before


def read_inputs() -> dict[str, str]:
    """`root:path` -> text of the config files read since hydra_ready() that are not our own or a plugin's."""
    return {place: text for place, text in read_files.items() if not place.startswith(("jobc:", "plugin:"))}


def compose(loader: Any, config_name: str, overrides: Sequence[Override], known: Iterable[str]) -> Composed:
    """Compose one job. `known`: the dotted keys of the spec, for did-you-mean. Raises CompileError."""
    return _read(compose_config(loader, config_name, overrides, known), tuple(overrides))


def compose_config(loader: Any, config_name: str, overrides: Sequence[Override], known: Iterable[str]) -> DictConfig:
    """What Hydra composes, interpolations unresolved, with its own section `hydra`. Raises CompileError."""
    config, refused = None, [_hydra_setting(o) for o in overrides if re.match(r"hydra([./@]|$)", o.key)]
    kept = [o for o in overrides if not re.match(r"hydra([./@]|$)", o.key)]
    while config is None:
        try:
            config = hydra_compose(config_name, [o.canonical for o in kept], return_hydra_config=True)
        except (HydraException, OmegaConfBaseException, RecursionError, ValueError) as error:
            diagnostic, culprit = _explain(error, kept, loader, config_name, known)
            refused.append(diagnostic)
            if culprit is None:
                raise CompileError(refused) from None
            kept.remove(culprit)
    if refused:
        raise CompileError(refused)
    return config


def _hydra_setting(override: Override) -> Diagnostic:
    because = "jobc composes with Hydra and starts no Hydra job, so this would change nothing"
    hint = "--out DIR says where artifacts go, --config-dir DIR where config files are"
    title = f"{override.key} is a setting of Hydra itself"
    return Diagnostic("JC1102", title, because, hint, override.origin, override.key)


def _read(config: DictConfig, overrides: tuple[Override, ...]) -> Composed:
    chosen = {group: str(option) for group, option in config.hydra.runtime.choices.items() if option is not None}
    with open_dict(config):
        del config["hydra"]
    written: Any = OmegaConf.to_container(config, resolve=False)
    composed = Composed({}, written, chosen, overrides)
    refused = _machine_readers(composed)
    try:
        tree: Any = OmegaConf.to_container(config, resolve=True)
    except (OmegaConfBaseException, RecursionError):
        readers = {diagnostic.key for diagnostic in refused}
        refused += [d for d in _unresolved(config, composed) if d.key not in readers]
    if refused:
        raise CompileError(refused)
    return Composed(tree, written, chosen, overrides)


_MACHINE = re.compile(r"(?<!\\)\$\{\s*(oc\.env|now|hydra)\b")


def _machine_readers(composed: Composed) -> list[Diagnostic]:
    return [
        Diagnostic(
            "JC1107",
            f"${{{match[1]}…}} reads the compiling machine",
            "the same overrides would give other files on another machine",
            f"write \\${{NAME}} to have a command's shell read it, or set the value: {key}=VALUE",
            composed.origin_of(key),
            key,
        )
        for key, leaf in _leaves(composed.written, "")
        if isinstance(leaf, str) and (match := _MACHINE.search(leaf))
    ]


def _unresolved(config: DictConfig, composed: Composed) -> list[Diagnostic]:
    found = []
    keys = [key for key, _ in _leaves(composed.written, "")]
    for key, leaf in _leaves(composed.written, ""):
        if not (isinstance(leaf, str) and "${" in leaf):
            continue
        try:
            OmegaConf.select(config, key, throw_on_missing=True)
        except (OmegaConfBaseException, RecursionError) as error:
            because, hint = _why_unresolved(error, leaf, keys, key)
        else:
            continue
        title = f"cannot resolve {leaf!r}"
        found.append(Diagnostic("JC1106", title, because, hint, composed.origin_of(key), key))
    because = "its value is made of itself"
    return found or [Diagnostic("JC1106", "an interpolation leads back to itself", because, "give the key a value")]


def _why_unresolved(error: Exception, leaf: str, keys: Iterable[str], key: str) -> tuple[str, str]:
    """(because, hint) for an interpolation that OmegaConf 2.3 cannot resolve."""
    message = str(error)
    if isinstance(error, RecursionError) or "ecursive" in message:
        return "it leads back to itself", f"give {key} a value of its own"
    wanted = re.search(r"Interpolation key '([^']*)' not found", message)
    if wanted:
        close = nearest(wanted[1], keys)
        escape = "write shell text as \\${" + wanted[1] + "}"
        return f"there is no key {wanted[1]}", f"did you mean ${{{close[0]}}}?" if close else escape
    if resolver := re.search(r"Unsupported interpolation type (\S+)", message):
        return f"there is no resolver {resolver[1]}", "write shell text as \\${…}, or the value itself"
    return "it names no value", "write shell text as \\${…}, or the value itself"


def _explain(
    error: Exception, overrides: Sequence[Override], loader: Any, config_name: str, known: Iterable[str]
) -> tuple[Diagnostic, Override | None]:
    """Hydra's exception as a diagnostic, and the override to blame, None when a file is."""
    message = str(error) + (f"\n{error.__cause__}" if error.__cause__ else "")
    if isinstance(error, MissingConfigException):
        return _missing_config(error, overrides, loader, config_name)
    if isinstance(error, ValueError):
        return _null_group(error, overrides, loader, known)
    if fault := _file_fault(message, loader):
        return fault, None
    if isinstance(error, RecursionError):
        because = "a defaults list brings in its own file, or the values are nested too deep"
        hint = "take the loop out of the defaults lists"
        return Diagnostic("JC1105", "cannot compose: the config has no end", because, hint), None
    quoted = re.search(r"(?:override|delete from config\.|already at|merging override) '?([^'\s]+?)'?[.\s]", message)
    blamed = quoted[1] if quoted else ""
    culprit = next((o for o in overrides if blamed and (o.key == blamed or o.canonical.startswith(blamed))), None)
    if culprit is None:
        culprit = next((o for o in overrides if f"'{o.key}'" in message or o.canonical in message), None)
    origin = culprit.origin if culprit else None
    key = culprit.key if culprit else ""
    first_line = message.split("\n", 1)[0]
    if "No match in the defaults list" in message and culprit:
        hint = f"+{culprit.typed}"
        return Diagnostic(
            "JC1103", f"group {key} has no default", "a group with none is added", hint, origin, key
        ), culprit
    if "already at" in message and culprit:
        hint = culprit.typed.lstrip("+")
        return Diagnostic("JC1104", f"{key} is there already", "+ adds a new key only", hint, origin, key), culprit
    if culprit and ("Could not override" in message or "does not exist" in message):
        return _unknown_key(message, culprit, loader, known), culprit
    if culprit and "force-add" in message:
        title = f"cannot compose: {key} is a group, and an option of a group is set, not added"
        hint = culprit.typed.lstrip("+")
        return Diagnostic("JC1105", title, "++ is for keys", hint, origin, key), culprit
    hint = "jobc --cfg job prints the tree that the override meets"
    because = next((line.strip() for line in message.split("\n")[1:] if line.strip()), "Hydra refuses it")
    return Diagnostic("JC1105", f"cannot compose: {first_line}", because, hint, origin, key), culprit


def _unknown_key(message: str, culprit: Override, loader: Any, known: Iterable[str]) -> Diagnostic:
    """JC1102. message: Hydra's, which names the key below a mapping and the package that a group has."""
    below = re.search(r"full_key: (\S+)", message)
    key = below[1] if below else culprit.key
    value = culprit.typed.partition("=")[2]
    because = f"no config file has a key {key}"
    if group := re.search(r"Did you mean to override ([^\s?]+)\?", message):
        close, because = [group[1]], f"the group has another package than {culprit.package}"
    elif key == "cluster":
        close, because = [], "no config folder has a site profile, a file cluster/NAME.yaml"
    else:
        close = nearest(key, [*known, *loader.list_groups("")])
        close = [k for k in close if k != key]
    if close:
        hint = f"did you mean {close[0]}{f'={value}' if value and key == culprit.key else ''}?"
    else:
        hint = (
            "write one to ./jobc/cluster or ~/.config/jobc/cluster"
            if key == "cluster"
            else "jobc --help lists the keys"
        )
    return Diagnostic("JC1102", f"unknown key or group {key}", because, hint, culprit.origin, culprit.key)


def _null_group(
    error: ValueError, overrides: Sequence[Override], loader: Any, known: Iterable[str]
) -> tuple[Diagnostic, Override | None]:
    """JC1109 for group=null, which Hydra 1.3 answers with a ValueError; any other ValueError is ours."""
    culprit = next((o for o in overrides if o.canonical.endswith("=null") and loader.get_group_options(o.key)), None)
    if culprit is None and (where := re.search(r"[iI]n '?([^':, ]+)'?[,:]", str(error))):
        because = "its section `defaults` must be a list of `- group: option` lines, one group each"
        hint = "defaults: [{override /model: mlp}]"
        return Diagnostic("JC1105", f"cannot compose: {where[1]}.yaml", because, hint), None
    if culprit is None:
        raise error
    key, options = culprit.key, loader.get_group_options(culprit.key)
    because = f"group {key} has: {', '.join(sorted(options))}"
    hint = f"{key}={options[0]}" if key in known else f"~{key}"
    return Diagnostic("JC1109", f"group {key} cannot be null", because, hint, culprit.origin, key), culprit


def _in_defaults(group: str, option: str) -> Origin | None:
    """The line of a file read so far that chooses an option; Hydra keeps no places for defaults lists."""
    line_of = re.compile(rf"[\s{{-]/?({re.escape(group)})(@[\w.]+)?\s*:\s*['\"]?{re.escape(option)}\b")
    for place, text in read_files.items():
        root, _, path = place.rpartition(":")
        for number, line in enumerate(text.split("\n"), 1):
            if found := line_of.search(line):
                return Origin(root, path, number, found.start(1) + 1)
    return None


def _file_fault(message: str, loader: Any) -> Diagnostic | None:
    """JC1105 for what a file's defaults list does wrong; None when the message is about something else."""
    if file := re.search(r"In '([^']+)': ConfigTypeError raised", message):
        because = "it has a list where another file has a mapping of keys, or the other way round"
        hint = "jobc --cfg job prints what the other files give"
        return Diagnostic("JC1105", f"cannot compose: {file[1]}.yaml does not fit in", because, hint)
    if twice := re.search(r"(?:^|for )(\S+?)(?: appears more than once|\. To override)", message):
        hint = f"- override /{twice[1]}: OPTION"
        return Diagnostic("JC1105", f"cannot compose: two files choose {twice[1]}", "one is to win", hint)
    if lost := re.search(r"In '([^']+)': Could not override '([^']+)'", message):
        group = lost[2].split("@")[0]
        close = [name for name in nearest(group, loader.list_groups("")) if name != group]
        hint = f"did you mean override /{close[0]}?" if close else f"- /{group}: OPTION, without override"
        because = "no file before it chooses that group"
        return Diagnostic("JC1105", f"cannot compose: {lost[1]}.yaml overrides {lost[2]}", because, hint)
    return None


def _missing_config(
    error: MissingConfigException, overrides: Sequence[Override], loader: Any, config_name: str
) -> tuple[Diagnostic, Override | None]:
    wanted = (error.missing_cfg_file or "").removesuffix(".yaml")
    group, _, option = wanted.rpartition("/")
    if not group:
        found = [n for n in loader.get_group_options("", ObjectType.CONFIG) if not n.startswith("_")]
        close = nearest(wanted, found)
        hint = f"did you mean --config-name {close[0]}?" if close else f"known: {', '.join(found)}"
        return Diagnostic("JC1108", f"no config named {wanted or config_name}", "no folder has it", hint), None
    options = list(error.options or loader.get_group_options(group))
    culprit = next((o for o in overrides if o.key == group and option in o.canonical), None)
    close = nearest(option, options) or (options if len(options) == 1 else [])
    if "," in option:
        hint = f"for a sweep: jobc -m {group}={option}"
    elif close:
        hint = f"{group}={close[0]}"
    else:
        hint = f"one of: {', '.join(sorted(options))}"
    place = culprit.origin if culprit else _in_defaults(group, option)
    because = f"group {group} has: {', '.join(sorted(options)) or 'no options'}"
    if place is None and (parent := re.search(r"In '([^']+)'", str(error))):
        because = f"{parent[1]}.yaml asks for it; {because}"
    return Diagnostic("JC1109", f"no option {option!r} in group {group}", because, hint, place, group), culprit


def _at(tree: Any, key: str) -> Any:
    """The node at a dotted key; keys that hold dots themselves are tried longest first."""
    if not key:
        return tree
    if isinstance(tree, dict):
        parts = key.split(".")
        for n in range(len(parts), 0, -1):
            head = ".".join(parts[:n])
            if head in tree:
                return _at(tree[head], ".".join(parts[n:]))
    if isinstance(tree, list):
        head, _, rest = key.partition(".")
        if head.isdigit() and int(head) < len(tree):
            return _at(tree[int(head)], rest)
    return None


def _leaves(tree: Any, key: str) -> Iterator[tuple[str, Any]]:
    if isinstance(tree, dict):
        for name, inner in tree.items():
            yield from _leaves(inner, join(key, str(name)))
    elif isinstance(tree, list):
        for i, inner in enumerate(tree):
            yield from _leaves(inner, f"{key}.{i}")
    else:
        yield key, tree
