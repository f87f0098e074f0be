"""Look up everything in the file system that a compile depends on, and record the answers.

A compile depends only on its command line and on these answers, so it can be skipped while both are unchanged.
compose_cache.py uses this within a process, and skip_unchanged.py between processes. Answers are JSON values. Lookups
in jobc's own files and in its Python environment are not recorded here.
"""

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from ...runtime.system.untrusted_files import Unreadable, decode_utf8, read_bytes

FILE, FOLDER = "a file", "a folder"
Answers = dict[tuple[str, str], Any]  # (question, path) -> answer

_TWO_ANSWERS = "the file changed during the compile"
_recorders: list[Answers] = []  # global, because Hydra instantiates the config sources


@contextmanager
def record_answers() -> Iterator[Answers]:
    """Yield a dict that receives every answer until the block ends. Blocks may be nested."""
    answers: Answers = {}
    _recorders.append(answers)
    try:
        yield answers
    finally:
        _recorders[:] = [recorder for recorder in _recorders if recorder is not answers]


def add_to_recordings(answers: Mapping[tuple[str, str], Any]) -> None:
    """Record answers. Two different answers to one question become one that never matches: the file has changed."""
    for recorder in _recorders:
        for key, answer in answers.items():
            recorder[key] = answer if recorder.get(key, answer) == answer else _TWO_ANSWERS


def ask_file_system(question: str, path: str | os.PathLike[str]) -> Any:
    """Return the answer to one of QUESTIONS. "names" raises OSError for a folder that cannot be read.

    Raises Unreadable for a NUL character in the path.
    """
    path = os.fspath(path)
    try:
        answer = QUESTIONS[question](path)
    except ValueError as error:
        raise Unreadable(path, f"cannot be read ({error})") from None
    add_to_recordings({(question, path): answer})
    return answer


def read_text(path: str | os.PathLike[str], limit: int) -> str:
    """Return the UTF-8 text of a file of at most `limit` bytes, without a byte order mark. Raises Unreadable."""
    path = os.fspath(path)
    try:
        content = read_bytes(path, limit)
    except Unreadable:
        add_to_recordings({("content", path): ""})
        raise
    add_to_recordings({("content", path): _sha256_digest(content)})
    return decode_utf8(path, content).removeprefix("\ufeff")


def record_program_lookup(name: str) -> None:
    """Record which program is found on PATH, because a compile's result depends on it."""
    for folder in os.get_exec_path():
        file = os.path.join(folder, name)
        if ask_file_system("kind", file) == FILE:
            with suppress(Unreadable):
                add_to_recordings({("content", file): _sha256_digest(read_bytes(file, _LARGEST))})
            return


def record_no_answer(program: str) -> None:
    """Record that a program did not respond. The record never matches, so the next compile asks again."""
    add_to_recordings({("response", program): ""})


def are_answers_unchanged(answers: Mapping[tuple[str, str], Any]) -> bool:
    try:
        return all(QUESTIONS[question](path) == answer for (question, path), answer in answers.items())
    except (OSError, Unreadable, KeyError, ValueError):
        return False


def path_kind(path: str) -> str:
    """Return what kind of file exists at a path, or "" if there is none."""
    if not os.path.lexists(path):
        return ""
    if os.path.isfile(path):
        return FILE
    if os.path.isdir(path):
        return FOLDER
    return "not a regular file" if os.path.exists(path) else "a broken symlink"


def state_of_written_file(content: bytes, executable: bool) -> list[Any]:
    """Return the answer to "our file" for a file that jobc has just written."""
    return [0o755 if executable else 0o644, _sha256_digest(content)]


_LARGEST = 16 << 20  # bytes of a file; the callers' own limits are lower


def _read_file_state(path: str) -> list[Any]:
    content = read_bytes(path, _LARGEST, follow=False)
    return [os.lstat(path).st_mode & 0o7777, _sha256_digest(content)]


def _sha256_digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _list_ignored_entries(folder: str) -> list[str]:
    from .git_ignored import list_ignored_entries  # imports subprocess, which few compiles need

    return list_ignored_entries(folder)


QUESTIONS: dict[str, Callable[[str], Any]] = {
    "exists": os.path.exists,
    "folder": os.path.isdir,
    "kind": path_kind,
    "link": os.path.islink,
    "names": lambda path: sorted(os.listdir(path)),
    "content": lambda path: _sha256_digest(read_bytes(path, _LARGEST)),
    "real path": os.path.realpath,
    "mode": lambda path: os.lstat(path).st_mode,
    "our file": _read_file_state,
    "ignored": _list_ignored_entries,
}
