"""Read small files that someone else may have written: state files, manifests, metrics, configs, host lists.

In:  a path and a size limit in bytes.
Out: the file's bytes, text or JSON tree; or Unreadable with a reason such as "is a named pipe, not a regular file".

No function here blocks: none waits for a pipe, opens a device, or reads more than the limit. This module uses only the
standard library, because it runs in the supervisor as well as in the compiler (compiler/untrusted_files.py).
"""

from __future__ import annotations

import json
import math
import os
import re
import stat
from pathlib import Path
from typing import Any, BinaryIO

KIB, MIB = 1 << 10, 1 << 20
MOST_DEPTH = 64  # levels of nested lists and mappings; jobc writes fewer than 12
MOST_DIGITS = 100  # maximum digits of a number; a 64-bit number has at most 20, and int() takes quadratic time

_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a directory",
    stat.S_IFSOCK: "a socket",
    stat.S_IFLNK: "a symbolic link",
}
_LONE_SURROGATE = re.compile(r"[\ud800-\udfff]")


class Unreadable(Exception):
    """A file that cannot be used.

    path:    the file.
    reason:  a phrase that completes "FILE ...": "is larger than 1 MiB", "is not valid UTF-8 (byte 12)".
    missing: whether nothing with that name exists.
    error:   what the operating system reported, or None if the file exists but its kind or content is wrong.
    """

    def __init__(
        self, path: str | os.PathLike[str], reason: str, missing: bool = False, error: OSError | None = None
    ) -> None:
        self.path, self.reason, self.missing, self.error = Path(path), reason, missing, error
        super().__init__(f"{os.fspath(path)} {reason}")


def open_regular(path: str | os.PathLike[str], follow: bool = True) -> BinaryIO:
    """Open a regular file for reading. follow: whether to follow a symbolic link. Raises Unreadable."""
    try:
        _require_regular(path, os.stat(path, follow_symlinks=follow).st_mode)  # opening a device may have side effects
        descriptor = os.open(path, _FLAGS | (0 if follow else os.O_NOFOLLOW))
        try:
            _require_regular(path, os.fstat(descriptor).st_mode)
            return os.fdopen(descriptor, "rb")
        except BaseException:
            os.close(descriptor)
            raise
    except (OSError, ValueError) as error:  # ValueError: a NUL character in the path
        raise _unreadable_for_error(path, error) from None


def is_file_name(name: str) -> bool:
    """Return whether a name is a plain file name, and neither a path nor `..`."""
    return 0 < len(name) <= 255 and name not in (".", "..") and not any(c in name for c in "/\0")


def is_safe_relative_path(name: str) -> bool:
    """Return whether a relative path stays inside its folder: no part is empty, `.` or `..`."""
    return all(map(is_file_name, name.split("/")))


def read_bytes(path: str | os.PathLike[str], limit: int = MIB, follow: bool = True) -> bytes:
    """Return the content of a regular file of at most `limit` bytes. Raises Unreadable."""
    with open_regular(path, follow) as file:
        try:
            content = file.read(limit + 1) if os.fstat(file.fileno()).st_size <= limit else None
        except (OSError, MemoryError) as error:
            raise _unreadable_for_error(path, error) from None
    if content is None or len(content) > limit:
        raise Unreadable(path, f"is larger than {_format_size(limit)}")
    return content


def read_text(path: str | os.PathLike[str], limit: int = MIB, follow: bool = True) -> str:
    """Return the UTF-8 text of a file with its line endings unchanged. Raises Unreadable, even for a NUL character."""
    return decode_utf8(path, read_bytes(path, limit, follow))


def read_json(path: str | os.PathLike[str], limit: int = MIB, follow: bool = True) -> Any:
    """Return the JSON tree of a file. Raises Unreadable, even for input that json.loads accepts: NaN, 1e400, a repeated
    key, half of a surrogate pair, "\\u0000".
    """
    return parse_json(path, read_bytes(path, limit, follow))


def decode_utf8(path: str | os.PathLike[str], content: bytes) -> str:
    """Return the text of `content`, which was read from `path`. Raises Unreadable."""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Unreadable(path, f"is not valid UTF-8 (byte {error.start})") from None
    if "\0" in text:
        raise Unreadable(path, f"is not text: it has a NUL character (byte {content.index(0)})")
    return text


def parse_json(path: str | os.PathLike[str], content: bytes | str) -> Any:
    """Return the JSON tree of `content`, which was read from `path`. Raises Unreadable."""
    text = content if isinstance(content, str) else decode_utf8(path, content)
    try:
        tree = json.loads(
            text,
            parse_int=_parse_integer,
            parse_float=_parse_finite_float,
            parse_constant=_reject_constant,
            object_pairs_hook=_dict_without_duplicates,
        )
    except json.JSONDecodeError as error:
        raise Unreadable(path, f"is not valid JSON (line {error.lineno}: {error.msg})") from None
    except ValueError as error:
        raise Unreadable(path, str(error)) from None
    except RecursionError:
        raise Unreadable(path, f"is nested more than {MOST_DEPTH} levels deep") from None
    except MemoryError as error:
        raise _unreadable_for_error(path, error) from None
    _require_printable(path, tree, has_escapes="\\u" in text)
    return tree


def is_nonnegative_integer(value: object) -> bool:
    """Return whether a JSON value is an integer from 0 to 2**63 - 1."""
    return type(value) is int and 0 <= value < 1 << 63


def _require_printable(path: str | os.PathLike[str], tree: Any, has_escapes: bool) -> None:
    """Raise Unreadable if a tree is too deep or has text that cannot be printed or used as a file name."""
    level, depth = [tree], 0
    while level:
        nodes = [node for node in level if isinstance(node, (dict, list))]
        if has_escapes:
            texts = [node for node in level if isinstance(node, str)]
            texts += [key for node in nodes if isinstance(node, dict) for key in node]
            if any("\0" in text or _LONE_SURROGATE.search(text) for text in texts):
                raise Unreadable(path, "contains text that is not valid Unicode, or a NUL character")
        depth += bool(nodes)
        if depth > MOST_DEPTH:
            raise Unreadable(path, f"is nested more than {MOST_DEPTH} levels deep")
        level = [item for node in nodes for item in (node.values() if isinstance(node, dict) else node)]


def _require_regular(path: str | os.PathLike[str], mode: int) -> None:
    if not stat.S_ISREG(mode):
        raise Unreadable(path, f"is {_KINDS.get(stat.S_IFMT(mode), 'a special file')}, not a regular file")


def _unreadable_for_error(path: str | os.PathLike[str], error: BaseException) -> Unreadable:
    if isinstance(error, FileNotFoundError):
        return Unreadable(path, "does not exist", True, error)
    if isinstance(error, NotADirectoryError):
        return Unreadable(path, "does not exist: a part of its path is not a directory", True, error)
    if isinstance(error, MemoryError):
        return Unreadable(path, "does not fit in memory")
    if isinstance(error, OSError):
        return Unreadable(path, f"cannot be read ({error.strerror or error})", error=error)
    return Unreadable(path, f"cannot be read ({error})")


def _parse_integer(digits: str) -> int:
    if len(digits) > MOST_DIGITS:
        raise ValueError(f"contains a number with {len(digits)} digits")
    return int(digits)


def _parse_finite_float(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise ValueError("contains a number beyond the range of a 64-bit float")
    return number


def _reject_constant(name: str) -> float:
    raise ValueError(f"has {name}, which is not valid JSON")


def _dict_without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for key, value in pairs:
        if key in tree:
            raise ValueError(f"has the key {key[:40]!r} twice in one mapping")
        tree[key] = value
    return tree


def _format_size(limit: int) -> str:
    for unit, name in ((1 << 30, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if limit >= unit and limit % unit == 0:
            return f"{limit // unit} {name}"
    return f"{limit} bytes"
