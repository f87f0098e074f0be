"""Join an attempt of a run, for engines that start nodes separately, restart lost ones, and do not number attempts.

In:  a node, the engine's ID for the submission, which stays the same when nodes are restarted, and the run folder that
     all nodes share. With storage.run=object, the run in the bucket replaces this folder (join_run_in_bucket).
Out: the attempt's number, once all nodes have joined it. Otherwise, raises NodeMustNotStart, StartFailure or
     JoinFailure (see report_start_failure()).

    RUN/starts/ATTEMPT.SUBMISSION/NODE   node NODE has joined that attempt (a folder: mkdir is atomic)

A node that is restarted begins the next attempt and announces it in exit/ATTEMPT/first. The other nodes' supervisors
are watching that file: they exit with 69 or 75, the engine restarts their nodes too, and all nodes join the next
attempt.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple, TypeVar

from .. import exit_codes
from ..run_folder.artifact_copies import artifact_copy_of_attempt, current_umask, link_previous_copy_if_equal
from ..run_folder.removal import remove_folder
from ..run_folder.run import SILENT_S, NodeState, Run, recorded_exit_codes
from ..run_folder.run_folder import RunFolder, write_small_file
from ..system.cksum import cksum
from ..system.failure import NodeMustNotStart, print_failure
from ..system.text import printable
from ..system.values import number_or_none, read_keys
from .job_secrets import read_job_secrets
from .node_failure import NodeFailure, record_failure
from .node_settings import NodeSettings

LOOK_S = 0.5  # pause between checks of which nodes have joined
BEAT_LOOK_S = 1.0  # pause between checks of whether another submission is alive
FATAL = (exit_codes.DATA_BROKEN, exit_codes.RENDEZVOUS_FAILED, exit_codes.CRASHED)
SPACE_HINT = "check permissions and free space, or set JOBC_RUN_ROOT to another folder"
_START = re.compile(r"(0|[1-9][0-9]{0,17})\.([^/\x00-\x1f\x7f]+)")
Returned = TypeVar("Returned")


class StartFailure(NodeFailure):
    """Raised before the node has joined an attempt. It is printed but not recorded, so that a restart can succeed."""


class JoinFailure(NodeFailure):
    """Raised if this node has made the attempt fail. The failure is recorded in the run folder."""

    def __init__(self, attempt: int, code: int, title: str, hint: str = "") -> None:
        super().__init__(code, title, hint)
        self.attempt = attempt


class AttemptStart(NamedTuple):
    """A folder RUN/starts/ATTEMPT.SUBMISSION."""

    attempt: int
    submission: str


def report_start_failure(error: NodeMustNotStart | NodeFailure, environ: Mapping[str, str], payload: str) -> int:
    """Print why this node does not start, and record the reason if other nodes need it. Return the exit code."""
    sys.stdout.flush()
    if isinstance(error, NodeMustNotStart) and not error.hint:
        print(f"jobc: {printable(error.title)}: this node exits with {error.code}", flush=True)
        return error.code
    if isinstance(error, JoinFailure):
        record_failure({**environ, "JOBC_ATTEMPT": str(error.attempt)}, payload, error)
    print_failure(error)
    return exit_codes.CRASHED if isinstance(error, JoinFailure) and payload == "preflight" else error.code


# ---- a run folder that all nodes share


def join_run(
    run: Path, node: int, nodes: int, submission: str, most: int, timeout_s: float, prepare: Callable[[int], None]
) -> int:
    """Join an attempt, wait until all nodes have joined it, and return its number.

    most: how many restarts are allowed (lifecycle.max_requeues).
    prepare: called on node 0 with the attempt before any node starts in it, possibly several times.
    Raises StartFailure, JoinFailure, and NodeMustNotStart: with exit code 0 if jobctl stop was called, or 69 if another
    node was restarted.
    """
    starts = run / "starts"
    try:
        starts.mkdir(parents=True, exist_ok=True)
        (run / "exit").mkdir(exist_ok=True)
    except OSError as error:
        hint = "storage.root must be on a volume that the pod can write to"
        raise StartFailure(exit_codes.CRASHED, f"cannot write to {run}", hint) from error
    while True:
        attempt = _newest_attempt(run, submission)
        if Run(run).is_stopped:
            raise NodeMustNotStart(exit_codes.DONE, "the run was stopped")
        if node == 0:
            prepare(attempt)
        joined = starts / f"{attempt}.{submission}"
        call_or_fail_start(f"create the folder {joined}", joined.mkdir, exist_ok=True)
        try:
            (joined / str(node)).mkdir()
            break
        except FileExistsError:
            _begin_next_attempt(run, attempt, node, submission, most)
        except OSError as error:
            raise _start_failure_for_error(f"create the folder {joined / str(node)}", error) from error
    _wait_for_nodes(run, attempt, joined, node, nodes, timeout_s)
    return attempt


def started_attempts(starts: Path, submission: str | None = None) -> list[AttemptStart]:
    """Return the attempts that have begun, in ascending order. submission: None for those of all submissions"""
    try:
        matches = [_START.fullmatch(name) for name in os.listdir(starts)]
    except OSError:
        return []
    found = [AttemptStart(int(match[1]), match[2]) for match in matches if match]
    return sorted(start for start in found if submission in (None, start.submission))


def wait_until_others_silent(run: Path, attempt: int) -> None:
    """Wait until no node of another submission's attempt can be alive. Raises NodeMustNotStart if one is alive.

    A supervisor touches its state file every few seconds (peers.py).
    """
    first_beats: dict[str, int] = {}
    is_announced = False
    while True:
        unknown = ""
        for path in Run(run).node_files():
            try:
                beat = path.stat().st_mtime_ns  # before the file is read, because its last write records the end
            except OSError:
                continue
            node = NodeState(path)
            silent_s = Run(run).silent_s(node)
            is_silent = silent_s is not None and silent_s > SILENT_S
            if node.attempt != attempt or node.ended is not None or is_silent:
                continue
            unknown = node.name
            if first_beats.setdefault(unknown, beat) != beat:
                why = f"run {run.name} is live: node {unknown} of another job is writing to it"
                hint = "stop that job first, or start a new run: jobctl submit without --resume"
                raise NodeMustNotStart(exit_codes.CRASHED, f"{why}; {hint}")
        if not unknown:
            return
        if not is_announced:
            is_announced = True
            words = f"jobc: node {unknown} of another job has not recorded its end"
            print(f"{words}: waiting until it has been inactive for {SILENT_S} s", flush=True)
        time.sleep(BEAT_LOOK_S)


def _newest_attempt(run: Path, submission: str) -> int:
    """Return the newest attempt if this submission began it, or else the next one: a new submission resumes the run."""
    known = started_attempts(run / "starts")
    if not known:
        return 0
    if known[-1].submission == submission:
        return known[-1].attempt
    wait_until_others_silent(run, known[-1].attempt)
    with contextlib.suppress(FileNotFoundError):
        (run / "control/STOP").unlink()
    return known[-1].attempt + 1


def _begin_next_attempt(run: Path, attempt: int, node: int, submission: str, most: int) -> None:
    """Begin the next attempt. Called if this node had already joined `attempt`."""
    ends = run / "exit" / str(attempt)
    codes = recorded_exit_codes(ends)
    done = next((name for name, code in codes.items() if code == exit_codes.DONE and name != "first"), "")
    if done:
        title = f"node {done[len('node_') :]} has already finished, so this node cannot restart alone"
        raise JoinFailure(attempt, exit_codes.CRASHED, title, "resume with jobctl submit --resume")
    for code in FATAL:  # the engine may see only nodes that exited with 69 or 75 because of the failed node
        if code in codes.values():
            raise NodeMustNotStart(code, f"attempt {attempt} failed with this exit code, and restarting would not help")
    # count only up to this attempt, because another node may have begun the next one already
    began = sum(start.attempt <= attempt for start in started_attempts(run / "starts", submission))
    if began > most:
        title = f"already restarted {most} times, which is the limit"
        raise JoinFailure(attempt, exit_codes.CRASHED, title, "lifecycle.max_requeues")
    next_attempt = run / "starts" / f"{attempt + 1}.{submission}"
    call_or_fail_start(f"write to {ends}", _announce_restart, ends, node)
    call_or_fail_start(f"create the folder {next_attempt}", next_attempt.mkdir, exist_ok=True)


def _announce_restart(ends: Path, node: int) -> None:
    """Record in `first` that the attempt has ended, unless a failure is recorded there already."""
    ends.mkdir(parents=True, exist_ok=True)
    new = ends / f"first.{os.uname().nodename}"
    new.write_text(f"{exit_codes.PEER_LOST}\nnode={node}\nreason=node {node} was restarted\n")
    with contextlib.suppress(OSError):
        os.link(new, ends / "first")
    new.unlink()


def _wait_for_nodes(run: Path, attempt: int, joined: Path, node: int, nodes: int, timeout_s: float) -> None:
    until = time.monotonic() + timeout_s
    announced = ""
    while True:
        here = set(os.listdir(joined))  # opening the folder makes a network file system refresh its cache
        absent = " ".join(str(other) for other in range(nodes) if str(other) not in here)
        if not absent:
            return
        if Run(run).is_stopped:
            raise NodeMustNotStart(exit_codes.DONE, "the run was stopped")
        first = run / "exit" / str(attempt) / "first"
        if first.exists():
            keys = read_keys(first)
            who = number_or_none(keys.get("node", ""))
            reason = keys.get("reason", "")
            raise NodeMustNotStart(exit_codes.PEER_LOST, f"node {'' if who is None else who}: {reason}")
        if announced != absent:
            announced = absent
            print(f"jobc: node {node} is ready, waiting for {absent}", flush=True)
        if time.monotonic() >= until:
            title = f"timeout: these nodes did not join within {timeout_s:g} s: {absent}"
            hint = "jobctl status prints what these nodes are waiting for"
            raise JoinFailure(attempt, exit_codes.RENDEZVOUS_FAILED, title, hint)
        time.sleep(LOOK_S)


# ---- what node 0 prepares


def prepare_attempt(run: Path, attempt: int, artifact: Path, init_from: str, job: str, project: str) -> None:
    """Turn the folder into a run if necessary, and copy the artifact to RUN/artifact/ATTEMPT unless that exists. All
    nodes start from this copy, which is a link if the previous attempt has the same files.

    init_from: path of the run whose checkpoint a new run starts from, or "". Raises StartFailure.
    """
    if not (run / "state/run").is_file():
        write_run_records(run, init_from, job, project)
    if artifact_copy_of_attempt(run, attempt) is not None or link_previous_copy_if_equal(run, attempt, artifact):
        return
    copy = run / "artifact" / str(attempt)
    unfinished = copy.with_name(f".{attempt}")
    call_or_fail_start(f"copy the artifact to {unfinished}", replace_folder_copy, artifact, unfinished)
    call_or_fail_start(f"move the copy to {copy}", unfinished.rename, copy)


def write_run_records(run: Path, init_from: str, job: str, project: str) -> None:
    for name in ("state", "logs", "control"):
        call_or_fail_start(f"create the folder {run / name}", (run / name).mkdir, parents=True, exist_ok=True)
    keys = {"job": job, "created": int(time.time()), "project": project, "init_from": init_from}
    try:
        write_small_file(run / "state/run", keys=keys)
    except OSError as error:
        raise StartFailure(exit_codes.CRASHED, f"cannot write {run / 'state/run'}", "is the disk full?") from error
    with contextlib.suppress(FileNotFoundError):
        (run / ".making").unlink()


def recorded_init_from(run: Path) -> str:
    """Return the path of the run whose checkpoint this run starts from, or "" if there is none."""
    return read_keys(run / "state/run").get("init_from", "")


def call_or_fail_start(what: str, action: Callable[..., Returned], *arguments: object, **options: object) -> Returned:
    """Call `action` and return its result. If it raises OSError, raise StartFailure `cannot WHAT: REASON`."""
    try:
        return action(*arguments, **options)
    except OSError as error:
        raise _start_failure_for_error(what, error) from error


def replace_folder_copy(source: Path, copy: Path) -> None:
    """Copy a folder to `copy`, after removing whatever exists there. Raises OSError."""
    if os.path.lexists(copy):
        remove_folder(copy)
    copy.mkdir(parents=True)
    _copy_into(source, copy)


def _copy_into(source: Path, copy: Path) -> None:
    """Copy everything. A file keeps its executable bits, but not its times and owner: a file server may refuse them."""
    for entry in os.scandir(source):
        path = copy / entry.name
        if entry.is_symlink():
            path.symlink_to(os.readlink(entry.path))
        elif entry.is_dir():
            path.mkdir()
            _copy_into(Path(entry.path), path)
        else:
            shutil.copyfile(entry.path, path)
            if entry.stat().st_mode & 0o100:
                with contextlib.suppress(OSError):  # fails on a file server that changes owners
                    path.chmod(path.stat().st_mode | (0o111 & ~current_umask()))


def _start_failure_for_error(what: str, error: OSError) -> StartFailure:
    return StartFailure(exit_codes.CRASHED, f"cannot {what}: {error.strerror or error}", SPACE_HINT)


# ---- storage.run=object: the run is in a bucket, and each node has its own run folder, created anew for each attempt


def join_run_in_bucket(
    run: Path, submission: str, most: int, timeout_s: float, fork_of: str, prepare: Callable[[int], None]
) -> int:
    """Join an attempt of the run in the bucket, as join_run() does, and download its newest checkpoint.

    run: JOBC_RUN_DIR.
    fork_of: ID of the run to fork, or "".
    prepare: called on every node with the attempt.
    The environment must contain JOBC_STORE, JOBC_STORE_ENDPOINT, JOBC_STORE_REGION, JOBC_NODE_RANK, JOBC_NODES,
    JOBC_PROJECT and the credentials. Raises NodeMustNotStart, StartFailure.
    """
    from ..storage import depot  # imported only here, because they need http
    from ..storage.bucket import BucketError
    from ..storage.bucket_mirror import create_empty_run_folder
    from ..storage.bucket_run import SubmittedNode

    node, nodes = int(os.environ["JOBC_NODE_RANK"]), int(os.environ["JOBC_NODES"])
    stored = depot.open_bucket_run(f"{run.parent.name}/{run.name}")
    member = SubmittedNode(submission, node, nodes, most, timeout_s)
    try:
        attempt = stored.join_attempt(member, fork_of, run.parent.name)
        create_empty_run_folder(run)
        (run / "state/run").write_bytes(stored.get("state/run") or b"")
        keys = read_keys(run / "state/run")
        init_from = keys.get("init_from", "")
        keys["init_from"] = str(run.parent / init_from) if init_from else ""
        write_small_file(run / "state/run", keys={**keys, "project": os.environ.get("JOBC_PROJECT", "")})
        prepare(attempt)
        depot.restore_checkpoint(stored, RunFolder(run, attempt), node, init_from)
    except BucketError as error:
        raise StartFailure(error.code, error.title, error.hint) from error
    except OSError as error:
        title = f"cannot write to the run folder of this node: {error}"
        raise StartFailure(exit_codes.CRASHED, title, depot.FOLDER_HINT) from error
    return attempt


def bucket_variables(settings: NodeSettings, environ: Mapping[str, str], payload: str) -> dict[str, str]:
    """Return the variables for the bucket and its credentials (AWS_…). Raises NodeFailure if a secret is missing."""
    keys = {name: reference for name, reference in settings.secrets.items() if name.startswith("AWS_")}
    variables = {**(settings.store or {}), **(settings.tree["node"].get("env_aws") or {})}
    return {**variables, **read_job_secrets(keys, {**environ, **variables}, payload)}


def depot_command(run: Path, verb: str, *words: str) -> list[str]:
    """Return the command that runs a verb of depot.py for a run folder JOB/RUN_ID."""
    program = [sys.executable, "-I", "-S", os.path.abspath(sys.argv[0])]
    return [*program, "depot", verb, f"{run.parent.name}/{run.name}", *words]


def port_from_text(text: str) -> int:
    """Return a port from 20000 to 31999, which all nodes derive from the same text with POSIX cksum."""
    return 20000 + cksum(f"{text}\n".encode()) % 12000
