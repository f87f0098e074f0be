"""Set plain values such as `nodes=2` in a composed config, without composing or copying the whole config again.

In:  a config composed without these overrides, and the overrides.
Out: the config's two trees with these values. Sweep points share the unchanged parts.
     There is no result if only Hydra can apply an override, because of an unknown key, a section, or a value that is
     not plain text.

OmegaConf still resolves interpolations, because any of them may refer to one of these values.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from .compose_cache import file_choosing_overrides
from .overrides import Override

_KEY = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)
_VALUE = re.compile(r"'([^'\\]*)'")  # quoted text without escapes, which Hydra parses to the text between the quotes
Path = tuple["str | int", ...]


class ConfigTrees(NamedTuple):
    """One config in two forms, as in ComposedConfig: as written, with interpolations, and resolved."""

    written: dict[str, Any]
    tree: dict[str, Any]


class NeedsHydra(Exception):
    """Raised for an override that does more than change the value of a leaf or set an entry of an open mapping."""


def split_plain_values(
    folders: tuple[str, ...], overrides: Sequence[Override]
) -> tuple[list[Override], list[Override]]:
    """Return the overrides that Hydra must apply, and those that set plain text and can be applied afterwards.

    folders: the search path.
    """
    chosen = file_choosing_overrides(folders, overrides)
    others = [o for o in overrides if o in chosen or not _is_plain(o)]
    plain = [o for o in overrides if o not in others and not any(_overlap(_changed(o), other.key) for other in others)]
    return [o for o in overrides if o not in plain], plain


def _is_plain(override: Override) -> bool:
    value = override.canonical.partition("=")[2]
    return (
        override.operator in ("", "++")
        and not override.is_hydra_override
        and _KEY.fullmatch(override.key) is not None
        and _VALUE.fullmatch(value) is not None
    )


def _changed(override: Override) -> str:
    """Return the key that an override changes. For an entry that may be new, return the key of its mapping ("" for the
    whole config), because the order of the mapping changes.
    """
    return override.key.rpartition(".")[0] if override.operator == "++" else override.key


def _text(override: Override) -> str:
    return override.canonical.partition("=")[2][1:-1]


def _overlap(key: str, other: str) -> bool:
    return not key or f"{key}.".startswith(f"{other}.") or f"{other}.".startswith(f"{key}.")


class ConfigWithoutPlainValues:
    """A config without its plain values."""

    def __init__(self, config: DictConfig, trees: ConfigTrees) -> None:
        """config: the same config in OmegaConf. Its plain values are overwritten for each point."""
        self._config, self._trees = config, trees
        self._interpolated = list(_interpolated(trees.written, ()))
        self._keys: set[str] | None = None  # paths of the plain values that are set in the config

    def with_values(self, overrides: Sequence[Override]) -> ConfigTrees:
        """Return the two trees with these values. Raises NeedsHydra."""
        (written, tree), paths = self._trees, list(self._interpolated)
        for override in overrides:
            text = _text(override)
            path: tuple[str, ...] = tuple(override.key.split("."))
            may_add = override.operator == "++"
            written, tree = _set(written, path, text, may_add), _set(tree, path, text, may_add)
            paths = [kept for kept in paths if kept != path]
            if "${" in text:
                paths.append(path)
        if paths:
            self._set_in_config(overrides)
            for interpolated in paths:
                tree = self._resolve_at(tree, interpolated)
        return ConfigTrees(written, tree)

    def _set_in_config(self, overrides: Sequence[Override]) -> None:
        keys = {override.key for override in overrides}
        if self._keys not in (None, keys):
            raise NeedsHydra  # the config still has values from another point
        self._keys = keys
        for override in overrides:
            text = _text(override)
            OmegaConf.update(self._config, override.key, text, merge=True, force_add=override.operator == "++")

    def _resolve_at(self, tree: Any, path: Path) -> Any:
        section: Any = self._config
        try:
            for part in path:
                section = section[part]
        except (OmegaConfBaseException, RecursionError) as error:
            raise NeedsHydra from error  # Hydra reports the interpolations that cannot be resolved
        value = OmegaConf.to_container(section, resolve=True) if OmegaConf.is_config(section) else section
        return _replace_at(tree, path, value)


def _set(tree: Any, path: Sequence[str], text: str, may_add: bool) -> dict[str, Any]:
    """Return the tree with a leaf's text replaced, or added to an existing mapping."""
    name, *below = path
    if not isinstance(tree, dict) or (name not in tree and (below or not may_add)):
        raise NeedsHydra
    if below:
        return {**tree, name: _set(tree[name], below, text, may_add)}
    if isinstance(tree.get(name), (dict, list)):
        raise NeedsHydra
    return {**tree, name: text}


def _replace_at(tree: Any, path: Path, value: Any) -> Any:
    """Return the tree with the value at an existing path replaced, or `tree` itself if the value is the same."""
    if not path:
        return tree if type(tree) is type(value) is str and tree == value else value
    name, *below = path
    inner = _replace_at(tree[name], tuple(below), value)
    if inner is tree[name]:
        return tree
    if isinstance(tree, dict):
        return {**tree, name: inner}
    return [inner if i == name else item for i, item in enumerate(tree)]


def _interpolated(node: Any, path: Path) -> Iterator[Path]:
    if isinstance(node, dict):
        for name, inner in node.items():
            yield from _interpolated(inner, (*path, name))
    elif isinstance(node, list):
        for i, inner in enumerate(node):
            yield from _interpolated(inner, (*path, i))
    elif isinstance(node, str) and "${" in node:
        yield path
