"""Compose one config tree from the config folders and the overrides. Only this file calls Hydra's compose API.

In:  the search path, a config name and canonical overrides.
Out: a `ComposedConfig` with the resolved tree, the position of each leaf and the option chosen for each group.

All of Hydra's exceptions for one command line are reported together, as diagnostics.
This file has a global variable, because Hydra keeps its state in process-wide singletons.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.global_hydra import GlobalHydra
from hydra.core.plugins import Plugins
from hydra.plugins.search_path_plugin import SearchPathPlugin
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from ..diagnostics.diagnostic import CompileError, Diagnostic, nearest
from ..diagnostics.origin import Origin, TextWithOrigin
from ..spec.job_spec import JobSpec
from ..spec.type_hints import join_key, spec_keys
from .compose_cache import COMPOSE_ERRORS, checked_entries, compose_from_cache
from .interpolation import MachineDependentError, reset_budget, restrict_interpolation
from .overrides import Override
from .yaml_positions import enclosing_key_position
from .yaml_source import EmptyHydraJobSource, JobcSource, config_folders, read_files, used_files

_MOST_REFUSED = 30  # maximum number of rejected overrides that are reported; each requires another compose


@dataclass(frozen=True)
class ConfigFolder:
    """One folder on the search path.

    provider: the root's name, see JobcSource.
    path: absolute path.
    """

    provider: str
    path: str


@dataclass(frozen=True)
class ComposedConfig:
    """One composed config.

    tree: the resolved tree, whose leaves are text.
    written: the tree as in the files, with interpolations.
    choices: group -> chosen option.
    """

    tree: dict[str, Any]
    written: dict[str, Any]
    choices: dict[str, str]
    overrides: tuple[Override, ...]

    def origin_of(self, key: str) -> Origin | None:
        """Return the position of the value at a dotted key, or of the key of a mapping, or None if unknown."""
        node = _node_at(self.written, key)
        if isinstance(node, TextWithOrigin):
            return node.origin
        for override in reversed(self.overrides):
            if override.key in self.choices and override.operator != "++":
                continue  # the override chose a file, and the value is in that file
            if override.operator != "~" and (key == override.key or key.startswith(override.key + ".")):
                return override.origin
            if override.operator == "~" and node is None and key == override.key:
                return override.origin
        if first := _first_text_and_depth(node):
            leaf, depth = first
            return enclosing_key_position(
                read_files.get(f"{leaf.origin.root}:{leaf.origin.path}", ""), leaf.origin, depth
            )
        return next((o.origin for o in self.overrides if o.key.startswith(f"{key}.") and o.operator != "~"), None)

    def origin_of_choice(self, group: str) -> Origin | None:
        """Return the position where a group's option was chosen, or None if a defaults list chose it."""
        chosen_at = [o.origin for o in self.overrides if o.key == group and o.operator != "~"]
        return chosen_at[-1] if chosen_at else None

    def chosen_options(self) -> dict[str, tuple[str, Origin | None]]:
        """Return group -> (chosen option, position of the choice), excluding Hydra's own groups."""
        return {
            group: (option, self.origin_of_choice(group))
            for group, option in sorted(self.choices.items())
            if not group.startswith("hydra/")
        }

    def interpolated_keys(self) -> set[str]:
        """Return every key that a value refers to, such as `optim.lr` in `${optim.lr}`."""
        texts = (leaf for _, leaf in _iterate_leaves(self.written, "") if isinstance(leaf, str) and "${" in leaf)
        return {key for text in texts for key in re.findall(r"\$\{([\w.]+)\}", text)}

    def interpolation_of(self, key: str) -> str:
        """Return the interpolation that a leaf was resolved from, such as `${name}`, or "" for a literal."""
        node = _node_at(self.written, key)
        return str(node) if isinstance(node, str) and "${" in node else ""


_sessions: list[tuple[ConfigFolder, ...]] = []  # search paths; the last one is current, because sessions may be nested


class _JobcSearchPath(SearchPathPlugin):
    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        path = search_path.get_path()
        path[:] = [element for element in path if element.provider != "main"]  # the folder that Hydra requires
        search_path.prepend("no-hydra-job", "no-hydra-job://")
        for folder in _sessions[-1]:
            search_path.append(folder.provider, f"jobc://{folder.path}")


@cache
def _register_plugins() -> None:
    for plugin in (JobcSource, EmptyHydraJobSource, _JobcSearchPath):
        Plugins.instance().register(plugin)


@contextmanager
def hydra_session(folders: Sequence[ConfigFolder]) -> Iterator[Any]:
    """Run a block with Hydra initialized with our folders (earlier ones win), and yield its config loader."""
    _register_plugins()
    _sessions.append(tuple(folders))
    config_folders[:] = [folder.path for folder in folders]
    read_files.clear()
    checked_entries.clear()
    before = GlobalHydra.instance().hydra
    GlobalHydra.instance().clear()
    try:
        # not `initialize`, which inspects its caller
        with initialize_config_dir("/", version_base="1.3"), restrict_interpolation():
            yield GlobalHydra.instance().config_loader()
    finally:
        _sessions.pop()
        config_folders.clear()
        GlobalHydra.instance().hydra = before


def used_config_files(of_all: bool = False) -> dict[str, str]:
    """Return `root:path` -> text of the config files that the last composed config uses, except those of jobc and of
    plugins.

    of_all: whether to return the files of all configs since hydra_session().
    """
    files = read_files if of_all else {path: text for path, text in read_files.items() if path in used_files}
    return {path: text for path, text in files.items() if not path.startswith(("jobc:", "plugin:"))}


class OverridesRefused(CompileError):
    """Raised when some overrides cannot be composed. rest: config from the other overrides, for more diagnostics."""

    def __init__(self, diagnostics: Iterable[Diagnostic], rest: ComposedConfig) -> None:
        super().__init__(diagnostics)
        self.rest = rest


def compose_job(loader: Any, config_name: str, overrides: Sequence[Override]) -> ComposedConfig:
    """Compose one job. Raises CompileError, or its subclass OverridesRefused if the other overrides can be composed."""
    used_files.clear()
    config, _ = compose_hydra_config(loader, config_name, overrides, cached=True)
    return _resolve_config(config, tuple(overrides))


def compose_hydra_config(
    loader: Any, config_name: str, overrides: Sequence[Override], cached: bool = False
) -> tuple[DictConfig, list[Override]]:
    """Return Hydra's composed config, with unresolved interpolations and its section `hydra`, and the overrides as
    Hydra accepted them (see group_and_overrides_with_other_prefix). Raises the same errors as compose_job().

    cached: whether to use the cached merge of the files, whose section `hydra` does not list the other overrides.
    """
    config, refused = None, []
    accepted = [o for o in overrides if not o.is_hydra_override]
    if len(accepted) < len(overrides):
        from .hydra_errors import hydra_key_diagnostic

        refused = [hydra_key_diagnostic(o) for o in overrides if o not in accepted]
    fixed_groups: set[str] = set()
    while config is None:
        reset_budget()
        try:
            if cached or refused:
                config = compose_from_cache(_session_folders(), config_name, accepted)
            else:
                config = hydra_compose(config_name, [o.canonical for o in accepted], return_hydra_config=True)
        except COMPOSE_ERRORS as error:
            from .hydra_errors import (  # imported here, because most compiles have no error
                diagnose_hydra_error,
                group_and_overrides_with_other_prefix,
            )

            if (changed := group_and_overrides_with_other_prefix(error, accepted, loader)) and changed[
                0
            ] not in fixed_groups:
                fixed_groups.add(changed[0])
                accepted = changed[1]
                continue
            keys = partial(_known_keys, config_name, accepted, loader)
            diagnostic, culprit = diagnose_hydra_error(error, accepted, loader, config_name, keys)
            if not _is_consequence(diagnostic, refused):
                refused.append(diagnostic)
            if culprit is None or len(refused) >= _MOST_REFUSED:
                raise CompileError(refused) from None
            accepted.remove(culprit)
    if refused:
        try:
            remaining = _resolve_config(config, tuple(o for o in overrides if o in accepted))
        except CompileError as error:
            raise CompileError([*refused, *error.diagnostics]) from None
        raise OverridesRefused(refused, remaining)
    return config, accepted


def _is_consequence(diagnostic: Diagnostic, earlier: Iterable[Diagnostic]) -> bool:
    """Return whether a diagnostic is about an unknown key of a group whose option has already been rejected."""
    section = diagnostic.key.partition(".")[0]
    return diagnostic.code == "JC1102" and any(d.code == "JC1109" and d.key == section for d in earlier)


def _known_keys(config_name: str, overrides: Sequence[Override], loader: Any) -> list[str]:
    """Return the spec's keys, and the keys in the files that the command line selects, such as a backend's options."""
    keys = [*spec_keys(JobSpec), "backend"]
    choices = [o for o in overrides if loader.get_group_options(o.key)]
    try:
        tree: Any = OmegaConf.to_container(compose_from_cache(_session_folders(), config_name, choices))
    except COMPOSE_ERRORS:
        return keys
    del tree["hydra"]
    return [*keys, *(key for key, _ in _iterate_leaves(tree, ""))]


def _session_folders() -> tuple[str, ...]:
    return tuple(folder.path for folder in _sessions[-1])


def _resolve_config(config: DictConfig, overrides: tuple[Override, ...]) -> ComposedConfig:
    chosen = {group: str(option) for group, option in config.hydra.runtime.choices.items() if option is not None}
    with open_dict(config):
        del config["hydra"]
    written: Any = OmegaConf.to_container(config, resolve=False)
    try:
        tree: Any = OmegaConf.to_container(config, resolve=True)
    except (OmegaConfBaseException, RecursionError):
        raise CompileError(_find_unresolved(config, ComposedConfig({}, written, chosen, overrides))) from None
    return ComposedConfig(tree, written, chosen, overrides)


def _machine_read_diagnostic(title: str, origin: Origin | None, key: str) -> Diagnostic:
    because = "the same overrides would give different files on another machine"
    hint = f"write \\${{NAME}} to have a command's shell read it, or set the value: {key or 'KEY'}=VALUE"
    return Diagnostic("JC1107", title, because, hint, origin, key)


def _find_unresolved(config: DictConfig, composed: ComposedConfig) -> list[Diagnostic]:
    direct: list[Diagnostic] = []
    indirect: list[Diagnostic] = []
    keys = [key for key, _ in _iterate_leaves(composed.written, "")]
    for key, leaf in _iterate_leaves(composed.written, ""):
        if not (isinstance(leaf, str) and "${" in leaf):
            continue
        origin = composed.origin_of(key)
        try:
            OmegaConf.select(config, key, throw_on_missing=True)
        except MachineDependentError as error:
            title, reader, *_ = str(error).split("\n")
            diagnostics = direct if re.sub(r"\[(\d+)\]", r".\1", reader) == key else indirect
            diagnostics.append(_machine_read_diagnostic(title, origin, key))
        except (OmegaConfBaseException, RecursionError) as error:
            if re.search(r"Interpolation key 'hydra(\.[^']*)?' not found", str(error)):
                direct.append(_machine_read_diagnostic("${hydra…} depends on the compiling machine", origin, key))
                continue
            because, hint = _because_and_hint_for_unresolved(error, keys, key)
            direct.append(Diagnostic("JC1106", f"cannot resolve {leaf!r}", because, hint, origin, key))
    because = "the value of the key refers to the key itself"
    endless = Diagnostic("JC1106", "an interpolation refers back to itself", because, "set the key to a value")
    return direct or indirect or [endless]


def _because_and_hint_for_unresolved(error: Exception, keys: Iterable[str], key: str) -> tuple[str, str]:
    """Return (because, hint) for an interpolation that OmegaConf cannot resolve. Parses messages of OmegaConf 2.3."""
    message = str(error)
    if isinstance(error, RecursionError) or "ecursive" in message:
        return "the interpolation refers back to itself", f"set {key} to a value that does not refer to itself"
    missing_key = re.search(r"Interpolation key '([^']*)' not found", message)
    if missing_key:
        close = nearest(missing_key[1], keys)
        escape = "write shell text as \\${" + missing_key[1] + "}"
        return f"key {missing_key[1]} does not exist", f"did you mean ${{{close[0]}}}?" if close else escape
    hint = "for shell text, write \\${…}; otherwise, write the value itself"
    if resolver := re.search(r"Unsupported interpolation type (\S+)", message):
        return f"resolver {resolver[1]} does not exist", hint
    return "the interpolation does not refer to a value", hint


def _node_at(tree: Any, key: str) -> Any:
    """Return the node at a dotted key, or None if it is missing. Names may contain dots: the longest is tried first."""
    if not key:
        return tree
    if isinstance(tree, dict):
        head = key
        while head:
            if head in tree:
                return _node_at(tree[head], key[len(head) + 1 :])
            head = head.rpartition(".")[0]
    if isinstance(tree, list):
        head, _, remaining_key = key.partition(".")
        if re.fullmatch("[0-9]{1,9}", head) and int(head) < len(tree):
            return _node_at(tree[int(head)], remaining_key)
    return None


def _first_text_and_depth(tree: Any, depth: int = 0) -> tuple[TextWithOrigin, int] | None:
    """Return the first leaf with a position, and how many mappings and lists of mappings enclose it."""
    if isinstance(tree, TextWithOrigin):
        return tree, depth
    inner = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ()
    counted = isinstance(tree, dict) or any(isinstance(item, dict) for item in inner)
    return next((text for value in inner if (text := _first_text_and_depth(value, depth + counted))), None)


def _iterate_leaves(tree: Any, key: str) -> Iterator[tuple[str, Any]]:
    if isinstance(tree, dict):
        for name, inner in tree.items():
            yield from _iterate_leaves(inner, join_key(key, str(name)))
    elif isinstance(tree, list):
        for i, inner in enumerate(tree):
            yield from _iterate_leaves(inner, f"{key}.{i}")
    else:
        yield key, tree
