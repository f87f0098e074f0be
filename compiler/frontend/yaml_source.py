"""Pass config files to Hydra, keeping every scalar's text and position.

In:  a YAML file below a known root.
Out: nested dicts and lists whose scalars are `TextWithOrigin`.

`JobcSource` is a Hydra ConfigSource (scheme `jobc:`), part of hydra-core 1.3's public plugin API; Hydra is not patched.
"""

import os
import re
from typing import Any

from hydra.core.object_type import ObjectType
from hydra.plugins.config_source import ConfigLoadError, ConfigResult, ConfigSource
from omegaconf import OmegaConf

from ...runtime.system.untrusted_files import Unreadable
from ..diagnostics.diagnostic import CompileError, Diagnostic
from ..diagnostics.origin import USER_ROOTS, Origin
from . import observed_files
from .interpolation import consume_budget
from .observed_files import ask_file_system
from .project_files import OutsideProject, project_folders, require_inside
from .yaml_reader import MOST_BYTES, parse_yaml_tree

FOREIGN_ROOTS = ("input", "project")  # roots that may contain symlinks created by someone else
_OURS = "jobc_config"  # name under which jobc's conf/config.yaml is available despite a user's config.yaml

# Hydra instantiates the sources, so they can report only through global variables.
read_files: dict[str, str] = {}  # `root:path` -> text, of every config since hydra_session()
used_files: set[str] = set()  # `root:path` of the files that the last composed config uses
config_folders: list[str] = []  # for the current compose, absolute paths


def groups_in_defaults_list() -> set[str]:
    """Return the groups in the defaults list of jobc's config.yaml."""
    return set(re.findall(r"(?m)^  - (\w+): ", read_files.get("jobc:conf/config.yaml", "")))


class JobcSource(ConfigSource):
    """One folder of config files.

    provider: the root in origins, which is `user`, `project`, `input`, `plugin:NAME`, or `jobc:FOLDER` for jobc's own
              folders.
    path:     `jobc://` followed by the absolute path of the folder.
    """

    @staticmethod
    def scheme() -> str:
        return "jobc"

    def _absolute_path(self, config_path: str) -> str:
        """Return the file's absolute path. Raises CompileError JC1115 for a path that leads out of the folder."""
        _require_relative(config_path)
        file = os.path.join(self.path, config_path)
        if self.provider in FOREIGN_ROOTS and ask_file_system("kind", file):
            try:
                folders = [folder for folder in (self.path, *config_folders) if not ask_file_system("link", folder)]
                require_inside(file, (*folders, *project_folders()))
            except OutsideProject as error:
                raise _outside_error(f"{self.provider}:{config_path}", str(error)) from None
        return file

    def _file_name(self, config_path: str) -> str:
        ours = config_path == _OURS and self.provider == "jobc:conf"
        return str(self._normalize_file_name("config" if ours else config_path))

    def available(self) -> bool:
        return bool(ask_file_system("folder", self.path))

    def is_group(self, config_path: str) -> bool:
        return bool(ask_file_system("folder", self._absolute_path(config_path)))

    def is_config(self, config_path: str) -> bool:
        return bool(ask_file_system("kind", self._absolute_path(self._file_name(config_path))))

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:
        names: list[str] = []
        for name in ask_file_system("names", self._absolute_path(config_path)):
            if not name.startswith("."):
                self._list_add_result(names, os.path.join(config_path, name), name, results_filter)
        return sorted(set(names))

    def load_config(self, config_path: str) -> ConfigResult:
        file = self._file_name(config_path)
        if not ask_file_system("kind", self._absolute_path(file)):
            raise ConfigLoadError(f"Config not found : {file}")
        root, path = origin_root_and_path(self.provider, file)
        text = read_config_text(self._absolute_path(file), Origin(root, path))
        consume_budget("text", len(text), Origin(root, path))
        read_files[f"{root}:{path}"] = text
        used_files.add(f"{root}:{path}")
        tree = parse_yaml_tree(text, root, path)
        if file == "config.yaml" and self.provider in USER_ROOTS:
            _extend_base_config(tree)
        return ConfigResult(
            config=OmegaConf.create(tree, flags={"allow_objects": True}),
            path=f"{self.scheme()}://{self.path}",
            provider=self.provider,
            header=self._parse_header(text[:512], Origin(root, path)),
        )

    def _parse_header(self, text: str, origin: Origin) -> dict[str, str | None]:
        """Return the package in `# @package NAME`. Raises CompileError JC1002 if the line is malformed."""
        try:
            return self._get_header_dict(text)
        except ValueError:
            lines = list(enumerate(text.splitlines(), 1))
            number, line = next(
                (n, ln) for n, ln in lines if re.match(r"\s*#\s*@", ln) and len(_comment_words(ln)) != 2
            )
        because = f"Hydra expects a name and one value, but finds {len(_comment_words(line)) - 1} values"
        hint = "# @package _global_"
        position = Origin(origin.root, origin.path, number, line.index("@") + 1)
        raise CompileError([Diagnostic("JC1002", f"{line.strip()!r} is not a valid header", because, hint, position)])


def _require_relative(config_path: str) -> None:
    """Raise CompileError JC1115 for a path that would leave the folder it is joined to."""
    path = os.path.normpath(config_path)
    if os.path.isabs(path) or path.split(os.sep)[0] == os.pardir:
        raise _outside_error(config_path, "the path leads out of the config folders")


def _outside_error(path: str, because: str) -> CompileError:
    hint = "copy the file into a config folder, or pass its folder with --config-dir"
    return CompileError([Diagnostic("JC1115", f"cannot read the config {path}", because, hint)])


def _comment_words(line: str) -> list[str]:
    return [word for word in line.strip().lstrip("#").strip().split(" ") if word]


class EmptyHydraJobSource(ConfigSource):
    """Provides empty options for the Hydra groups that configure a Hydra job, because jobc never starts one.

    Eight of Hydra's own files then need not be read, which would take 10% of a compile. Because Hydra asks this source
    first, it also rejects paths that lead out of a folder, for all sources including Hydra's own packages.
    """

    _EMPTY = frozenset(
        f"hydra/{group}/default" for group in ("help", "hydra_help", "hydra_logging", "job_logging", "output", "env")
    )

    @staticmethod
    def scheme() -> str:
        return "no-hydra-job"

    def available(self) -> bool:
        return True

    def is_group(self, config_path: str) -> bool:
        _require_relative(config_path)
        return any(name.startswith(f"{config_path}/") for name in self._EMPTY)

    def is_config(self, config_path: str) -> bool:
        _require_relative(config_path)
        return config_path in self._EMPTY

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:
        return []

    def load_config(self, config_path: str) -> ConfigResult:
        if config_path not in self._EMPTY:
            raise ConfigLoadError(f"Config not found : {config_path}")
        package = config_path.rpartition("/")[0].replace("/", ".")
        return ConfigResult(self.provider, self.full_path(), OmegaConf.create({}), {"package": package})


def _extend_base_config(tree: dict[str, Any]) -> None:
    """Put jobc's config.yaml first in the defaults list of a user's config.yaml, so that the user's overrides it."""
    entries = tree.setdefault("defaults", [])
    tree["defaults"] = [_OURS, *entries, *([] if "_self_" in entries else ["_self_"])]


def origin_root_and_path(provider: str, file: str) -> tuple[str, str]:
    """Return a file's (root, path) for its origins. All of jobc's own folders share the root `jobc`."""
    root, _, folder = provider.partition(":")
    if root == "jobc" and folder:
        return root, f"{folder}/{file}"
    return provider, file


def read_config_text(file: str, origin: Origin) -> str:
    """Return the file's text. Raises CompileError JC1001 if it cannot be read as UTF-8."""
    kind, hint = ask_file_system("kind", file), "save the file as UTF-8 and make it readable"
    try:
        if kind in (observed_files.FILE, ""):  # "" means that the file was deleted in the meantime
            return observed_files.read_text(file, MOST_BYTES)
        because, hint = f"it is {kind}", "replace it with a regular file"
    except Unreadable as error:
        because = f"it {error.reason}"
    raise CompileError([Diagnostic("JC1001", "cannot read this file", because, hint, origin)])
