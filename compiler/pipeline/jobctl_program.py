"""jobctl, the packed program in every artifact.

The program contains the modules that the job may need: the verbs with the backend's engine, the programs that run on
nodes, and everything that these import. A job with the bundled trainer gets the whole trainer. Inside the program,
runtime/, trainer/ and the engine are named jobc_runtime, jobc_trainer and jobc_engine. The nodes must have bash and
Python with torch, but not jobc.
"""

import io
import re
import sys
import time
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

from ...runtime.__main__ import PROGRAMS, VERBS
from .. import file_states, user_cache
from ..emit.artifact import PROGRAM, Artifact
from ..plan.launch_plan import LaunchPlan
from ..plugins.registry import PACKAGE

ENGINE, RUNTIME, TRAINER = "jobc_engine", "jobc_runtime", "jobc_trainer"  # in jobctl
MOST_PROGRAMS = 40  # maximum number of programs in the user's cache, up to 0.5 MB each
_PACKER = (sys.version, zlib.ZLIB_RUNTIME_VERSION)  # the bytes of a packed file depend on both
_PACKED = (".py", ".b85", ".txt")
_OF_JOBC = re.compile(rb"^( *from )(?:\.{2,}|jobc\.)(runtime|trainer)\b", re.MULTILINE)
_ENGINE_ON_NODES = ("batch", "job_variables", "join")  # an engine's modules
_ON_NODES = (
    "container", "depot", "launch", "mpi", "node", "node_failure", "rank", "reach", "spawn", "steps",
    "supervise",
)  # fmt: skip
_VERB_FILES = ("engines/check_table.py", *(f"verbs/{name}.py" for name in (*VERBS, "help")))
_PROGRAM_FILES = tuple(f"{PROGRAMS[name]}/{name}.py" for name in _ON_NODES)
_OF_TRAINER = (f"{TRAINER}/smoke.py", f"{TRAINER}/script.py")  # packed for the nodes of every job
# Modules that only jobs with a certain feature need. Other jobs never call the functions that import them, so these
# imports are ignored; imports at the top of a module always count. A feature's modules are packed together.
OF_FEATURES = {
    "bucket": (
        "runtime/storage/bucket",
        "runtime/storage/bucket_mirror",
        "runtime/storage/bucket_run",
        "runtime/storage/depot",
    ),
    "container": ("runtime/containers/container",),
    "fabric": ("runtime/network/fabric",),
    "git": ("runtime/code/code_checkout",),
    "gpus": ("runtime/system/gpus",),
    "hosts": ("runtime/engines/hosts_engine", "runtime/node/task"),
    "host_copies": ("runtime/engines/host_copies", "runtime/engines/host_updates"),
    "mpirun": ("runtime/ranks/mpi",),
    "nodes": ("runtime/network/network", "runtime/preflight/peer_checks", "runtime/supervisor/links"),
    "prefetch": ("runtime/verbs/downloads",),
    "restarts": ("runtime/supervisor/restarts",),
    "secrets": ("runtime/node/job_secrets",),
    "shared_code": ("runtime/preflight/code_digest",),
    "shared_run": ("runtime/node/join_shared_run",),
    "snapshot": ("runtime/code/snapshot",),
    "srun": ("runtime/ranks/tasks",),
    "steps": ("runtime/ranks/steps", "runtime/ranks/then", "runtime/supervisor/run_after_lines"),
    "sweep": (
        "engine/job_array",
        "runtime/engines/sweep_engine",
        "runtime/run_folder/points_file",
        "runtime/verbs/submit_sweep",
        "runtime/verbs/sweep_points",
    ),
}
# Matches imports in functions too. ast.parse() finds the same imports (tests/compiler/pipeline/test_library.py), but
# takes 100 ms.
_IMPORT = re.compile(r"^( *)from (\.+|jobc_)([\w.]*) import (\([^)]*\)|.*)", re.MULTILINE)
_FOR_TYPES = re.compile(r"^if TYPE_CHECKING:\n(?: .*\n|\n)+", re.MULTILINE)


class ProgramContents(NamedTuple):
    """Parts of a program.

    trainer: whether it contains the whole bundled trainer.
    verbs: whether it contains the part that runs on the submitting machine.
    nodes: whether it contains the part that runs on the nodes.
    features: the keys of OF_FEATURES whose modules it contains.
    """

    trainer: bool = False
    verbs: bool = True
    nodes: bool = True
    features: tuple[str, ...] = ()


EVERYTHING = ProgramContents(trainer=True, features=tuple(OF_FEATURES))


def job_program_contents(plan: LaunchPlan, is_point: bool = False) -> ProgramContents:
    """Return what a job's jobctl contains. is_point: whether the job is a point of a sweep"""
    is_used = {
        "bucket": plan.run.storage == "object",
        "container": plan.container.is_entered,
        "fabric": plan.network.profile not in ("auto", "ethernet"),
        "git": plan.code.kind == "git",
        "gpus": plan.topology.gpus > 0,
        "host_copies": plan.run.storage == "node",
        "hosts": plan.topology.nodes > 1,  # an engine that always needs this feature imports it at the top
        "mpirun": plan.launcher == "mpirun",
        "nodes": plan.topology.nodes > 1,
        "prefetch": bool(plan.caches.prefetch),
        "restarts": plan.lifecycle.max_restarts > 0,
        "secrets": bool(plan.secrets),
        "shared_code": plan.code.kind == "shared",
        "shared_run": plan.run.storage == "shared",
        "snapshot": plan.code.kind in ("snapshot", "rsync"),
        "srun": plan.launcher == "srun",
        "steps": bool(plan.setup.before or plan.setup.per_node or plan.setup.then or plan.setup.after),
        "sweep": False,
    }
    names = OF_FEATURES if is_point else (name for name in OF_FEATURES if is_used[name])  # all points share one jobctl
    return ProgramContents(trainer=plan.uses_trainer, features=tuple(names))


@cache
def pack_program(contents: ProgramContents, backend: Path | None = None) -> Artifact:
    """Return jobctl. backend: the folder of the backend whose engine it contains"""
    archive = _pack_cached(contents, backend, zipfile.ZIP_DEFLATED)
    return Artifact(PROGRAM, archive.decode("utf-8", "replace"), executable=True, binary=archive)


@cache
def pack_program_for_nodes(contents: ProgramContents, backend: Path) -> bytes:
    """Return jobctl without its verbs, to be embedded in an engine's file and compressed with it."""
    return _pack_cached(contents._replace(verbs=False), backend, zipfile.ZIP_STORED)


def _pack_cached(contents: ProgramContents, backend: Path | None, method: int) -> bytes:
    """Return the program, from the user's cache if it was packed before, because packing takes 60 ms."""
    folders = [PACKAGE / "runtime", PACKAGE / "trainer", Path(__file__).parent, *([backend] if backend else [])]
    states = [state for folder in folders for state in file_states.list_file_states(folder)]
    newest_ns = max(changed_ns for _, _, changed_ns, _, _ in states)
    key = repr((_PACKER, contents, backend, method, states)).encode()
    if (program := user_cache.read("programs", key)) is not None:
        return program
    started = time.time()
    program = _pack_zip(select_modules(contents, backend), method)
    if newest_ns / 1e9 < started - file_states.SETTLED_S:
        user_cache.write("programs", key, program, MOST_PROGRAMS)
    return program


def select_modules(contents: ProgramContents, backend: Path | None = None) -> dict[str, bytes]:
    """Return path in the archive -> file to pack: all that the program needs, and everything that this imports.

    __main__.py comes first, and the others are sorted.
    """
    files = find_source_files() | _engine_files(backend)
    of_features = {name: [f"jobc_{path}.py" for path in paths] for name, paths in OF_FEATURES.items()}
    barred = {path for name, paths in of_features.items() if name not in contents.features for path in paths}
    together = {path: paths for paths in of_features.values() for path in paths}
    remaining = [path for path in files.keys() - barred if _is_root(path, contents)]
    empty = set() if contents.verbs else {f"{ENGINE}/__init__.py"}  # this module imports the verbs' part of the engine

    def read_packed_file(path: str) -> bytes:
        return b"" if path in empty else rename_imports(files[path].read_bytes())

    needed: dict[str, bytes] = {}
    while remaining:
        path = remaining.pop()
        if path in files and path not in needed:
            needed[path] = read_packed_file(path)
            packages = [f"{folder}/__init__.py" for folder in accumulate(path.split("/")[:-1], "{}/{}".format)]
            imported = [
                other for other, is_at_top in _imported_paths(path, needed[path]) if is_at_top or other not in barred
            ]
            remaining += [*packages, *together.get(path, ()), *imported]
    return {"__main__.py": read_packed_file(f"{RUNTIME}/__main__.py")} | {path: needed[path] for path in sorted(needed)}


def _is_root(path: str, contents: ProgramContents) -> bool:
    package, _, below = path.partition("/")
    if package == RUNTIME:
        return (contents.verbs and below in _VERB_FILES) or (contents.nodes and below in _PROGRAM_FILES)
    if package == TRAINER:
        return contents.nodes and (contents.trainer or path in _OF_TRAINER)
    return contents.nodes if Path(path).stem in _ENGINE_ON_NODES else contents.verbs


def find_source_files() -> dict[str, Path]:
    """Return path in jobctl -> file, for the files of runtime/ and trainer/."""
    folders = {RUNTIME: PACKAGE / "runtime", TRAINER: PACKAGE / "trainer"}
    files = {
        f"{name}/{file.relative_to(folder).as_posix()}": file
        for name, folder in folders.items()
        for file in folder.rglob("*")
        if file.suffix in _PACKED
    }
    return {path: files[path] for path in sorted(files) if "__pycache__" not in path}


def _engine_files(backend: Path | None) -> dict[str, Path]:
    """Return the backend's engine.py, or the modules of its engine/, as the module or package jobc_engine."""
    if backend is None:
        return {}
    files = {f"{ENGINE}.py": backend / "engine.py"}
    if (backend / "engine").is_dir():
        files = {f"{ENGINE}/{file.name}": file for file in sorted((backend / "engine").glob("*.py"))}
    return {path: file for path, file in files.items() if file.is_file()}


def rename_imports(text: bytes) -> bytes:
    """Return the module with its imports of runtime/ and trainer/ renamed as in jobctl."""
    return _OF_JOBC.sub(rb"\1jobc_\2", text)


def _imported_paths(path: str, text: bytes) -> Iterator[tuple[str, bool]]:
    """Yield each path that `from ..package.module import name` may refer to (the module, the package, or a module
    `name`), and whether the import is at the top of the file instead of in a function.
    """
    if not path.endswith(".py"):
        return
    source = text.decode("utf-8")
    if "TYPE_CHECKING" in source:
        source = _FOR_TYPES.sub("", source)
    for indent, dots, module, names in _IMPORT.findall(source):
        above = path.split("/")[: -len(dots)] if dots.startswith(".") else []
        base = "/".join([*above, *filter(None, (module if above else f"jobc_{module}").split("."))])
        for stem in (base, f"{base}/__init__", *(f"{base}/{name}" for name in re.findall(r"\w+", names))):
            yield f"{stem}.py", not indent


def _pack_zip(files: Mapping[str, bytes], method: int) -> bytes:
    """Build an executable zip file that works as `python FILE` and on PYTHONPATH. The result is deterministic."""
    archive = io.BytesIO()
    archive.write(b"#!/usr/bin/env python3\n")
    with zipfile.ZipFile(archive, "a") as zip_file:
        for name, text in files.items():
            entry = zipfile.ZipInfo(name)  # ZipInfo's default date is 1980-01-01
            entry.external_attr, entry.create_system = 0o644 << 16, 3
            zip_file.writestr(entry, text, method, compresslevel=9)
    return archive.getvalue()
