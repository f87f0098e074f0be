"""Folders of checkpoints that are complete or not there, whatever is killed or full while they are written.

    checkpoints/step_00000100/{MANIFEST.json, weights.pt, ...}
    checkpoints/best -> step_00000100       the lowest validation loss so far, where one was measured at a save

A save writes a hidden temporary folder, flushes every file to disk, writes the manifest with sizes and hashes
last, and only then gives the folder its name. A reader trusts nothing that its manifest does not confirm.
Standard library only; what the files contain is checkpoint.py's business.
"""

import contextlib
import hashlib
import json
import math
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

MANIFEST = "MANIFEST.json"
SEAL = "manifest_sha256"
PREFIX, TEMPORARY = "step_", ".step_"
BEST = "best"


def folder_name(step: int) -> str:
    """step_00000100: names sort by step."""
    return f"{PREFIX}{step:08d}"


def save(root: Path, step: int, files: Mapping[str, bytes], keep: int, val_loss: float | None = None) -> Path:
    """Write `files` as the checkpoint of `step`; keep the newest `keep` checkpoints and the best, remove all others.

    val_loss: measured with these weights; None when it was not
    Raises OSError when the disk does not take it: older checkpoints are untouched, nothing new is visible.
    """
    target = root / folder_name(step)
    root.mkdir(parents=True, exist_ok=True)
    remove_leftovers(root)
    if not target.exists() or problem(target) is not None:  # else it is the same step of the same run
        _write(target, step, files, val_loss)
    best_one = best(root)
    _point_to(best_one, root / BEST)
    for old in newest_first(root)[keep:]:
        if old != best_one:
            _remove(old)
    remove_leftovers(root)
    return target


def _write(target: Path, step: int, files: Mapping[str, bytes], val_loss: float | None) -> None:
    """Make the folder `target`, replacing a damaged one."""
    temporary = target.with_name(f".{target.name}")
    try:
        temporary.mkdir()
        for name, content in files.items():
            write_durably(temporary / name, content)
        write_durably(temporary / MANIFEST, _manifest(step, files, val_loss))
        _flush_folder(temporary)
        if target.exists():  # a folder that is not empty cannot be renamed over
            target.rename(target.with_name(f".{target.name}.damaged"))
        temporary.rename(target)
        _flush_folder(target.parent)
    except OSError:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def newest_first(root: Path) -> list[Path]:
    """All checkpoints, verified or not, by falling step, not by time of file: clocks of nodes differ."""
    if not root.is_dir():
        return []
    folders = (path for path in root.iterdir() if path.name.startswith(PREFIX) and path.name[len(PREFIX) :].isdigit())
    return sorted(folders, key=step_of, reverse=True)


def best(root: Path) -> Path | None:
    """The checkpoint with the lowest validation loss, of equal ones the newest; None when none was measured.

    The manifests are asked, not the link: a kill between a save and the link then costs nothing.
    """
    measured = [(loss, folder) for folder in newest_first(root) if (loss := _val_loss(folder)) is not None]
    return min(measured, key=lambda one: one[0])[1] if measured else None


def _val_loss(folder: Path) -> float | None:
    try:
        loss = json.loads((folder / MANIFEST).read_bytes()).get("val_loss")
    except (OSError, ValueError, AttributeError):
        return None
    return float(loss) if isinstance(loss, (int, float)) and math.isfinite(loss) else None


def _point_to(folder: Path | None, link: Path) -> None:
    """The link that people and scripts read; a file system without symbolic links does without."""
    temporary = link.with_name(f"{TEMPORARY}{link.name}")
    if folder is not None and not (link.is_symlink() and os.readlink(link) == folder.name):
        with contextlib.suppress(OSError):
            temporary.symlink_to(folder.name)
            temporary.replace(link)


def newest_verified(root: Path) -> tuple[Path | None, list[str]]:
    """The newest checkpoint whose manifest holds, and one line for each newer one that is damaged."""
    damaged: list[str] = []
    for folder in newest_first(root):
        found = problem(folder)
        if found is None:
            return folder, damaged
        damaged.append(f"{folder.name}: {found}")
    return None, damaged


def problem(folder: Path) -> str | None:
    """What is wrong with a checkpoint, naming the file; None when it is exactly what was saved."""
    try:
        manifest = json.loads((folder / MANIFEST).read_bytes())
        entries = {str(name): (entry["size"], entry["sha256"]) for name, entry in manifest["files"].items()}
        sound = manifest[SEAL] == _seal(manifest)
    except OSError as error:
        return f"{MANIFEST} cannot be read ({error.strerror})"
    except (ValueError, KeyError, TypeError, AttributeError):
        sound = False
    if not sound:
        return f"{MANIFEST} is damaged"
    for name, (size, sha256) in entries.items():
        try:
            with open(folder / name, "rb") as file:
                if os.fstat(file.fileno()).st_size != size:
                    return f"{name} has {os.fstat(file.fileno()).st_size:,} bytes instead of {size:,}"
                if _sha256_of(file) != sha256:
                    return f"{name} does not have the bytes that were saved"
        except OSError as error:
            return f"{name} cannot be read ({error.strerror})"
    return None


def step_of(folder: Path) -> int:
    """The step in the folder's name."""
    return int(folder.name.removeprefix(PREFIX))


def remove_leftovers(root: Path) -> None:
    """Delete what killed saves and removals left behind. Only the one writer of a run may call this."""
    for path in root.glob(f"{TEMPORARY}*"):
        if path.is_symlink():
            path.unlink(missing_ok=True)
        shutil.rmtree(path, ignore_errors=True)


def write_durably(path: Path, content: bytes) -> None:
    """Write a file that is on the disk when this returns."""
    with open(path, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def replace_durably(path: Path, content: bytes) -> None:
    """Give `path` this content in one step: readers see the old file or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        write_durably(temporary, content)
        os.replace(temporary, path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    _flush_folder(path.parent)


def _remove(folder: Path) -> None:
    """Hide the folder first, so that a kill in the middle leaves no half checkpoint under its name."""
    hidden = folder.with_name(f".{folder.name}.old")
    folder.rename(hidden)
    shutil.rmtree(hidden, ignore_errors=True)


def _manifest(step: int, files: Mapping[str, bytes], val_loss: float | None) -> bytes:
    entries = {
        name: {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()} for name, content in files.items()
    }
    measured = {"val_loss": val_loss} if val_loss is not None and math.isfinite(val_loss) else {}
    tree = {"format": 1, "step": step, **measured, "files": entries}
    return (json.dumps({**tree, SEAL: _seal(tree)}, indent=2) + "\n").encode()


def _seal(tree: Mapping[str, object]) -> str:
    """The manifest's own hash, so that damage to it is noticed too."""
    content = {key: value for key, value in tree.items() if key != SEAL}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _sha256_of(file: BinaryIO) -> str:
    digest = hashlib.sha256()
    while chunk := file.read(1 << 20):
        digest.update(chunk)
    return digest.hexdigest()


def _flush_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
