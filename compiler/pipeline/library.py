"""jobctl, the packed program in every artifact.

It contains the modules that this job may need: the verbs with the backend's engine, and the programs that run on nodes,
each with its imports. A job with the bundled trainer gets the whole trainer.
In it, the packages runtime/ and trainer/ are named jobc_runtime and jobc_trainer, and the engine jobc_engine. On the
nodes, it requires bash and Python with torch, but not jobc.
"""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

from ...runtime.__main__ import PROGRAMS
from ..emit.artifact import Artifact
from ..plan.launch_plan import LaunchPlan
from ..plugins.registry import PACKAGE

PROGRAM = "jobctl"  # path of the program in an artifact
ENGINE, RUNTIME, TRAINER = "jobc_engine", "jobc_runtime", "jobc_trainer"  # in jobctl
_PACKED = (".py", ".b85", ".txt")
_OF_JOBC = re.compile(rb"^( *from )(?:\.{2,}|jobc\.)(runtime|trainer)\b", re.MULTILINE)
_ENGINE_ON_NODES = ("batch", "job_variables", "join")  # an engine's modules
_ON_NODES = ("launch", "node", "node_checks", "node_failure", "rank", "reach", "spawn", "supervise")
_PROGRAM_FILES = tuple(f"{PROGRAMS[name]}/{name}.py" for name in _ON_NODES)
_OF_TRAINER = (f"{TRAINER}/smoke.py", f"{TRAINER}/script.py")  # on the nodes of every job
# Modules that only some jobs include. Other modules import them only where such a job needs them.
_OF_PROGRAMS = {
    "container": (f"{RUNTIME}/containers/container.py",),
    "depot": (f"{RUNTIME}/storage/depot.py", f"{RUNTIME}/storage/bucket_run.py"),
    "mpi": (f"{RUNTIME}/ranks/mpi.py",),
    "steps": (f"{RUNTIME}/ranks/steps.py", f"{RUNTIME}/supervisor/after.py"),
}
# Includes imports in functions. ast.parse() finds the same (tests/compiler/pipeline/test_library.py) in 100 ms.
_IMPORT = re.compile(r"^ *from (\.+|jobc_)([\w.]*) import (\([^)]*\)|.*)", re.MULTILINE)
_FOR_TYPES = re.compile(r"^if TYPE_CHECKING:\n(?: .*\n|\n)+", re.MULTILINE)


class Contents(NamedTuple):
    """Parts of a program.

    trainer: the whole bundled trainer; verbs, nodes: what runs on the submitting machine and on the nodes
    programs: more programs for nodes, from _OF_PROGRAMS
    """

    trainer: bool = False
    verbs: bool = True
    nodes: bool = True
    programs: tuple[str, ...] = ()


EVERYTHING = Contents(trainer=True, programs=tuple(_OF_PROGRAMS))


def contents_of(plan: LaunchPlan) -> Contents:
    """Return what a job's jobctl contains."""
    is_used = {
        "container": plan.container.is_entered,
        "depot": plan.run.storage == "object",
        "mpi": plan.launcher == "mpirun",
        "steps": bool(plan.setup.before or plan.setup.per_node or plan.setup.after),
    }
    return Contents(trainer=plan.uses_trainer, programs=tuple(name for name in _OF_PROGRAMS if is_used[name]))


@cache
def program(contents: Contents, backend: Path | None = None) -> Artifact:
    """Return jobctl. backend: the folder of the backend whose engine it contains"""
    archive = _pack(modules(contents, backend), zipfile.ZIP_DEFLATED)
    return Artifact(PROGRAM, archive.decode("utf-8", "replace"), executable=True, binary=archive)


@cache
def program_on_nodes(contents: Contents, backend: Path) -> bytes:
    """Return jobctl without its verbs, for an engine's file that carries the program to the nodes. It is not
    compressed, so that the caller can compress it as a whole.
    """
    return _pack(modules(contents._replace(verbs=False), backend), zipfile.ZIP_STORED)


def modules(contents: Contents, backend: Path | None = None) -> dict[str, bytes]:
    """Return the files to pack, by their paths in the archive: __main__.py first, then sorted."""
    files = source_files() | _engine(backend)
    barred = {path for name, paths in _OF_PROGRAMS.items() if name not in contents.programs for path in paths}
    roots = [path for path in files if _is_root(path, contents)]
    roots += [path for name in contents.programs for path in _OF_PROGRAMS[name]]
    empty = set() if contents.verbs else {f"{ENGINE}/__init__.py"}  # this module imports the verbs' part of the engine

    def read(path: str) -> bytes:
        return b"" if path in empty else renamed(files[path].read_bytes())

    needed = _with_imports(files.keys() - barred, roots, read)
    return {"__main__.py": read(f"{RUNTIME}/__main__.py")} | {path: needed[path] for path in sorted(needed)}


def _is_root(path: str, contents: Contents) -> bool:
    package, _, below = path.partition("/")
    if package == RUNTIME:
        is_verb = below.startswith("verbs/") or below in ("node/task.py", "engines/table.py")
        return contents.verbs if is_verb else contents.nodes and below in _PROGRAM_FILES
    if package == TRAINER:
        return contents.nodes and (contents.trainer or path in _OF_TRAINER)
    return contents.nodes if Path(path).stem in _ENGINE_ON_NODES else contents.verbs


def source_files() -> dict[str, Path]:
    """Return the files of runtime/ and trainer/ by their paths in jobctl."""
    folders = {RUNTIME: PACKAGE / "runtime", TRAINER: PACKAGE / "trainer"}
    files = {
        f"{name}/{file.relative_to(folder).as_posix()}": file
        for name, folder in folders.items()
        for file in folder.rglob("*")
        if file.suffix in _PACKED
    }
    return {path: files[path] for path in sorted(files) if "__pycache__" not in path}


def _engine(backend: Path | None) -> dict[str, Path]:
    """Return the backend's engine.py, or the modules of its engine/, as the module or package jobc_engine."""
    if backend is None:
        return {}
    files = {f"{ENGINE}.py": backend / "engine.py"}
    if (backend / "engine").is_dir():
        files = {f"{ENGINE}/{file.name}": file for file in sorted((backend / "engine").glob("*.py"))}
    return {path: file for path, file in files.items() if file.is_file()}


def renamed(text: bytes) -> bytes:
    """Return a module with its imports of runtime/ and trainer/ renamed as in jobctl."""
    return _OF_JOBC.sub(rb"\1jobc_\2", text)


def _with_imports(paths: Set[str], roots: Iterable[str], read: Callable[[str], bytes]) -> dict[str, bytes]:
    """Return the roots and everything that they import from `paths`, as read."""
    needed: dict[str, bytes] = {}
    remaining = list(roots)
    while remaining:
        path = remaining.pop()
        if path in paths and path not in needed:
            needed[path] = read(path)
            packages = [f"{folder}/__init__.py" for folder in accumulate(path.split("/")[:-1], "{}/{}".format)]
            remaining += [*packages, *_imports(path, needed[path])]
    return needed


def _imports(path: str, text: bytes) -> Iterator[str]:
    """Yield paths that `from ..package.module import name` may refer to: the module, its package, or module `name`."""
    if not path.endswith(".py"):
        return
    source = text.decode("utf-8")
    if "TYPE_CHECKING" in source:
        source = _FOR_TYPES.sub("", source)
    for dots, module, names in _IMPORT.findall(source):
        above = path.split("/")[: -len(dots)] if dots.startswith(".") else []
        base = "/".join([*above, *filter(None, (module if above else f"jobc_{module}").split("."))])
        yield from (f"{base}.py", f"{base}/__init__.py", *(f"{base}/{name}.py" for name in re.findall(r"\w+", names)))


def _pack(files: Mapping[str, bytes], method: int) -> bytes:
    """Build an executable zip file, usable as `python FILE` and on PYTHONPATH. Deterministic."""
    archive = io.BytesIO()
    archive.write(b"#!/usr/bin/env python3\n")
    with zipfile.ZipFile(archive, "a") as zip_file:
        for name, text in files.items():
            entry = zipfile.ZipInfo(name)  # ZipInfo's default date is 1980-01-01
            entry.external_attr, entry.create_system = 0o644 << 16, 3
            zip_file.writestr(entry, text, method)
    return archive.getvalue()
