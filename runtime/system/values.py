"""Read values from small untrusted files: `key=value` lines, numbers, JSON. No function here raises."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from .text import printable
from .untrusted_files import MIB, Unreadable, open_regular, read_json

MOST_BYTES = 65536  # how much is read from a state file
MOST_JOB_BYTES = 16 * MIB  # size limit of a job.json; an ordinary job's takes 20 KiB


def read_text(path: Path) -> str:
    """Return the first 64 KiB of a regular file, up to a NUL, without control characters, or "" for a symbolic link."""
    try:
        with open_regular(path, follow=False) as file:
            content = file.read(MOST_BYTES)
    except (Unreadable, OSError):
        return ""
    return printable(content.split(b"\0")[0].decode(errors="replace"))


def read_keys(path: Path) -> dict[str, str]:
    """Return a file's lines KEY=VALUE as a mapping. If a key is repeated, the first line wins."""
    return parse_keys(read_text(path))


def parse_keys(text: str) -> dict[str, str]:
    """Parse lines KEY=VALUE as read_keys() does."""
    keys: dict[str, str] = {}
    for line in text.split("\n"):
        name, equals, value = line.partition("=")
        if equals:
            keys.setdefault(name, value)
    return keys


def number_or_none(text: str) -> int | None:
    """Parse the text as an integer if it is 1 to 18 ASCII digits. Return None for any other text."""
    return int(text) if re.fullmatch("[0-9]{1,18}", text) else None


def word_or_empty(text: str) -> str:
    """Return the text if no program could interpret it as an option, a path or a pattern, or else ""."""
    return text if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._@:,+-]*", text) else ""


def read_artifact_json(path: Path) -> dict[str, Any]:
    """Return the mapping in one of an artifact's JSON files, or {} if there is none."""
    try:
        tree = read_json(path, MOST_JOB_BYTES, follow=False)
    except Unreadable:
        return {}
    return tree if isinstance(tree, dict) else {}


def numbers_of_files(folder: str | os.PathLike[str], prefix: str) -> list[int]:
    """Return, in ascending order, each N for which there is a file PREFIX + N; N has no leading zeros."""
    pattern = re.compile(re.escape(prefix) + "(0|[1-9][0-9]{0,17})")
    numbers = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                match = pattern.fullmatch(entry.name)
                if match and entry.is_file(follow_symlinks=False):
                    numbers.append(int(match.group(1)))
    except OSError:
        return []
    return sorted(numbers)
