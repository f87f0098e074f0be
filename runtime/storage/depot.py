"""Join a run in the bucket, upload a node's run folder to it, or inspect it (storage.run=object).

Usage: jobctl depot VERB JOB/RUN_ID [ARGUMENT…]
         run -- COMMAND…         run COMMAND, upload its run folder, and return its exit code
         lacking                 print how many nodes are still running, and download the exit codes of the others
         cat NAME                print a log or another file of the run
         ls                      list the run's files
         stop                    write the stop mark
         remove                  remove the run
         ends FOLDER             download the newest attempt's exit/ to FOLDER, and print the attempt's number
In:    JOBC_STORE (s3://BUCKET/PREFIX), JOBC_STORE_ENDPOINT, JOBC_STORE_REGION, and credentials (credentials.py). The
       verbs run and lacking also read JOBC_RUN_DIR, JOBC_ATTEMPT, JOBC_NODE_RANK and JOBC_NODES.
Exit:  COMMAND's exit code, 65 if the store rejects a request, or 69 if it is unavailable (bucket.py).
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from .. import exit_codes
from ..run_folder.run_folder import RunFolder
from ..system import processes
from ..system.failure import Failure, print_failure
from ..system.processes import SignalQueue
from .bucket import Bucket, BucketError
from .bucket_mirror import BucketMirror
from .bucket_run import BEAT_S, STOP, BucketRun
from .credentials import CredentialCache

LOOK_S = 5.0  # pause between scans for marks and for changed files
LOOK_FOR_HEAD_S = 0.5  # the same pause until all nodes know the rendezvous endpoint
LOGS_S = 30.0  # interval between uploads of new log lines
FOLDER_HINT = "set storage.scratch to another folder"
PASSED_ON = (
    signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2,
)  # fmt: skip


def main(argv: list[str]) -> int:
    verb, folder, words = argv[0], argv[1], argv[2:]
    try:
        run = open_bucket_run(folder)
        if verb in ("cat", "ls", "stop", "remove", "ends"):
            return run_read_verb(run, verb, words)
        mirror = BucketMirror(run, RunFolder.from_environment(), int(os.environ["JOBC_NODE_RANK"]))
        if verb == "lacking":
            print(mirror.count_unfinished_nodes(int(os.environ["JOBC_NODES"])))
            return exit_codes.DONE
        assert verb == "run" and words[0] == "--", argv
        mirror.load_restored_state()
        return BucketNode(mirror).run(words[1:])
    except BucketError as error:
        print_failure(error)
        return error.code
    except OSError as error:
        print_failure(Failure(f"cannot write to the run folder of this node: {error}", FOLDER_HINT))
        return exit_codes.CRASHED


def open_bucket_run(folder: str) -> BucketRun:
    """Return the run JOB/RUN_ID in the bucket that the environment names."""
    region = os.environ["JOBC_STORE_REGION"]
    url, endpoint = os.environ["JOBC_STORE"], os.environ.get("JOBC_STORE_ENDPOINT", "")
    return BucketRun(Bucket(url, endpoint, region, CredentialCache(os.environ, region)), folder)


def restore_checkpoint(run: BucketRun, local: RunFolder, node: int, init_from: str) -> None:
    mirror = BucketMirror(run, local, node)
    with _send_heartbeats(mirror):
        if node == 0:
            mirror.download_progress()
        newest = mirror.restore_checkpoint(run, local.path, node == 0)
        if newest is None and init_from:
            source = BucketRun(run.bucket, f"{run.folder.rpartition('/')[0]}/{init_from}")
            mirror.restore_checkpoint(source, local.path.with_name(init_from), node == 0)


@contextlib.contextmanager
def _send_heartbeats(mirror: BucketMirror) -> Iterator[None]:
    """Send heartbeats in a thread."""
    has_ended = threading.Event()

    def beat() -> None:
        while not has_ended.wait(BEAT_S):
            with contextlib.suppress(BucketError):  # the main thread reports this
                mirror.upload_heartbeat()

    threading.Thread(target=beat, daemon=True, name="beat").start()
    try:
        yield
    finally:
        has_ended.set()


def run_read_verb(run: BucketRun, verb: str, words: list[str]) -> int:
    if verb == "stop":
        run.put(STOP, b"")
    elif verb == "remove":
        run.bucket.delete([run.object_key(name) for name in run.object_ages("")])
    elif verb == "ends":
        return download_exit_codes(run, Path(words[0]))
    elif verb == "ls":
        for listed in run.bucket.list(run.object_key("")):
            print(f"{listed.size:>14,}  {listed.key[len(run.folder) + 1 :]}")
    else:
        content = run.read_complete_log(words[0]) or run.get(words[0])
        if content is None:
            return exit_codes.CRASHED
        sys.stdout.buffer.write(content)
    return exit_codes.DONE


def download_exit_codes(run: BucketRun, to: Path) -> int:
    """Download the nodes' exit codes in the newest attempt, and print its number."""
    attempt = run.newest_attempt()
    if attempt is None:
        return exit_codes.CRASHED
    for name in run.object_ages(f"exit/{attempt}/"):
        (to / name).parent.mkdir(parents=True, exist_ok=True)
        (to / name).write_bytes(run.get(name) or b"")
    print(attempt)
    return exit_codes.DONE


class BucketNode:
    """Runs the node. Two threads keep the bucket up to date because the main thread must handle signals."""

    def __init__(self, mirror: BucketMirror) -> None:
        self.mirror = mirror
        self.has_ended = threading.Event()
        self.is_told_all = False  # whether the rendezvous endpoint has been exchanged
        self.warned: set[str] = set()

    def run(self, command: list[str]) -> int:
        """Run the node and upload its files. Return its exit code, or an error's code if the last upload fails."""
        signals = SignalQueue((*PASSED_ON, signal.SIGCHLD))
        processes.become_subreaper()
        child = processes.start_in_own_session(command)
        threads = [
            threading.Thread(target=work, daemon=True)
            for work in (self._exchange_until_ended, self._upload_until_ended)
        ]
        for thread in threads:
            thread.start()
        code = self._wait_for_child(child, signals)
        self.has_ended.set()
        while any(thread.is_alive() for thread in threads):
            if signal.SIGQUIT in signals.wait(0.2)[0]:
                print_failure(Failure("asked to exit immediately: the bucket does not have all files of this attempt"))
                return code
        try:
            self.mirror.upload_changes(logs=True, last=True)
        except (BucketError, OSError) as error:
            title = f"cannot write the result of this attempt to the bucket: {error}"
            print_failure(Failure(title, getattr(error, "hint", "")))
            return code or getattr(error, "code", exit_codes.PEER_LOST)
        return code

    def _wait_for_child(self, child: int, signals: SignalQueue) -> int:
        while True:
            arrived, _ = signals.wait(60)
            for pid, status in processes.reap_children():
                if pid == child:
                    return status if status >= 0 else 128 - status
            for number in arrived:
                if number in PASSED_ON:
                    os.kill(child, number)  # our own child, which is not reaped yet

    def _exchange_until_ended(self) -> None:
        """Download marks and upload heartbeats until the node has ended."""
        beat_at = 0.0
        while not self.has_ended.wait(LOOK_S if self.is_told_all else LOOK_FOR_HEAD_S):
            if not self.is_told_all:
                self._call_or_warn(self._exchange_addresses)
                if time.monotonic() < beat_at:
                    continue
            self._call_or_warn(self.mirror.download_marks)
            if time.monotonic() >= beat_at:
                self._call_or_warn(self.mirror.upload_heartbeat)
                beat_at = time.monotonic() + (BEAT_S if self.is_told_all else LOOK_S)

    def _exchange_addresses(self) -> None:
        self.is_told_all = os.environ["JOBC_NODES"] == "1" or self.mirror.exchange_addresses()

    def _upload_until_ended(self) -> None:
        logs_at = 0.0
        while not self.has_ended.wait(LOOK_S):
            logs = time.monotonic() >= logs_at
            self._call_or_warn(partial(self.mirror.upload_changes, logs, last=False))
            if logs:
                logs_at = time.monotonic() + LOGS_S

    def _call_or_warn(self, work: Callable[[], None]) -> None:
        """Do `work`. Report a failure once and retry at the next scan, so that an outage does not stop the training."""
        try:
            work()
            self.warned.clear()
        except (BucketError, OSError) as error:
            if str(error) not in self.warned:
                self.warned.add(str(error))
                hint = getattr(error, "hint", "")
                more = f"\n  hint: {hint}" if hint else ""
                print(f"jobc: warning: {error}; trying again{more}", file=sys.stderr, flush=True)
