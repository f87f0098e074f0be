"""Format and validate `.jobc/job.json`, the only file that describes the artifact itself.

In:  a parsed job.json, which may have been edited by hand. Readers therefore rely only on what this module checks.
Out: the file's text, its checksum, and whether it is valid.

The file contains the settings that jobctl reads; `place`, the artifact's path NAME/BACKEND; the records `identity`,
`spec` and `plan`, as `key = value` lines; and the seal, which records how the artifact was compiled
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

JOB = ".jobc/job.json"
SEAL = ("digest", "versions", "request", "inputs", "checksums")  # the last keys of the file
_REQUEST = {"words", "command", "config_name", "strict"}


def to_canonical_text(tree: Mapping[str, Any]) -> str:
    """Return the file's only valid text: any change of whitespace or order is an edit."""
    return json.dumps(tree, indent=2, ensure_ascii=False) + "\n"


def checksum_without_seal(tree: Mapping[str, Any]) -> str:
    """Return the SHA-256 of the file without its seal, so that it depends only on what a run can read."""
    covered = {key: value for key, value in tree.items() if key not in SEAL}
    return hashlib.sha256(to_canonical_text(covered).encode("utf-8")).hexdigest()


def is_valid_job_json(tree: Any) -> bool:
    return (
        isinstance(tree, dict)
        and isinstance(tree.get("place"), str)
        and isinstance(tree.get("sweep"), bool)
        and isinstance(tree.get("digest"), str)
        and _is_text_by_name(tree.get("versions"))
        and "jobc" in tree["versions"]
        and _is_request(tree.get("request"))
        and _is_text_by_name(tree.get("inputs"))
        and isinstance(tree.get("checksums"), dict)
        and all(is_valid_relative_path(path) and _is_entry(entry) for path, entry in tree["checksums"].items())
    )


def is_valid_relative_path(path: str) -> bool:
    return "\0" not in path and all(part != ".." and 0 < len(part.encode()) <= 255 for part in path.split("/"))


def _is_entry(entry: Any) -> bool:
    return (
        isinstance(entry, dict) and isinstance(entry.get("sha256"), str) and isinstance(entry.get("executable"), bool)
    )


def _is_request(tree: Any) -> bool:
    return (
        isinstance(tree, dict)
        and tree.keys() >= _REQUEST
        and is_list_of_lines(tree["words"])
        and (tree["command"] is None or is_list_of_lines(tree["command"]))
        and isinstance(tree["config_name"], str)
        and isinstance(tree["strict"], bool)
    )


def is_list_of_lines(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(word, str) for word in value)


def _is_text_by_name(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(text, str) for text in value.values())
