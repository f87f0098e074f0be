"""Find backends, first in the folders of jobc.backends, then through the entry points of other packages. There is no
list to maintain.

Finding a backend imports nothing. Its module is imported when it is used, and an error in it becomes one diagnostic
(JC4003). Site policies (site_policy.py) are found in the same way.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from ...runtime.system.frozen_dataclass import dataclass
from ..diagnostics.code_heading import read_code_page_heading
from ..diagnostics.diagnostic import CompileError, Diagnostic, nearest
from .backend import Backend

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

ENTRY_POINTS, POLICIES = "jobc.backends", "jobc.policies"
PACKAGE = Path(__file__).parents[2]  # jobc's own folder


@dataclass(frozen=True)
class Plugin:
    """A backend that was found, but not yet imported.

    root: `jobc` or `plugin:NAME`, as in origins.
    folder: contains templates and conf.
    version: version of its package, or "" for jobc itself.
    """

    name: str
    root: str
    folder: Path
    load_module: Callable[[], object]
    version: str = ""

    @property
    def config_folder(self) -> Path:
        return self.folder / "conf"

    @property
    def source_name(self) -> str:
        """Return the folder's name in source maps."""
        return f"jobc:backends/{self.name}" if self.root == "jobc" else self.root

    def load(self) -> Backend:
        """Import the backend. Raises CompileError JC4002 to JC4004 if that fails."""
        try:
            backend = self.load_module()
        except CompileError:
            raise
        except (Exception, SystemExit) as error:  # a plugin's import may raise any error; it is reported, not hidden
            because = f"{type(error).__name__}: {error}"
            hint = f"fix or uninstall the package of {self.root}; other backends work without it"
            raise CompileError(
                [Diagnostic("JC4003", f"backend {self.name} cannot be imported", because, hint)]
            ) from error
        parts = ("name", "Options", "spellings", "honours", "launch", "check", "emit")
        if missing := [n for n in parts if not hasattr(backend, n)]:
            raise self._no_backend_error(f"the backend lacks {', '.join(missing)}")
        if not isinstance(backend, Backend):
            raise self._no_backend_error("the backend does not inherit from jobc.compiler.api.Backend")
        if backend.name != self.name:
            raise self._no_backend_error(f"the backend calls itself {backend.name!r}")
        if not isinstance(backend.honours, Mapping):
            raise self._no_backend_error("the backend's `honours` is not a mapping from plan keys to supported values")
        self.check_defaults()
        return backend

    def check_defaults(self) -> None:
        """Raise CompileError JC4004 if the defaults file is missing: without it, the backend cannot be selected."""
        if not (self.config_folder / "backend" / f"{self.name}.yaml").is_file():
            raise self._no_backend_error(
                f"the package has no conf/backend/{self.name}.yaml, which must set the defaults of its options"
            )

    def _no_backend_error(self, because: str) -> CompileError:
        hint = "see jobc.compiler.plugins.backend.Backend"
        return CompileError(
            [Diagnostic("JC4004", f"{self.source_name} does not provide backend {self.name}", because, hint)]
        )


@cache
def find_plugins() -> dict[str, Plugin]:
    """Return name -> plugin, built-in ones first. If two packages use the same name, loading it fails (JC4002)."""
    folders = sorted(file.parent for file in (PACKAGE / "backends").glob("[!_.]*/backend.py"))
    plugins = {folder.name: _builtin_plugin(folder) for folder in folders}
    for entry in _entry_points(ENTRY_POINTS):
        plugin = _plugin_from_entry_point(entry)
        if plugin.name in plugins and plugins[plugin.name].folder != plugin.folder:
            plugin = replace(
                plugins[plugin.name], load_module=_name_clash_loader(plugins[plugin.name], plugin, entry.value)
            )
        plugins[plugin.name] = plugin
    return plugins


def _name_clash_loader(first: Plugin, second: Plugin, entry: str) -> Callable[[], object]:
    def load_module() -> object:
        owner = "jobc itself" if first.root == "jobc" else f"package {first.folder.name}"
        because = f"{owner} and package {second.folder.name} both provide this backend"
        hint = f"remove one of the packages, or rename the entry point of {entry}"
        raise CompileError([Diagnostic("JC4002", f"two backends are named {first.name}", because, hint)])

    return load_module


@cache
def find_policies() -> tuple[Plugin, ...]:
    """Return every installed policy, sorted by name."""
    return tuple(map(_plugin_from_entry_point, _entry_points(POLICIES)))


def code_pages() -> dict[str, Path]:
    """Return a mapping from each diagnostic code to its page.

    Pages are in compiler/diagnostics/codes/ and in codes/ of each backend and policy.
    """
    brought = (plugin.folder / "codes" for plugin in (*find_plugins().values(), *find_policies()))
    folders = [PACKAGE / "compiler" / "diagnostics" / "codes", *brought]
    pages = {page.stem: page for folder in reversed(folders) for page in folder.glob("*.md")}
    return dict(sorted(pages.items()))


@cache
def codes_by_name() -> dict[str, tuple[str, ...]]:
    """Return a mapping from each name to its codes, jobc's own first. A name has several if a plugin reuses it."""
    names: dict[str, tuple[str, ...]] = {}
    for code, page in sorted(code_pages().items(), key=lambda item: not item[1].is_relative_to(PACKAGE)):
        if name := read_code_page_heading(page).name:
            names[name] = (*names.get(name, ()), code)
    return names


def code_name(code: str) -> str:
    """Return a diagnostic code's name, or "" if it has no name or no page."""
    page = code_pages().get(code)
    return read_code_page_heading(page).name if page else ""


def _entry_points(group: str) -> list[EntryPoint]:
    """Return the entry points sorted by name. Calls importlib.metadata (10% of a compile) only if any may exist."""
    if not any(group in _entry_point_groups(folder) for folder in dict.fromkeys(sys.path)):
        return []
    from importlib.metadata import entry_points

    return sorted(entry_points(group=group), key=lambda entry: (entry.name, entry.value))


@cache
def _entry_point_groups(path: str) -> frozenset[str]:
    """Return which of jobc's entry point groups occur in a folder of sys.path; all of them for a zip file."""
    folder, groups = Path(path), (ENTRY_POINTS, POLICIES)
    if folder.is_file():
        return frozenset(groups)
    files = (p for kind in ("dist-info", "egg-info") for p in folder.glob(f"*.{kind}/entry_points.txt"))
    texts = [file.read_bytes() for file in files]
    return frozenset(group for group in groups if any(group.encode() in text for text in texts))


def find_plugin(name: str) -> Plugin:
    """Return the plugin of that name. If there is none, raises CompileError JC4001 with the most similar names."""
    plugins = find_plugins()
    if name in plugins:
        return plugins[name]
    title = f"unknown backend {name}" if name else "backend is not set"
    because, hint = f"found: {', '.join(sorted(plugins))}", f"backend={(nearest(name, plugins) or sorted(plugins))[0]}"
    raise CompileError([Diagnostic("JC4001", title, because, hint)])


def check_defaults(names: Iterable[str]) -> None:
    """Raise CompileError JC4004 if a backend with one of these names was found, but Hydra cannot select it."""
    for name in names:
        if name in find_plugins():
            find_plugins()[name].check_defaults()


def _builtin_plugin(folder: Path) -> Plugin:
    module = f"{__package__.rsplit('.', 2)[0]}.backends.{folder.name}.backend"
    return Plugin(folder.name, "jobc", folder, lambda: importlib.import_module(module).BACKEND)


def _plugin_from_entry_point(entry: EntryPoint) -> Plugin:
    package = entry.module.split(".")[0]
    spec = importlib.util.find_spec(package)  # find_spec() finds a top-level package without importing it
    places = list(spec.submodule_search_locations or []) if spec else []
    folder = Path(places[0]).joinpath(*entry.module.split(".")[1:-1]) if places else Path(package)
    return Plugin(entry.name, f"plugin:{entry.name}", folder, entry.load, entry.dist.version if entry.dist else "")
