"""Write an artifact directory atomically, and verify it later.

A new directory is created next to the old one, synced, and exchanged with it in one step: with renameat2 of Linux 3.15,
or with two renames on other systems. A crash or a full disk therefore leaves the old one unchanged. jobc replaces a
directory only if jobc wrote it and nobody has edited it. `.jobc/job.json` records what jobc wrote.
"""

import errno
import hashlib
import os
import stat
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...runtime.system.frozen_dataclass import dataclass
from ...runtime.system.untrusted_files import MIB, Unreadable, parse_json, read_bytes
from ..diagnostics.diagnostic import CompileError, Diagnostic
from . import job_json
from .artifact import Artifact
from .folder_lock import lock_folder
from .job_json import JOB

MOST_LINES = 100_000  # maximum number of lines in a file that is printed or compared line by line
UNSUMMED = "the digest does not match the checksums"
DAMAGED = "JC5011"
LARGEST = 16 * MIB  # maximum bytes per file in an artifact directory; jobc's own files are smaller than 1 MiB
_REMEDIES = {  # hints for operating system errors
    errno.ENOSPC: "free space, or ",
    errno.EDQUOT: "remove files until you are within your quota, or ",
    errno.EFBIG: "raise the limit of `ulimit -f`, or ",
    errno.EACCES: "get permission to write there, or ",
    errno.EPERM: "get permission to write there, or ",
    errno.ENOTDIR: "move that file elsewhere, or ",
    errno.EEXIST: "move that file elsewhere, or ",
}
IGNORED = ("__pycache__",)  # created by running the artifact, not by editing it


@dataclass(frozen=True)
class ManualEdit:
    """A difference between a directory and its checksums. lines: 1-based, in the current file, or () for all of it."""

    path: str
    kind: str  # changed | missing | added | mode | link | not a regular file | UNSUMMED (for job.json)
    lines: tuple[int, ...] = ()


def file_checksums(artifacts: Iterable[Artifact]) -> dict[str, dict[str, Any]]:
    return {a.path: {"sha256": hashlib.sha256(a.content).hexdigest(), "executable": a.executable} for a in artifacts}


def artifact_digest(entries: Mapping[str, Mapping[str, Any]]) -> str:
    """Return an artifact's digest, computed from its files' checksums."""
    covered = sorted(entries.items())
    return _sha256("".join(f"{path} {entry['sha256']} {entry['executable']}\n" for path, entry in covered))


def write_artifact_dir(target: Path, artifacts: Iterable[Artifact], force: bool = False) -> None:
    """Write these files to `target` and keep files that the user added there.

    If this fails, raises CompileError and leaves `target` unchanged. The codes are JC5001 if jobc cannot replace the
    directory or something in it, JC5002 for files edited by hand (unless force), JC5003 for file system errors (full,
    read-only, no permission), JC5004 for an unreadable job.json, and JC5011 for a damaged one (unless force).
    Concurrent compiles wait for each other.
    """
    artifacts = list(artifacts)
    try:
        _make_artifacts_folder(target.parent.parent)
        target.parent.mkdir(parents=True, exist_ok=True)
        with lock_folder(target):
            _write_exclusively(target, artifacts, force)
    except OSError as error:
        path = error.filename or str(target)
        because = f"{error.strerror or error}: {os.path.relpath(path)}" if path else str(error)
        remedy = _REMEDIES.get(error.errno or 0, "")
        hint = f"{remedy}choose another folder with --out DIR; existing files are unchanged"
        raise CompileError([Diagnostic("JC5003", f"cannot write {os.path.relpath(target)}", because, hint)]) from None


def _make_artifacts_folder(root: Path) -> None:
    """Create the folder for all artifacts, with a .gitignore so that git ignores it."""
    if not root.exists():
        root.mkdir(parents=True, exist_ok=True)
        (root / ".gitignore").write_text("*\n", encoding="utf-8")


def _write_exclusively(target: Path, artifacts: Sequence[Artifact], force: bool) -> None:
    """Do the work of write_artifact_dir(). The caller must hold the lock. Also raises OSError."""
    emitted = {artifact.path: artifact.text for artifact in artifacts}
    foreign_paths = [path for path in _list_foreign_files(target, emitted, force) if path not in emitted]
    _reject_conflicts(target, emitted, foreign_paths)
    staging: Path | None = None
    try:
        _remove_stale_staging(target)
        staging = target.parent / f".{target.name}.{os.getpid()}"
        staging.mkdir()
        for artifact in artifacts:
            _write_file(staging / artifact.path, artifact)
        for folder in (staging, *(p for p in staging.rglob("*") if p.is_dir())):
            folder.chmod(0o755)  # regardless of the umask
        for path in foreign_paths:
            _copy_file(target / path, staging / path)
        _flush_to_disk(staging)
        _exchange_folders(staging, target)
    finally:
        if staging is not None and staging.exists():
            _remove_folder(staging)


def read_job(directory: Path) -> dict[str, Any]:
    """Return job.json with its seal. Raises CompileError JC5004 if it is missing or unreadable, JC5011 if damaged."""
    try:
        content = read_bytes(directory / JOB, LARGEST)
    except Unreadable as error:
        because = f"{JOB} {error.reason}"
        hint = "pass the folder that contains jobctl, such as artifacts/hello/local"
        raise CompileError([Diagnostic("JC5004", f"{directory} is not an artifact directory", because, hint)]) from None
    because = "jobc did not write this folder"
    try:
        tree = parse_json(directory / JOB, content)
    except Unreadable as error:
        tree, because = None, f"it {error.reason}"
    if not job_json.is_valid_job_json(tree):
        title = f"{directory / JOB} is damaged"
        hint = "compile the job again with --force, which rewrites jobc's own files and keeps all others"
        raise CompileError([Diagnostic(DAMAGED, title, because, hint)])
    return dict(tree)


def read_text_with_line_endings(file: Path) -> str:
    """Return a file's text with its line endings. Invalid UTF-8 becomes U+FFFD. Raises Unreadable."""
    text = read_bytes(file, LARGEST).decode("utf-8", "replace")
    if text.count("\n") > MOST_LINES:
        raise Unreadable(file, f"has more than {MOST_LINES:,} lines")
    return text


def find_edited_lines(directory: Path, texts: Mapping[str, str]) -> list[ManualEdit]:
    """Return all hand edits, with the edited lines if they are known. Raises the same errors as read_job().

    texts: path -> what jobc would write there now. If the original text was different, the edited lines are unknown.
    """
    entries = read_job(directory)["checksums"]

    def edited_lines(path: str) -> tuple[int, ...]:
        file = directory / path
        if file.stat().st_size > LARGEST or _sha256(texts.get(path, "")) != entries[path]["sha256"]:
            return ()
        return _changed_lines(read_bytes(file, LARGEST), texts[path])

    return [
        replace(edit, lines=edited_lines(edit.path)) if edit.kind == "changed" else edit
        for edit in find_edited_files(directory)
    ]


def find_edited_files(directory: Path) -> list[ManualEdit]:
    """Return all hand edits, without lines. Raises the same errors as read_job()."""
    tree = read_job(directory)
    entries = tree["checksums"]
    edits = [ManualEdit(JOB, UNSUMMED)] if tree["digest"] != artifact_digest(entries) else []
    edits += [ManualEdit(path, "added") for path in _list_files(directory) - set(entries) - {JOB}]
    for path, entry in entries.items():
        file = directory / path
        if not os.path.lexists(file):
            edits.append(ManualEdit(path, "missing"))
        elif _is_linked(directory, path):
            edits.append(ManualEdit(path, "link"))
        elif not file.is_file():
            edits.append(ManualEdit(path, "not a regular file"))
        elif (job_json_checksum(file) if path == JOB else file_checksum(file)) != entry["sha256"]:
            edits.append(ManualEdit(path, "changed"))
        elif is_executable(file) != entry["executable"]:
            edits.append(ManualEdit(path, "mode"))
    return sorted(edits, key=lambda edit: (edit.path, edit.kind))


def file_checksum(file: Path) -> str:
    """Return a file's SHA-256, or "" if it is larger than LARGEST. Raises Unreadable."""
    if file.stat().st_size > LARGEST:
        return ""
    return hashlib.sha256(read_bytes(file, LARGEST)).hexdigest()


def job_json_checksum(file: Path) -> str:
    """Return a job.json's checksum, or "" for text that jobc does not write. Raises Unreadable."""
    content = read_bytes(file, LARGEST)
    tree = parse_json(file, content)
    is_original = isinstance(tree, dict) and job_json.to_canonical_text(tree).encode() == content
    return job_json.checksum_without_seal(tree) if is_original else ""


def _is_linked(directory: Path, path: str) -> bool:
    """Return whether the file, or a folder above it in the directory, is a symlink."""
    return any((directory / part).is_symlink() for part in (*_parent_folders(path), path))


def is_executable(file: Path) -> bool:
    return bool(file.stat().st_mode & stat.S_IXUSR)


def _changed_lines(content: bytes, text: str) -> tuple[int, ...]:
    from .line_diff import diff_opcodes

    if content.count(b"\n") > MOST_LINES:
        return ()
    before, now = text.split("\n"), content.decode("utf-8", "surrogateescape").split("\n")
    for lines in (before, now):
        if lines and not lines[-1]:
            lines.pop()
    numbers: set[int] = set()
    for kind, _, _, first, last in diff_opcodes(before, now):
        if kind in ("replace", "insert"):
            numbers.update(range(first + 1, last + 1))
        elif kind == "delete":
            numbers.add(max(first, 1))  # the line before the gap
    return tuple(sorted(numbers))


def _list_foreign_files(target: Path, texts: Mapping[str, str], force: bool) -> list[str]:
    """Return the files in `target` that jobc did not write, or all files if job.json is damaged.

    Raises CompileError JC5001, JC5002, JC5004, JC5011 as in write_artifact_dir().
    """
    if not target.is_symlink() and (not target.exists() or (target.is_dir() and not any(target.iterdir()))):
        return []
    if target.is_symlink() or not (target / JOB).is_file():
        because = "the folder has no .jobc/job.json, so its files are not jobc's"
        hint = "move it elsewhere, or choose another folder with --out DIR"
        raise CompileError([Diagnostic("JC5001", f"{target} was not written by jobc", because, hint)])
    try:
        edits = find_edited_lines(target, texts)
    except CompileError as error:
        if force and [diagnostic.code for diagnostic in error.diagnostics] == [DAMAGED]:
            return sorted(_list_files(target))
        raise
    added = [edit.path for edit in edits if edit.kind == "added"]
    edits = [edit for edit in edits if edit.kind != "added" or edit.path in texts]
    if edits and not force:
        shown = ", ".join(describe_edit(edit) for edit in edits[:5]) + (", …" if len(edits) > 5 else "")
        hint = "make the change in the spec, or discard it with --force"
        raise CompileError([Diagnostic("JC5002", f"{target} was edited by hand", f"{shown}", hint)])
    return added


def _reject_conflicts(target: Path, emitted: Collection[str], foreign_paths: Iterable[str]) -> None:
    """Raise CompileError JC5001 for user files whose names conflict with files that jobc writes."""
    folders = {folder for path in emitted for folder in _parent_folders(path)}
    reasons: dict[str, str] = {}
    for path in foreign_paths:
        if hidden := next((folder for folder in _parent_folders(path) if folder in emitted), None):
            reasons[hidden] = "the path is a folder, but jobc writes a file with this name"
        elif path in folders:
            reasons[path] = "the path is not a folder, but jobc writes a folder with this name"
        elif stat.S_IFMT((target / path).lstat().st_mode) not in (stat.S_IFREG, stat.S_IFLNK):
            reasons[path] = "only regular files and symlinks can be kept in the new directory"
    hint = "move it elsewhere, or choose another folder with --out DIR"
    if reasons:
        raise CompileError(
            Diagnostic("JC5001", f"{target / path} was not written by jobc", because, hint)
            for path, because in reasons.items()
        )


def _parent_folders(path: str) -> list[str]:
    """Return the parent folders: `a` and `a/b` for `a/b/c`."""
    parts = path.split("/")
    return ["/".join(parts[:n]) for n in range(1, len(parts))]


def describe_edit(edit: ManualEdit) -> str:
    """Return `launch.sh lines 4, 7-9` or `notes.txt (added)`."""
    if edit.kind != "changed" or not edit.lines:
        return f"{edit.path} ({edit.kind})"
    return f"{edit.path} line{'s' * (len(edit.lines) > 1)} {format_ranges(edit.lines)}"


def _list_files(directory: Path) -> set[str]:
    files = (p for p in directory.rglob("*") if not p.is_dir() or p.is_symlink())
    relative = (p.relative_to(directory) for p in files)
    return {p.as_posix() for p in relative if not any(part in IGNORED for part in p.parts)}


def _write_file(file: Path, artifact: Artifact) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with open(file, "xb") as stream:
        stream.write(artifact.content)
    file.chmod(0o755 if artifact.executable else 0o644)


def _copy_file(file: Path, to: Path) -> None:
    import shutil

    to.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(file, to, follow_symlinks=False)


def _flush_to_disk(folder: Path) -> None:
    """Flush the folder's file system to disk with one syncfs (Linux 2.6.39), ten times faster than fsync per file."""
    syncfs = getattr(_load_libc(), "syncfs", None)
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if syncfs is None or syncfs(fd) != 0:
            os.fsync(fd)
    finally:
        os.close(fd)


def _load_libc() -> Any:
    import ctypes

    return ctypes.CDLL(None, use_errno=True)


def _remove_folder(folder: Path) -> None:
    import shutil

    shutil.rmtree(folder, ignore_errors=True)


_AT_FDCWD, _RENAME_EXCHANGE = -100, 2  # linux/fcntl.h, linux/fs.h


def _exchange_folders(staging: Path, target: Path) -> None:
    """Exchange staging and target, so that the caller can remove the old target."""
    if not target.exists():
        os.rename(staging, target)
        return
    renameat2 = getattr(_load_libc(), "renameat2", None)
    if renameat2 is not None:
        paths = (os.fsencode(staging), os.fsencode(target))
        if renameat2(_AT_FDCWD, paths[0], _AT_FDCWD, paths[1], _RENAME_EXCHANGE) == 0:
            return
    old = staging.with_name(f"{staging.name}.old")
    os.rename(target, old)
    try:
        os.rename(staging, target)
    except OSError:
        os.rename(old, target)
        raise
    os.rename(old, staging)


def _remove_stale_staging(target: Path) -> None:
    """Remove the staging folders of killed compiles: their names contain the ID of a process that no longer exists."""
    for folder in target.parent.glob(f".{target.name}.*"):
        pid = folder.name[len(target.name) + 2 :].split(".")[0]
        gone = not Path("/proc", pid).exists() and Path("/proc").is_dir()
        if pid.isdecimal() and (gone or int(pid) == os.getpid()):
            _remove_folder(folder)


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def format_ranges(numbers: Iterable[int]) -> str:
    """Return the numbers as ranges. numbers: ascending."""
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in ranges)
