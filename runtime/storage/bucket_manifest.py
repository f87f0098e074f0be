"""Read a checkpoint's manifest, from a run folder or from the bucket."""

from __future__ import annotations

import hashlib
from pathlib import Path

from ..system.untrusted_files import MIB, Unreadable, is_file_name, parse_json, read_bytes

MANIFEST = "MANIFEST.json"  # as trainer/checkpoint/store.py writes it
LARGEST_NOTE = 64 * MIB  # size limit of a manifest, or of a note about what was restored


def read_manifest(step: Path) -> bytes:
    """Return a checkpoint's manifest, or b"" if it is not a small regular file. Raises OSError."""
    try:
        return read_bytes(step / MANIFEST, LARGEST_NOTE, follow=False)
    except Unreadable as error:
        if error.error is not None:
            raise error.error from None
        return b""


def parse_manifest_entries(manifest: bytes) -> dict[str, tuple[int, str]] | None:
    """Return each file's size in bytes and SHA-256, by name, or None if the manifest is invalid."""
    try:
        files = parse_json(MANIFEST, manifest)["files"]
        entries = {name: (int(entry["size"]), str(entry["sha256"])) for name, entry in files.items()}
    except (Unreadable, ValueError, KeyError, TypeError, AttributeError, OverflowError):
        return None
    return entries if all(map(is_file_name, entries)) else None  # a path could lead out of the folder


def equal_manifest_files(manifest: bytes, former: bytes) -> set[str]:
    """Return the names of the files that have the same size and hash in both manifests."""
    return {
        name
        for name, _ in (parse_manifest_entries(manifest) or {}).items() & (parse_manifest_entries(former) or {}).items()
    }


def sha256_of(path: Path) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()
