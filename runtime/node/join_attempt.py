"""Start an attempt of a run, for engines that start nodes separately, restart lost ones, and do not number attempts.

Nodes join an attempt through a run folder that all of them share (join_shared_run.py), or through a run in a bucket.
Out: the run folder with the attempt's copy of the artifact. Otherwise, raises NodeMustNotStart, StartFailure or
     JoinFailure (see report_start_failure()).
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from .. import exit_codes
from ..run_folder.artifact_copies import artifact_copy_of_attempt, current_umask, link_previous_copy_if_equal
from ..run_folder.removal import remove_folder
from ..run_folder.run_folder import RunFolder, write_small_file
from ..system.cksum import cksum
from ..system.failure import NodeMustNotStart, print_failure
from ..system.text import printable
from ..system.values import read_keys
from .node_failure import NodeFailure, record_failure
from .node_settings import NodeSettings

SPACE_HINT = "check permissions and free space, or set JOBC_RUN_ROOT to another folder"
Returned = TypeVar("Returned")


class StartFailure(NodeFailure):
    """Raised before the node has joined an attempt. It is printed but not recorded, so that a restart can succeed."""


class JoinFailure(NodeFailure):
    """Raised if this node has made the attempt fail. The failure is recorded in the run folder."""

    def __init__(self, attempt: int, code: int, title: str, hint: str = "") -> None:
        super().__init__(code, title, hint)
        self.attempt = attempt


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
        raise StartFailure(
            exit_codes.CRASHED, f"cannot write {run / 'state/run'}", "check permissions and free space"
        ) from error
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
        raise start_failure_for_error(what, error) from error


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


def start_failure_for_error(what: str, error: OSError) -> StartFailure:
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
    if not keys:
        return variables
    from .job_secrets import read_job_secrets  # packed only in jobs with secrets

    return {**variables, **read_job_secrets(keys, {**environ, **variables}, payload)}


def depot_command(run: Path, verb: str, *words: str) -> list[str]:
    """Return the command that runs a verb of depot.py for a run folder JOB/RUN_ID."""
    program = [sys.executable, "-I", "-S", os.path.abspath(sys.argv[0])]
    return [*program, "depot", verb, f"{run.parent.name}/{run.name}", *words]


def port_from_text(text: str) -> int:
    """Return a port from 20000 to 31999, which all nodes derive from the same text with POSIX cksum."""
    return 20000 + cksum(f"{text}\n".encode()) % 12000
