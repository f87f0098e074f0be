"""Recognize a compile that would change nothing, without composing it.

After a compile, a file in the user's cache records the compile's output and everything that it depended on: its lookups
in the file system (frontend/observed_files.py), the state of jobc's own files, and the installed packages. If the same
command line is run again in the same directory and nothing has changed, including the artifact's files, the recorded
output is printed again and nothing else happens. This takes a fifth of a compile's time, because neither Hydra nor most
of the compiler is imported.

Failed compiles and sweeps are not recorded. Neither are compiles in an environment where another package provides a
backend or a policy, because such code may read anything.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, cast

from ...runtime.system.untrusted_files import Unreadable, parse_json
from .. import user_cache
from ..file_states import SETTLED_S, list_file_states
from ..frontend.observed_files import (
    add_to_recordings,
    are_answers_unchanged,
    ask_file_system,
    record_answers,
    state_of_written_file,
)

if TYPE_CHECKING:
    from ..emit.artifact import Artifact

FORMAT = 1  # version of the record's format
RECORDS, MOST_RECORDS = "compiles", 500  # folder in the user's cache
_HYDRA_PLUGINS = "hydra_plugins"  # package in which Hydra 1.3 looks for plugins, which may add config folders
_PACKAGE = Path(__file__).parents[2]
_OWN_FOLDERS = ("backends", "compiler", "conf", "runtime", "trainer")
_VARIABLES = ("HOME", "PATH", "XDG_CONFIG_HOME", "NO_COLOR", "GITHUB_WORKSPACE")  # all that a compile reads


def reprint_if_unchanged(words: Sequence[str]) -> bool:
    """Print the recorded output if a compile would change nothing. Returns whether it was printed.

    Raises OSError if the output cannot be written.
    """
    key = key_of_record(words)
    if key is None or (known := _read_record(key)) is None:
        return False
    try:
        if known["code"] != installed_code_state() or not are_answers_unchanged(
            {(q, path): answer for q, path, answer in known["answers"]}
        ):
            return False
        out, err = str(known["stdout"]), str(known["stderr"])
    except (KeyError, TypeError, ValueError):
        return False
    sys.stderr.write(err)
    sys.stdout.write(out)
    sys.stdout.flush()
    return True


def compile_and_record(words: Sequence[str], compile_job: Callable[[], int]) -> int:
    """Compile, record the compile if it succeeds, and return its exit code."""
    key, code, started = key_of_record(words), installed_code_state(), time.time()
    streams = sys.stdout, sys.stderr
    out, err = _RecordingStream(sys.stdout), _RecordingStream(sys.stderr)
    sys.stdout, sys.stderr = cast(TextIO, out), cast(TextIO, err)
    try:
        with record_answers() as answers:
            status = compile_job()
    finally:
        sys.stdout, sys.stderr = streams
    if status == 0 and key is not None and not _has_foreign_plugins() and code[1] / 1e9 < started - SETTLED_S:
        questions = [[question, path, answer] for (question, path), answer in answers.items()]
        record = {"code": code, "answers": questions, "stdout": out.text, "stderr": err.text}
        user_cache.write(RECORDS, key, json.dumps(record).encode(), MOST_RECORDS)
    return status


def record_written_files(files: Iterable[Artifact], target: Path) -> None:
    """Record the files of an artifact directory that was just written."""
    folder = target.absolute()
    answers = {file.path: state_of_written_file(file.content, file.executable) for file in files}
    add_to_recordings({("our file", str(folder / path)): answer for path, answer in answers.items()})
    for part in (folder, folder / ".jobc"):
        ask_file_system("real path", part)
        ask_file_system("mode", part)


class _RecordingStream:
    """A text stream that also keeps all text written to it."""

    def __init__(self, stream: TextIO) -> None:
        self._stream, self._kept = stream, StringIO()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        self._kept.write(text)
        return self._stream.write(text)

    @property
    def text(self) -> str:
        return self._kept.getvalue()


def installed_code_state() -> list[Any]:
    """Return the state of all code that a compile runs (jobc's own files and the installed packages), as a digest and
    the time of the last change to jobc's files in nanoseconds since 1970.
    """
    own = [_PACKAGE / name for name in _OWN_FOLDERS]
    files = [*list_file_states(_PACKAGE, below=False), *(state for folder in own for state in list_file_states(folder))]
    digest, newest = hashlib.sha256(), 0
    for state in files:
        digest.update(repr(state).encode("utf-8", "surrogateescape"))
        newest = max(newest, state[2])
    for folder in dict.fromkeys(sys.path):
        plugins = os.path.isdir(os.path.join(folder, _HYDRA_PLUGINS))
        digest.update(repr((folder, plugins, *_packages_in(folder))).encode("utf-8", "surrogateescape"))
    return [digest.hexdigest(), newest]


def _packages_in(folder: str) -> Iterator[tuple[str, int]]:
    """Yield each distribution in a folder of sys.path, and when its entry points last changed (0 if it has none)."""
    try:
        names = sorted(name for name in os.listdir(folder or ".") if name.endswith((".dist-info", ".egg-info")))
    except OSError:  # the folder is a zip file or is missing
        names = [""] if os.path.isfile(folder) else []
    for name in names:
        file = os.path.join(folder, name, "entry_points.txt") if name else folder
        try:
            yield name, os.stat(file).st_mtime_ns
        except OSError:
            yield name, 0


def _has_foreign_plugins() -> bool:
    """Return whether a compile runs third-party code, which may read anything: a backend, policy or Hydra plugin."""
    from ..plugins.registry import find_plugins, find_policies

    if any(os.path.isdir(os.path.join(folder, _HYDRA_PLUGINS)) for folder in sys.path):
        return True
    return bool(find_policies()) or any(plugin.root != "jobc" for plugin in find_plugins().values())


def key_of_record(words: Sequence[str]) -> bytes | None:
    """Return the cache key for a command line in this directory, or None if the directory no longer exists."""
    try:
        here = os.getcwd()
    except OSError:
        return None
    variables = {name: os.environ.get(name) for name in _VARIABLES}
    place = [FORMAT, list(words), here, variables, sys.path, sys.version, sys.stderr.isatty()]
    return json.dumps(place).encode()


def _read_record(key: bytes) -> dict[str, Any] | None:
    """Return the record with this key if this user wrote it, or None if there is none."""
    try:
        tree = parse_json(RECORDS, user_cache.read(RECORDS, key) or b"")
    except Unreadable:
        return None
    return tree if isinstance(tree, dict) else None
