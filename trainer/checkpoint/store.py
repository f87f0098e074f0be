"""Write checkpoint folders that are either complete or absent, even if a save is killed or the disk is full.

    checkpoints/step_00000100/{MANIFEST.json, weights.pt, ...}
    checkpoints/best -> step_00000100       the saved step with the lowest validation loss so far
    checkpoints/.step_00000100.replaced     counts as step 100 while step_00000100 does not exist

A save writes a hidden temporary folder, flushes every file to disk, writes the manifest with sizes and hashes last, and
only then gives the folder its final name. Readers trust only files that match the manifest. A checkpoint that cannot be
read (I/O error) may be intact, so it is neither skipped nor removed.
Standard library only; save_and_resume.py defines the files' contents.
"""

import contextlib
import hashlib
import json
import math
import os
import re
import shutil
import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import BinaryIO

from ...runtime.system import untrusted_files
from ...runtime.system.untrusted_files import is_file_name, parse_json
from ..files import NOT_THERE, Content, WriteResult, flush_folder, read_with_retries, sha256_of, write_durably

FORMAT = 1  # format of the manifest and of the files from save_and_resume.py; the seal is the same in all formats
MANIFEST = "MANIFEST.json"
LARGEST_MANIFEST = 64 * untrusted_files.MIB
SEAL = "manifest_sha256"
PREFIX, TEMPORARY = "step_", ".step_"
BEST = "best"
REPLACED = ".replaced"  # suffix of an intact checkpoint that is being replaced while the new one is not yet in place
NAMES = re.compile(rf"{PREFIX}(\d+)|\.{PREFIX}(\d+){re.escape(REPLACED)}")


def step_folder_name(step: int) -> str:
    """Return the folder name of a step, such as step_00000100; names sort by step."""
    return f"{PREFIX}{step:08d}"


class NewerFormatError(Exception):
    """Raised for an intact checkpoint that a later version of the trainer wrote; it is neither read nor skipped."""


def save_checkpoint(
    root: Path,
    step: int,
    files: Mapping[str, Content],
    keep: int,
    val_loss: float | None = None,
    keep_every_steps: int | None = None,
    damaged: Collection[str] = (),
    replaces: bool = False,
) -> Path:
    """Write `files` as the checkpoint of `step`, then remove checkpoints that need not be kept.

    keep, keep_every_steps: the newest `keep` checkpoints, the best one, and those at multiples of `keep_every_steps`
        are kept.
    val_loss: validation loss of these weights, or None if not measured.
    damaged: folders known to be damaged, which are ignored.
    replaces: whether to replace an existing intact checkpoint of `step`, whose state may differ. If false, it is kept,
        unless its loss was measured only now.
    Raises OSError if the disk cannot be written or read. In that case, older checkpoints are unchanged, and no new one
    is visible.
    """
    target = root / step_folder_name(step)
    if not root.is_dir():
        root.mkdir(parents=True, exist_ok=True)
        flush_folder(root.parent)
    remove_leftovers(root)
    newly_measured = val_loss is not None and val_loss_of(target) is None
    if replaces or newly_measured or not target.exists() or find_checkpoint_problem(target) is not None:
        _write_checkpoint(target, step, files, val_loss)
    with contextlib.suppress(OSError):  # the new checkpoint is safe, and the next save tries again to remove the rest
        _remove_old_checkpoints(root, keep, keep_every_steps, set(damaged) - {target.name})
    return target


# ---- writing a checkpoint


def _write_checkpoint(target: Path, step: int, files: Mapping[str, Content], val_loss: float | None) -> None:
    """Create the folder `target`, replacing any old one. A kill at any point leaves either the old or the new one."""
    temporary = target.with_name(f".{target.name}")
    try:
        temporary.mkdir()
        written = {name: write_durably(temporary / name, content) for name, content in files.items()}
        write_durably(temporary / MANIFEST, manifest_bytes(step, written, val_loss))
        flush_folder(temporary)
        if target.exists():  # rename() cannot replace a folder that is not empty
            target.rename(_replaced_path(target))
        temporary.rename(target)
        flush_folder(target.parent)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        with contextlib.suppress(OSError):  # on failure the next save tries again
            _restore_replaced(target)
        raise


def _replaced_path(target: Path) -> Path:
    return target.with_name(f".{target.name}{REPLACED}")


def _restore_replaced(target: Path) -> None:
    if not target.exists():
        _replaced_path(target).rename(target)


def manifest_bytes(step: int, written: Mapping[str, WriteResult], val_loss: float | None) -> bytes:
    entries = {name: {"size": file.size, "sha256": file.sha256} for name, file in written.items()}
    measured = {"val_loss": val_loss} if val_loss is not None and math.isfinite(val_loss) else {}
    tree = {"format": FORMAT, "step": step, **measured, "files": entries}
    return (json.dumps({**tree, SEAL: _manifest_hash(tree)}, indent=2) + "\n").encode()


def _manifest_hash(tree: Mapping[str, object]) -> str:
    """Return the hash of the manifest itself, so that damage to the manifest is detected too."""
    content = {key: value for key, value in tree.items() if key != SEAL}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


# ---- retention


def _remove_old_checkpoints(root: Path, keep: int, keep_every_steps: int | None, damaged: Collection[str]) -> None:
    """Remove checkpoints that are not among the newest, the best or permanent. Unreadable ones are kept."""
    folders = checkpoints_newest_first(root)
    sound = [folder for folder in folders if folder.name not in damaged]
    losses: dict[Path, float] = {}
    unread = []
    for folder in sound:
        try:
            loss = val_loss_of(folder)
        except OSError:
            unread.append(folder)
        else:
            losses |= {} if loss is None else {folder: loss}
    best = min(losses, key=losses.__getitem__, default=None)  # the newest in a tie
    if best is not None and not unread:
        _update_link(best, root / BEST)
    stay = {*sound[:keep], best, *unread}
    for folder in folders:
        is_milestone = keep_every_steps is not None and step_of_folder(folder) % keep_every_steps == 0
        if folder.name in damaged or not (folder in stay or is_milestone):
            _remove_checkpoint(folder)
    remove_leftovers(root)


def val_loss_of(folder: Path) -> float | None:
    """Return the validation loss from a checkpoint's manifest, or None if it has none. Raises OSError."""
    try:
        loss = parse_json(MANIFEST, read_manifest(folder / MANIFEST)).get("val_loss")
    except (*NOT_THERE, untrusted_files.Unreadable, AttributeError):
        return None
    return float(loss) if isinstance(loss, (int, float)) and abs(loss) <= sys.float_info.max else None


def _update_link(folder: Path, link: Path) -> None:
    """Point `link`, a symlink for users and scripts, to a folder. Does nothing on file systems without symlinks."""
    temporary = link.with_name(f"{TEMPORARY}{link.name}")
    if not (link.is_symlink() and os.readlink(link) == folder.name):
        with contextlib.suppress(OSError):
            temporary.symlink_to(folder.name)
            temporary.replace(link)


def _remove_checkpoint(folder: Path) -> None:
    """Remove a checkpoint. Rename it first, so that a kill leaves no partial checkpoint under its name."""
    hidden = folder.with_name(f".{folder.name}.old")
    folder.rename(hidden)
    shutil.rmtree(hidden, ignore_errors=True)


def remove_leftovers(root: Path) -> None:
    """Delete what killed saves and removals left behind. Only the run's single writer may call this.

    Raises OSError, and deletes nothing, if an intact checkpoint cannot be moved back into place.
    """
    for path in root.glob(f"{TEMPORARY}*{REPLACED}"):
        _restore_replaced(root / step_folder_name(step_of_folder(path)))
    for path in root.glob(f"{TEMPORARY}*"):
        if path.is_symlink():
            path.unlink(missing_ok=True)
        shutil.rmtree(path, ignore_errors=True)


# ---- reading and verifying


def checkpoints_newest_first(root: Path) -> list[Path]:
    """Return all checkpoints, verified or not, newest first: by step, because clocks differ. Raises Unreadable."""
    try:
        listed = read_with_retries(os.listdir, root)
    except NOT_THERE:
        return []
    by_step: dict[int, Path] = {}
    for name in sorted(filter(NAMES.fullmatch, listed)):  # a replaced one, whose name starts with a dot, comes first
        by_step[step_of_folder(root / name)] = root / name
    return [by_step[step] for step in sorted(by_step, reverse=True)]


def find_checkpoint_problem(folder: Path) -> str | None:
    """Return what is wrong with a checkpoint, or None if it is exactly as saved.

    Raises NewerFormatError, and Unreadable for an existing file that cannot be read but may be intact.
    """
    try:
        tree = parse_json(MANIFEST, read_with_retries(read_manifest, folder / MANIFEST))
        sound = tree[SEAL] == _manifest_hash(tree)
        if sound and tree["format"] > FORMAT:
            raise NewerFormatError(f"{folder.name} has format {tree['format']}, but this trainer reads format {FORMAT}")
        entries = {str(name): WriteResult(entry["size"], entry["sha256"]) for name, entry in tree["files"].items()}
        if path := next((name for name in entries if not is_file_name(name)), None):
            return f"{MANIFEST} names {path[:100]!r}, which is not a file in that folder"
        if tree["step"] != step_of_folder(folder):
            return f"{MANIFEST} belongs to step {tree['step']}"
    except NOT_THERE as error:
        return f"{MANIFEST} cannot be read ({error.strerror})"
    except untrusted_files.Unreadable as error:
        return f"{MANIFEST} {error.reason}"
    except (ValueError, KeyError, TypeError, AttributeError):
        sound = False
    if not sound:
        return f"{MANIFEST} is damaged"
    return next(
        (wrong for name, expected in entries.items() if (wrong := _describe_difference(folder / name, expected))), None
    )


def _describe_difference(path: Path, expected: WriteResult) -> str | None:
    """Describe how a file differs from its manifest entry, or None if it matches. Raises Unreadable."""
    try:
        actual = read_with_retries(lambda file: _measure_file(file, expected.size), path)
    except NOT_THERE as error:
        return f"{path.name} cannot be read ({error.strerror})"
    except untrusted_files.Unreadable as error:
        return f"{path.name} {error.reason}"
    if actual.size != expected.size:
        return f"{path.name} is {actual.size:,} bytes long instead of {expected.size:,}"
    return None if actual == expected else f"{path.name} is corrupt: its checksum differs from the saved one"


def _measure_file(path: Path, size: int) -> WriteResult:
    """Return size and hash of a file. A file of the wrong size is not read in full and has no hash."""
    with open_own_file(path) as file:
        actual_size = os.fstat(file.fileno()).st_size
        return WriteResult(actual_size, sha256_of(file) if actual_size == size else "")


def open_own_file(path: Path) -> BinaryIO:
    """Open a regular file. Raises OSError for I/O errors, and untrusted_files.Unreadable for any other kind of file."""
    try:
        return untrusted_files.open_regular(path, follow=False)
    except untrusted_files.Unreadable as error:
        raise (error.error or error) from None


def read_manifest(path: Path) -> bytes:
    """Return a manifest's content. Raises like open_own_file(), or untrusted_files.Unreadable if it is too large."""
    with open_own_file(path) as file:
        content = file.read(LARGEST_MANIFEST + 1)
    if len(content) > LARGEST_MANIFEST:
        raise untrusted_files.Unreadable(path, "is larger than 64 MiB")
    return content


def step_of_folder(folder: Path) -> int:
    return int(folder.name.removeprefix(TEMPORARY).removeprefix(PREFIX).removesuffix(REPLACED))
