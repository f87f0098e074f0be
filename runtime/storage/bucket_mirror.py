"""Synchronize a node's run folder with the run in the bucket: what is uploaded and downloaded, and in which order.

Up:   Checkpoints first: the files, then MANIFEST.json, so that a folder without a manifest is not a checkpoint.
      Checkpoints deleted on the node are deleted in the bucket. Logs and metrics are uploaded as numbered parts,
      because objects cannot be appended to. Other files are uploaded whenever they have changed, and the node's exit
      record is uploaded last.
Down: The stop mark, the request to save, the first failure, and the rendezvous endpoint. At the start of an attempt,
      also the newest checkpoint whose files match the sizes and hashes in its manifest, and the run's last step.
Note: restore_checkpoint() runs in its own process. state/.restored tells the uploading process what was downloaded.
Hidden files, links, the code and the trainer are not uploaded.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ..run_folder.removal import remove_folder
from ..run_folder.run_folder import (
    COMMANDS,
    PROGRESS,
    REACHED,
    RunFolder,
    last_step_in_metrics,
    parse_small_file,
    record_first_failure,
    replace_file,
    write_small_file,
)
from ..system.untrusted_files import Unreadable, is_safe_relative_path, read_json
from .bucket_manifest import (
    LARGEST_NOTE,
    MANIFEST,
    equal_manifest_files,
    parse_manifest_entries,
    read_manifest,
    sha256_of,
)
from .bucket_run import GRAIN_S, SAVE, SILENT_S, STOP, BucketRun

STEP = "checkpoints/step_"
RESTORED = "state/.restored"
SMALL_BYTES = 64 * 1024  # a larger file may be partly written: it is uploaded once two scans find it unchanged
METRICS = "metrics/rank_00.jsonl"
HEAD_FILES = ("state/head", "state/link")  # written by node 0 for the other nodes
TRAINERS = re.compile(r"checkpoints/step_\d{8,}")  # name of a checkpoint folder in trainer/checkpoint/store.py
PUT_ASIDE = re.compile(r"(metrics/.*\.jsonl)\.(\d+)")  # rotated by trainer/loop/metrics.py, oldest first; joined here
if TYPE_CHECKING:
    Seen = tuple[int, int, int]  # mtime in ns, size, inode


class BucketMirror:
    """Synchronizes `folder`, which is the run folder of node `node`, with `run`."""

    def __init__(self, run: BucketRun, folder: RunFolder, node: int) -> None:
        self.run, self.folder, self.node = run, folder, node
        self._up: dict[str, Seen] = {}  # files that are in the bucket, and their version there
        self._before: dict[str, Seen] = {}  # files as they were in the previous scan
        self._sent: dict[tuple[str, int], int] = {}  # log, inode -> bytes of that file already in the bucket
        self._parts: dict[str, int] = {}  # log -> number of objects
        self._stubs: dict[str, list[str]] = {}  # checkpoint with only its manifest here -> its files in the bucket
        self._known: dict[str, bytes] = {}  # content of small files that were downloaded or uploaded

    # ---- down

    def restore_checkpoint(self, source: BucketRun, into: Path, everything: bool) -> str | None:
        """Download `source`'s newest intact checkpoint to `into`. Return its name, or None if there is none.

        everything: True on node 0, which reads checkpoints for all ranks. If False, download only
        what the user's program wrote to checkpoints/, not the trainer's step folders. Of older checkpoints, only the
        manifests are downloaded, so that the trainer knows the best one and can delete old ones.
        """
        start = len(source.folder) + 1
        objects = [(item.key[start:], item) for item in source.bucket.list(source.object_key("checkpoints/"))]
        listed = {name: item for name, item in objects if is_safe_relative_path(name)}  # not `../x`
        sizes = {name: item.size for name, item in listed.items()}
        for name, size in sizes.items():
            if not name.startswith(STEP):
                self._download_file(source, name, into / name, size)
        newest: str | None = None
        stubs: dict[str, list[str]] = {}  # older checkpoints, of which only the manifest is downloaded
        for step in sorted({name.rpartition("/")[0] for name in sizes if name.startswith(STEP)}, reverse=True):
            manifest = f"{step}/{MANIFEST}"
            if not everything or manifest not in sizes:
                continue
            self._download_file(source, manifest, into / manifest, sizes[manifest])
            if newest is None and self._fetch_step(source, into / step, step, sizes):
                newest = step
                print(f"jobc: downloaded {step} from {source.bucket.url}/{source.folder}", flush=True)
            elif newest != step:
                stubs[step] = [name for name in sizes if name.startswith(f"{step}/")]
        if into == self.folder.path:
            if everything:
                stubs.update(self._leftover_checkpoint_files({name: item.age_s for name, item in listed.items()}))
            self._record_downloaded_files(stubs)
        return newest

    def download_progress(self) -> None:
        """Download the state of attempt_counter.py and the last step in the metrics. Called on node 0, before
        restore_checkpoint().
        """
        for name in (PROGRESS, COMMANDS):
            if (content := self.run.get(name)) is not None:
                replace_file(self.folder.path / name, content)
        tail = b""
        for part in sorted(self.run.object_ages(f"{METRICS}/"), reverse=True):
            tail = (self.run.get(part) or b"") + tail  # a line may have begun in the previous part
            if (step := last_step_in_metrics(tail)) is not None:
                write_small_file(self.folder.path / REACHED, keys={"step": step})
                break

    def _leftover_checkpoint_files(self, ages: Mapping[str, float]) -> dict[str, list[str]]:
        """Return the files in interrupted or partly removed checkpoints, by folder.

        A leftover folder has no manifest, no files from this attempt, and only file names that some manifest lists, so
        that files from the user's program are kept.
        """
        began = f"starts/{self.folder.attempt:05}/owner"
        # queried last, so that no file looks older than it is
        oldest = GRAIN_S + self.run.object_ages(began).get(began, 0.0)
        steps: dict[str, list[str]] = {}
        for name in ages:
            if TRAINERS.fullmatch(name.rpartition("/")[0]):
                steps.setdefault(name.rpartition("/")[0], []).append(name)
        saved = [step for step, names in steps.items() if f"{step}/{MANIFEST}" in names]
        manifests = [parse_manifest_entries(read_manifest(self.folder.path / step)) for step in saved]
        manifest_names = {name for manifest in manifests for name in manifest or ()}
        return {
            step: names
            for step, names in steps.items()
            if step not in saved
            and all(name.rpartition("/")[2] in manifest_names and ages[name] > oldest for name in names)
        }

    def _record_downloaded_files(self, stubs: Mapping[str, list[str]]) -> None:
        """Record for the upload process which local files are already in the bucket."""
        files = self._scan_files()
        up = {name: version for name, version in files if name.startswith("checkpoints/") or name == PROGRESS}
        path = self.folder.path / RESTORED
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps({"up": up, "stubs": stubs}))

    def load_restored_state(self) -> None:
        """Load the state that restore_checkpoint() recorded. Without this state, everything would be uploaded again."""
        try:
            note = read_json(self.folder.path / RESTORED, LARGEST_NOTE)
        except Unreadable:
            return
        self._up = {name: (version[0], version[1], version[2]) for name, version in note["up"].items()}
        self._stubs = note["stubs"]

    def _download_file(self, source: BucketRun, name: str, path: Path, size: int) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        source.bucket.get_file(source.object_key(name), path, size)

    def _fetch_step(self, source: BucketRun, path: Path, step: str, sizes: dict[str, int]) -> bool:
        """Download a checkpoint and return whether it is intact. If any file is damaged, remove all of them."""
        entries = parse_manifest_entries(read_manifest(path))
        if entries is None:
            entries = {MANIFEST: (-1, "")}
        for name, (size, sha256) in entries.items():
            if sizes.get(f"{step}/{name}") == size:
                self._download_file(source, f"{step}/{name}", path / name, size)
            if not (path / name).is_file() or sha256_of(path / name) != sha256:
                print(f"jobc: {step} in the bucket is damaged: {name}", flush=True)
                for file in entries.keys() - {MANIFEST}:
                    (path / file).unlink(missing_ok=True)
                return False
        return True

    def download_marks(self) -> None:
        """Download the marks that others have set: stop, save, first failure."""
        marks = self.run.object_ages("control/")
        if STOP in marks and not self.folder.stop_mark.exists():
            self._create_local_mark(STOP)
        if SAVE in marks and self.node == 0:
            self._create_local_mark(SAVE)
            self.run.bucket.delete([self.run.object_key(SAVE)])  # the request has been handled
        first = f"exit/{self.folder.attempt}/first"
        if (content := self.run.get(first)) is not None and content != self._known.get(first):
            self._known[first] = content
            code, keys = parse_small_file(content)
            record_first_failure(self.folder, code, keys)

    def _create_local_mark(self, name: str) -> None:
        path = self.folder.path / name
        path.parent.mkdir(exist_ok=True)
        path.touch()
        self._up[name] = _file_version(path)

    def count_unfinished_nodes(self, nodes: int) -> int:
        """Return how many of this attempt's nodes are still running, and download the exit codes of those that
        have ended.
        """
        attempt, lacking = self.folder.attempt, 0
        exits = self.run.object_ages(f"exit/{attempt}/node_")
        signs = {**self.run.object_ages(f"starts/{attempt:05}/node_"), **self.run.object_ages("state/node_")}
        for node in range(nodes):
            path = self.folder.node_exit_file(node)
            if path.exists():
                continue
            name = f"exit/{attempt}/{path.name}"
            if name in exits:
                path.write_bytes(self.run.get(name) or b"")
                continue
            ages = [age for sign, age in signs.items() if sign.endswith(f"/{path.name}")]
            lacking += min(ages, default=SILENT_S) < SILENT_S
        return lacking

    # ---- up

    def exchange_addresses(self) -> bool:
        """Upload node 0's rendezvous endpoint and link address for this attempt or, on other nodes, download them.

        Return whether both exist.
        """
        for name in HEAD_FILES:
            path = self.folder.path / name
            try:
                content = path.read_bytes() if self.node == 0 else self.run.get(name) or b""
            except FileNotFoundError:
                return False
            first_line, keys = parse_small_file(content)
            if keys.get("attempt") != str(self.folder.attempt):
                return False
            if self._known.get(name) != content:
                if self.node == 0:
                    self.run.put(name, content)
                else:
                    write_small_file(path, first_line, keys, private=True)
                self._known[name] = content
        return True

    def upload_heartbeat(self) -> None:
        path = self.folder.node_state_file(self.node)
        try:
            self.run.put(f"state/{path.name}", path.read_bytes())
        except FileNotFoundError:  # node 0's supervisor has not started
            sign = f"starts/{self.folder.attempt:05}/{path.name}"
            self.run.put(sign, self.run.get(sign) or b"")

    def upload_changes(self, logs: bool, last: bool) -> None:
        """Scan the folder once and upload changes.

        logs: whether to upload new log lines too.
        last: whether to upload files that are still being written too.
        """
        now = dict(self._scan_files())
        if PROGRESS in self._up and PROGRESS not in now:
            self.run.bucket.delete([self.run.object_key(PROGRESS)])  # the run succeeded: upload the deletion first
            del self._up[PROGRESS]
        changed = {name for name in now if not _is_log(name) and self._up.get(name) != now[name]}
        settled = {name for name in changed if now[name][1] <= SMALL_BYTES or self._before.get(name) == now[name]}
        waiting = set() if last else changed - settled
        held = {os.path.dirname(name) for name in waiting}  # folders whose manifests must wait
        for name in sorted(now, key=_upload_sort_key):
            folder = os.path.dirname(name)
            if _is_log(name):
                if logs:
                    self._upload_log(name, *now[name][1:])
            elif f"{folder}/{MANIFEST}" not in now:
                if name in changed - waiting:
                    self._upload_file(name, now[name])
            elif name.endswith(f"/{MANIFEST}") and folder not in held:
                self._upload_step(folder, {path: now[path] for path in changed if os.path.dirname(path) == folder})
        self._before = now
        gone = {name for name in self._up if name.startswith("checkpoints/") and name not in now}
        self._delete_removed_files({name for name in gone if _is_gone(self.folder.path / name)})  # not if replaced

    def _upload_file(self, name: str, version: Seen) -> None:
        with contextlib.suppress(FileNotFoundError):  # removed in the meantime
            self.run.bucket.put_file(self.run.object_key(name), self.folder.path / name)
            self._up[name] = version

    def _upload_step(self, step: str, changed: dict[str, Seen]) -> None:
        """Upload a checkpoint's changed files: large files first, the manifest last."""
        name = f"{step}/{MANIFEST}"
        version = changed.pop(name, None)
        manifest = self._read_unchanged_file(name, version) if version else b""  # b"": it has not changed
        if manifest is None:
            return
        if manifest:
            self._prepare_replacement(name, manifest, changed)
        for file in sorted(changed, key=lambda file: (-changed[file][1], file)):
            self._upload_file(file, changed[file])
        is_all_there = all(self._up.get(file) == changed[file] for file in changed)
        if version and is_all_there and self._read_unchanged_file(name, version) == manifest:
            self.run.put(name, manifest)
            self._up[name] = version
            print(f"jobc: uploaded {step} to {self.run.bucket.url}/{self.run.folder}", flush=True)

    def _prepare_replacement(self, name: str, manifest: bytes, changed: dict[str, Seen]) -> None:
        """Prepare to replace a checkpoint in the bucket. name: its manifest's name.

        Files that are equal in both versions are not uploaded again. Before any other file is uploaded, the old
        manifest is deleted, because a checkpoint with a manifest counts as intact.
        """
        former = self.run.get(name)
        if former is None:
            return
        unchanged = equal_manifest_files(manifest, former)
        for file in [file for file in changed if file.rpartition("/")[2] in unchanged and file in self._up]:
            self._up[file] = changed.pop(file)
        if changed:
            self.run.bucket.delete([self.run.object_key(name)])
            self._up.pop(name, None)

    def _read_unchanged_file(self, name: str, version: Seen) -> bytes | None:
        """Return a file's content, or None if it has been replaced or removed since the scan."""
        try:
            content = (self.folder.path / name).read_bytes()
            return content if _file_version(self.folder.path / name) == version else None
        except FileNotFoundError:
            return None

    def _delete_removed_files(self, gone: set[str]) -> None:
        """Delete from the bucket checkpoint files that no longer exist locally, manifests first."""
        stubs = [step for step in self._stubs if _is_gone(self.folder.path / step)]
        gone = gone.union(*(self._stubs[step] for step in stubs))
        names = sorted(gone, key=lambda name: (not name.endswith(MANIFEST), name))
        self.run.bucket.delete(map(self.run.object_key, names))
        for name in gone:
            self._up.pop(name, None)
        for step in stubs:
            del self._stubs[step]

    def _upload_log(self, name: str, size: int, inode: int) -> None:
        """Upload new log lines as the part NAME/ATTEMPT-NUMBER. A rotated file counts as the beginning of its log."""
        log = PUT_ASIDE.sub(r"\1", name)
        start = self._sent.get((log, inode), 0)
        if size <= start:
            return
        with open(self.folder.path / name, "rb") as file:
            if os.fstat(file.fileno()).st_ino != inode:
                return  # rotated after the scan; the next scan finds it
            file.seek(start)
            content = file.read(size - start)
        number = self._parts.get(log, 0)
        self.run.put(f"{log}/{self.folder.attempt:05}-{number:06}", content)
        self._sent[log, inode], self._parts[log] = start + len(content), number + 1

    def _scan_files(self) -> Iterator[tuple[str, Seen]]:
        """Yield the files to upload, each with its version: modification time, size and inode."""
        root = str(self.folder.path)
        for folder, below, files in os.walk(root):
            relative = os.path.relpath(folder, root)
            prefix = "" if relative == "." else f"{relative}/"
            below[:] = [name for name in below if not name.startswith(".") and self._should_upload(f"{prefix}{name}/")]
            for name in files:
                path = Path(folder, name)
                if not name.startswith(".") and self._should_upload(prefix + name) and not path.is_symlink():
                    try:
                        yield prefix + name, _file_version(path)
                    except FileNotFoundError:
                        continue

    def _should_upload(self, name: str) -> bool:
        if name in ("code/", "starts/") or name.endswith(".lock"):
            return False
        if name.startswith("artifact/"):
            return self.node == 0
        if name.startswith("state/") and name != "state/":
            of_node_0 = ("state/resume", PROGRESS, COMMANDS)
            return name == f"state/node_{self.node:02}" or (self.node == 0 and name in of_node_0)
        if name.startswith("exit/") and "/node_" in name:
            return name.endswith(f"_{self.node:02}")
        return name != SAVE


def create_empty_run_folder(path: Path) -> None:
    """Create an empty run folder. An earlier attempt's files on this node are deleted because the bucket has them."""
    if path.exists():
        remove_folder(path)
    for name in ("state", "logs", "control", "metrics", "exit"):
        (path / name).mkdir(parents=True)


def _is_log(name: str) -> bool:
    return name.startswith(("logs/", "metrics/"))


def _upload_sort_key(name: str) -> tuple[int, str, bool, str, float]:
    """Return a sort key for uploads. A checkpoint's manifest comes last, and rotated logs before the current log."""
    kind = {"checkpoints": 0, "exit": 2, "state": 3}.get(name.partition("/")[0], 1) if name != PROGRESS else -1
    aside = PUT_ASIDE.fullmatch(name)
    log, number = (aside[1], float(aside[2])) if aside else (name, math.inf)
    return kind, os.path.dirname(name), name.endswith(f"/{MANIFEST}"), log, number


def _file_version(path: Path) -> Seen:
    status = path.stat()
    return status.st_mtime_ns, status.st_size, status.st_ino


def _is_gone(path: Path) -> bool:
    """Return whether nothing has this name. Raises OSError for other errors, which exists() in Python 3.14 hides."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    return False
