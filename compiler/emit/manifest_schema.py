"""Validate a parsed manifest: every field that jobc reads exists and has the right type.

A manifest may have been edited by hand, so readers rely only on what is checked here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_ASKED = {"words", "command", "config_name", "strict"}


def is_manifest(tree: Any) -> bool:
    return (
        isinstance(tree, dict)
        and isinstance(tree.get("jobc"), str)
        and isinstance(tree.get("digest"), str)
        and isinstance(tree.get("inputs"), dict)
        and all(isinstance(digest, str) for digest in tree["inputs"].values())
        and isinstance(tree.get("files"), dict)
        and all(is_path(path) and _is_entry(entry) for path, entry in tree["files"].items())
        and isinstance(tree.get("sweep", False), bool)
        and (not _ASKED & tree.keys() or _is_asked(tree))
    )


def is_path(path: str) -> bool:
    """Return whether a text is a valid relative path in the directory."""
    return "\0" not in path and all(part != ".." and 0 < len(part.encode()) <= 255 for part in path.split("/"))


def _is_entry(entry: Any) -> bool:
    return (
        isinstance(entry, dict) and isinstance(entry.get("sha256"), str) and isinstance(entry.get("executable"), bool)
    )


def _is_asked(tree: Mapping[str, Any]) -> bool:
    """Return whether the recorded request is valid. The manifest of a sweep may have an empty one."""
    return (
        _are_words(tree.get("words"))
        and "command" in tree
        and (tree["command"] is None or _are_words(tree["command"]))
        and isinstance(tree.get("config_name"), str)
        and isinstance(tree.get("strict"), bool)
    )


def _are_words(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(word, str) for word in value)
