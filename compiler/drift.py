"""Whether the inputs of an artifact directory still give it: recompiled from the words that its manifest keeps.

In   an artifact directory, the user's config folders as they are now
Out  Drift, or None when the inputs give the same files
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from .compare import RECORDS, Comparison, Side, compare
from .diagnostics import CompileError, Diagnostic
from .directory import MANIFEST, digest_of, read_manifest
from .driver import Request, compile_job

OF_SWEEP = "it starts the points of a sweep: each of their directories has its own inputs"


@dataclass(frozen=True)
class Drift:
    """What the recorded words give now, against what was written.

    causes:  in words: files that are other ones now, versions of jobc and of the backend's package
    refused: the diagnostics, when they do not compile any more; then the rest is empty
    files:   those that would be written differently, without lib/ and .jobc/; library: whether the trainer would
    found:   what differs in meaning; None when the record of it was edited by hand
    elsewhere: inputs that are not on this machine; then it was not recompiled, and only the causes are known
    """

    causes: tuple[str, ...]
    refused: tuple[Diagnostic, ...] = ()
    files: tuple[str, ...] = ()
    library: bool = False
    found: Comparison | None = None
    elsewhere: tuple[str, ...] = ()


class NotHere(Exception):
    """Input files that are not on this machine, or nothing to recompile from: nothing can be said. In words."""


def drift(folder: Path, config_dirs: tuple[tuple[str, Path], ...]) -> Drift | None:
    """Raises NotHere, and CompileError as read_manifest()."""
    written = read_manifest(folder)
    request = recorded(folder, config_dirs)
    elsewhere = tuple(place for place in written["inputs"] if _is_elsewhere(place, folder, dict(config_dirs)))
    if elsewhere:
        known = {place: digest for place, digest in written["inputs"].items() if place not in elsewhere}
        if causes := _changed(known, dict(config_dirs)):
            return Drift(causes, elsewhere=elsewhere)
        raise NotHere(f"not here: {', '.join(elsewhere)}")
    try:
        artifacts = {artifact.path: artifact.text for artifact in compile_job(request).artifacts}
    except CompileError as error:
        return Drift(_causes(written, {}, dict(config_dirs)), tuple(error.diagnostics))
    now = json.loads(artifacts.pop(MANIFEST))
    if now["digest"] == digest_of(written["files"]):
        return None
    paths = sorted(written["files"].keys() | now["files"].keys())
    other = [path for path in paths if written["files"].get(path) != now["files"].get(path)]
    own = tuple(path for path in other if not path.startswith(("lib/", ".jobc/")))
    library = any(path.startswith("lib/") for path in other)
    return Drift(_causes(written, now, dict(config_dirs)), (), own, library, _compared(folder, written, artifacts))


def recorded(folder: Path, config_dirs: tuple[tuple[str, Path], ...]) -> Request:
    """What jobc was asked for when it wrote the directory. Raises NotHere, and CompileError as read_manifest()."""
    written = read_manifest(folder)
    if "words" not in written:
        raise NotHere(OF_SWEEP)
    command = None if written["command"] is None else tuple(written["command"])
    return Request(tuple(written["words"]), command, config_dirs, written["config_name"], written["strict"])


def _compared(folder: Path, written: Mapping[str, Any], now: Mapping[str, str]) -> Comparison | None:
    """Of what jobc wrote and nobody edited since."""
    before: dict[str, str] = {}
    for path, entry in written["files"].items():
        file = folder / path
        if file.is_file() and hashlib.sha256(content := file.read_bytes()).hexdigest() == entry["sha256"]:
            before[path] = content.decode("utf-8", "replace")
    if not before.keys() >= set(RECORDS):
        return None
    found = compare(Side("", before, frozenset()), Side("", now, frozenset()))
    return replace(found, files=tuple(f for f in found.files if f.path in before or f.path not in written["files"]))


def _causes(written: Mapping[str, Any], now: Mapping[str, Any], folders: Mapping[str, Path]) -> tuple[str, ...]:
    from .. import __version__

    causes = [*_changed(written["inputs"], folders)]
    causes += [f"{place} was not read then" for place in now.get("inputs", {}) if place not in written["inputs"]]
    causes += [f"{place} is not read any more" for place in written["inputs"] if now and place not in now["inputs"]]
    if written["digest"] != digest_of(written["files"]):
        causes.append("the manifest has other sums than jobc wrote")
    if written["jobc"] != __version__:
        causes.append(f"jobc was {written['jobc']}, and is {__version__}")
    if now and written.get("plugin") != now.get("plugin"):
        causes.append(f"the backend was {written.get('plugin')}, and is {now.get('plugin')}")
    return tuple(causes)


def _changed(inputs: Mapping[str, str], folders: Mapping[str, Path]) -> tuple[str, ...]:
    """inputs: place -> digest then. In words, those that are other ones now or gone."""
    now = {place: _text(place, folders) for place in inputs}
    return tuple(
        f"{place} is not there any more" if now[place] is None else f"{place} is not what it was"
        for place, digest in inputs.items()
        if hashlib.sha256((now[place] or "").encode("utf-8", "surrogateescape")).hexdigest() != digest
        or now[place] is None
    )


def _is_elsewhere(place: str, artifact: Path, folders: Mapping[str, Path]) -> bool:
    """Not here, and not because somebody removed it: that is known of a folder that came with the job alone."""
    root = place.partition(":")[0]
    own = next((above / "jobc" for above in artifact.absolute().parents if (above / "jobc").is_dir()), None)
    came_along = root in folders and (root == "input" or (root == "project" and folders[root] == own))
    return _text(place, folders) is None and not came_along


def _text(place: str, folders: Mapping[str, Path]) -> str | None:
    """The input `ROOT:PATH` as it is now; None when it is not here. Root `file`: a path as it was typed."""
    root, _, path = place.partition(":")
    if root != "file" and root not in folders:
        return None
    file = os.path.expanduser(path) if root == "file" else folders[root] / path
    if not os.path.isfile(file):  # which takes any name for one, also that of a user who is not here
        return None
    return Path(file).read_text(encoding="utf-8", errors="surrogateescape")
