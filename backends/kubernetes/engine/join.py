"""Run one pod of a job: join the run's current attempt, then exec launch.sh. Packed into jobctl; Python 3.8.

Usage: jobctl join [PAYLOAD]       in a pod; the default is JOBC_PAYLOAD
         train                     exec the node's supervisor, so that it receives SIGTERM from the kubelet
         smoke | preflight         run the check, print its exit code, and exit with 0
         shell [COMMAND…]          open a shell, in the run if there is one
         bucket VERB [ARGUMENT…]   access a run in the bucket, for a verb on the submitting machine
In:    the ConfigMap at /jobc/files, from which start.py has unpacked jobctl to /jobc/artifact. jobctl submit sets
       JOBC_PAYLOAD, JOBC_RUN_ID, JOBC_FORK_OF and JOBC_SUBMITTED; Kubernetes sets JOBC_JOB_UID and
       JOB_COMPLETION_INDEX.
Out:   the unpacked artifact in /jobc/artifact, and a copy of it in RUN/artifact/ATTEMPT.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from ....runtime.engines.check_table import Table
from ....runtime.exit_codes import CRASHED, DATA_BROKEN, DONE, PEER_LOST, PREEMPTED, RENDEZVOUS_FAILED
from ....runtime.node.join_attempt import (
    JoinFailure,
    StartFailure,
    bucket_variables,
    call_or_fail_start,
    depot_command,
    join_run_in_bucket,
    port_from_text,
    prepare_attempt,
    recorded_init_from,
    report_start_failure,
)
from ....runtime.node.node_failure import NodeFailure
from ....runtime.node.node_settings import NodeSettings
from ....runtime.node.node_start import exec_program, run_program
from ....runtime.preflight.node_checks import check_lines
from ....runtime.run_folder.removal import remove_folder
from ....runtime.run_folder.run import Run
from ....runtime.run_folder.run_folder import write_small_file
from ....runtime.system.failure import NodeMustNotStart
from ....runtime.system.text import printable
from ....runtime.system.values import number_or_none, read_text

CHECKS = ("smoke", "preflight")  # payloads with their own run folder, which is removed if all nodes pass
HEAD_S = 60  # how long node 0's name may be missing after all nodes have joined
REPORT_S = 10  # interval at which this node prints what it is waiting for
GOOD_S = 30  # how long node 0 waits after a check for all nodes to pass
LAST_WORDS_S = 5  # time for the other nodes to check node 0, or to write their last files to the bucket


def main(argv: list[str]) -> int:
    """Run the payload. Return its exit code."""
    payload = argv[0] if argv else os.environ.get("JOBC_PAYLOAD", "train")
    signal.signal(signal.SIGTERM, _exit_on_sigterm)  # PID 1 ignores signals that it does not handle
    artifact = Path(sys.argv[0]).resolve().parent
    try:
        call_or_fail_start(f"unpack the job to {artifact}", unpack_config_map, artifact.parent / "files", artifact)
        return JoiningPod(artifact, payload).run(argv[1:])
    except (NodeMustNotStart, NodeFailure) as error:
        return report_start_failure(error, os.environ, payload)


def unpack_config_map(files: Path, artifact: Path) -> None:
    """Copy a ConfigMap's files, whose names are paths with two dashes for each slash. Raises OSError."""
    for name in os.listdir(files):
        path = artifact / name.replace("--", "/")
        if name.startswith("..") or name in ("start.py", "jobctl.bz2") or path.exists():  # `..`: the kubelet's symlinks
            continue
        path.parent.mkdir(exist_ok=True)
        unfinished = path.with_name(f"{path.name}.{os.getpid()}")  # `jobctl shell` may unpack at the same time
        shutil.copyfile(files / name, unfinished)
        unfinished.rename(path)
    (artifact / "jobctl").chmod(0o755)


def _exit_on_sigterm(*_: object) -> NoReturn:
    """Exit on SIGTERM. This handler is active until the supervisor takes over."""
    run = os.environ.get("JOBC_RUN_DIR", "")
    sys.exit(DONE if run and Run(Path(run)).is_stopped else PREEMPTED)


class JoiningPod:
    """One node of the job. Sets the node's JOBC_ variables in the environment."""

    def __init__(self, artifact: Path, payload: str) -> None:
        self.artifact, self.payload = artifact, payload
        self.settings = NodeSettings.read(artifact)
        own_settings: Mapping[str, Any] = self.settings.tree
        environ = os.environ
        self.rank, self.uid = int(environ["JOB_COMPLETION_INDEX"]), environ["JOBC_JOB_UID"]
        self.head = environ.setdefault("JOBC_HEAD_ADDR", own_settings["head"])
        self.start_timeout_s: int = own_settings["start_timeout_s"]
        self.job, self.storage = self.settings.run_folder, self.settings.storage
        run_id = environ.get("JOBC_RUN_ID") or f"kubernetes-{self.uid.partition('-')[0]}"
        self.root = Path(own_settings["storage_root"])
        if self.storage == "object":
            self.root /= f"node_{self.rank:02}"  # this node's part of the runs, until it is uploaded to the bucket
        self.run_path = self.root / (".checks" if payload in CHECKS else self.job) / run_id
        self.fork_of = environ.get("JOBC_FORK_OF", "")
        if self.fork_of and self.storage != "object":
            self.fork_of = str(self.root / self.job / self.fork_of)
        if own_settings.get("has_user_id"):
            # a user who is not in the image's passwd file gets / as their home directory
            environ["HOME"] = str(artifact)
        environ.update(
            JOBC_NODE_RANK=str(self.rank),
            JOBC_NODES=str(self.settings.nodes),
            JOBC_JOB_ID=own_settings["creates"]["object"],
            JOBC_NODE_LIST=own_settings["node_list"],
            JOBC_HEAD_PORT=str(self.settings.rendezvous_port),  # 0: node 0 chooses
            JOBC_TIME_LIMIT_S=str(self.settings.time_limit_s),
            JOBC_RUN_ID=run_id,
            JOBC_RUN_ROOT=str(self.root),
            JOBC_RUN_DIR=str(self.run_path),
            JOBC_PROJECT=os.getcwd(),  # the image's working directory
            JOBC_FORK_OF=self.fork_of,
        )

    def run(self, words: list[str]) -> int:
        if self.payload == "train":
            self._leave_if_stopped()
            if self.settings.tree.get("preflight"):
                self._check_start()
        if self.storage == "object":
            os.environ.update(bucket_variables(self.settings, os.environ, self.payload))
        if self.payload == "bucket":  # jobctl on the submitting machine accesses a run
            from ....runtime.storage import depot  # jobctl contains it only for jobs with a bucket

            return depot.main([words[0], f"{self.job}/{self.run_path.name}", *words[1:]])
        if self.payload == "shell":
            self._exec_shell(words)
        attempt = self._join_attempt()
        os.environ["JOBC_ATTEMPT"] = str(attempt)
        if not self._wait_until_resolved(self.head, HEAD_S):
            raise JoinFailure(attempt, RENDEZVOUS_FAILED, *_describe_unresolved_head(self.head))
        if init_from := recorded_init_from(self.run_path):
            os.environ["JOBC_INIT_FROM"] = init_from
        launch = self._launch_words(self.payload)
        if self.storage == "object":
            launch = [*depot_command(self.run_path, "run"), "--", *launch]
        if self.payload not in CHECKS:
            if self.storage != "node" and self.rank == 0:
                keys = {"command": f"jobctl submit --resume {self.run_path.name}"}
                call_or_fail_start("write state/resume", write_small_file, self.run_path / "state/resume", keys=keys)
            exec_program(launch, os.environ)
        return self._run_check(launch)

    def _launch_words(self, payload: str, *words: str) -> list[str]:
        # from the pod's own artifact, because the run folder may not contain a copy
        return ["bash", str(self.artifact / "launch.sh"), str(self.rank), payload, *words]

    # ---- pods that start too late

    def _leave_if_stopped(self) -> None:
        """Raise NodeMustNotStart if jobctl stop ended this job earlier: the stop mark contains the job's uid."""
        if self.storage == "shared" and read_text(self.run_path / "control/STOP").strip() == self.uid:
            raise NodeMustNotStart(DONE, "the run was stopped")

    @property
    def _has_head_ended(self) -> bool:
        """Return whether node 0 has ended for good in this job's newest attempt, so that its name will not return."""
        if self.storage != "shared":
            return False
        from ....runtime.node.join_shared_run import started_attempts  # packed only in jobs with storage.run=shared

        starts = started_attempts(self.run_path / "starts")
        if not starts or starts[-1].submission != self.uid:
            return False
        code = number_or_none(read_text(self.run_path / f"exit/{starts[-1].attempt}/node_00").split("\n")[0])
        return code is not None and code not in (PEER_LOST, PREEMPTED)

    # ---- node 0's name

    def _wait_until_resolved(self, name: str, timeout_s: float) -> bool:
        """Return whether a node's name resolves in time. It takes a few tenths of a second after the pod's start."""
        until, report_at = time.monotonic() + timeout_s, time.monotonic() + REPORT_S
        while not _name_resolves(name):
            self._leave_if_stopped()
            now = time.monotonic()
            if self._has_head_ended or now >= until:
                return False
            if now >= report_at:
                report_at = now + REPORT_S
                print(f"jobc: waiting until node 0's name resolves: {name}", flush=True)
            time.sleep(1)
        return True

    # ---- checks before the start

    def _check_start(self) -> None:
        """Check whether this pod can start, without waiting for other pods. Raises StartFailure, NodeMustNotStart."""
        if not self._wait_until_resolved(self.head, self.start_timeout_s):
            if self._has_head_ended:
                return  # joining the attempt reports the reason
            raise StartFailure(RENDEZVOUS_FAILED, *_describe_unresolved_head(self.head))
        host = os.uname().nodename
        table = Table([host])
        # without the GPUs, which jobctl preflight and the ranks check
        for line in call_or_fail_start("check this node", lambda: [*check_lines(self.settings)]):
            table.add(f"{host}: {printable(line)}")
        is_good, lines = table.lines()
        if not is_good:
            print("\n".join(lines), flush=True)
            raise NodeMustNotStart(CRASHED, "this pod cannot start the job")

    # ---- a shell

    def _exec_shell(self, words: list[str]) -> NoReturn:
        if Run(self.run_path).attempt is None:
            os.environ.update(JOBC_RUN_DIR="", JOBC_HEAD_ADDR="127.0.0.1")  # node 0 is not running
            if os.getcwd() == "/":
                call_or_fail_start(f"create the folder {self.root}", self.root.mkdir, parents=True, exist_ok=True)
                os.chdir(self.root)
                os.environ["JOBC_PROJECT"] = str(self.root)
        exec_program(self._launch_words("shell", *words), os.environ)

    # ---- this node's attempt

    def _join_attempt(self) -> int:
        """Wait until all nodes have joined the attempt and its files are in the run folder. Return the attempt."""
        most, timeout_s = self.settings.max_requeues, self.start_timeout_s
        if self.storage == "object":
            attempt = join_run_in_bucket(self.run_path, self.uid, most, timeout_s, self.fork_of, self._prepare_attempt)
            self._unpack_code()
            return attempt
        if self.storage == "node":
            return self._prepare_own_run_folder()
        from ....runtime.node.join_shared_run import join_run  # packed only in jobs with storage.run=shared

        if self.rank == 0:
            self._unpack_code()  # before the other nodes start
        return join_run(self.run_path, self.rank, self.settings.nodes, self.uid, most, timeout_s, self._prepare_attempt)

    def _prepare_own_run_folder(self) -> int:
        """Prepare this pod's own run folder. There is only one attempt, and the pods share only the rendezvous."""
        if self.settings.nodes > 1:
            for other in range(self.settings.nodes):
                if not self._wait_until_resolved(self.head.replace("-0.", f"-{other}.", 1), self.start_timeout_s):
                    hint = "check that the node's pod is running: jobctl status prints what the pod is waiting for"
                    raise StartFailure(RENDEZVOUS_FAILED, f"cannot resolve the host name of node {other}", hint)
            if self.settings.rendezvous_port == 0:  # node 0 cannot publish a port, because the nodes share no folder
                os.environ["JOBC_HEAD_PORT"] = str(port_from_text(self.uid))
        self._unpack_code()
        self._prepare_attempt(0)
        return 0

    def _prepare_attempt(self, attempt: int) -> None:
        if self.settings.code_kind == "git":
            from ....runtime.code.code_checkout import checkout_code  # packed only in jobs with code=git

            checkout_code(self.run_path, self.settings.repository or "", self.settings.commit or "", os.environ)
        prepare_attempt(self.run_path, attempt, self.artifact, self.fork_of, self.job, os.environ["JOBC_PROJECT"])

    def _unpack_code(self) -> None:
        """Unpack the code from jobctl submit into the run folder. Raises StartFailure."""
        code, unfinished = self.run_path / "code", self.run_path / ".code"
        if self.settings.code_kind != "snapshot" or code.is_dir():
            return
        sent = self.artifact.parent / "code/code.tar.gz"
        if not sent.exists():
            hint = "use jobctl submit, which sends the code; with kubectl alone, use code=git or code=image"
            raise StartFailure(DATA_BROKEN, "the code was not sent with this job", hint)
        call_or_fail_start(f"create the folder {self.run_path}", self.run_path.mkdir, parents=True, exist_ok=True)
        call_or_fail_start(f"unpack the code to {self.run_path}", _extract_archive, sent, unfinished)
        call_or_fail_start(f"move the code to {code}", unfinished.rename, code)

    # ---- smoke and preflight

    def _run_check(self, launch: list[str]) -> int:
        """Run a check, print its exit code, and return 0. Remove the run folder if all nodes pass.

        The exit code is always 0, because Kubernetes could delete a failed pod together with its output.
        """
        sys.stdout.flush()
        code = run_program(launch, os.environ)
        has_peers = self.settings.nodes > 1 and self.storage != "shared"
        if has_peers and self.rank == 0:  # when this pod ends, its name no longer resolves
            time.sleep(LAST_WORDS_S)
        if self.storage == "object":
            if code == DONE and self.rank == 0:
                subprocess.run(depot_command(self.run_path, "remove"), check=False)
        elif self.storage == "shared" and code == DONE:
            call_or_fail_start("write to the run folder", (self.run_path / f"state/.good_{self.rank}").touch)
            if self.rank == 0:
                self._remove_after_success()
        print(f"jobc: payload exit code: {code}", flush=True)
        return DONE

    def _remove_after_success(self) -> None:
        for _ in range(GOOD_S):
            if len(list((self.run_path / "state").glob(".good_*"))) == self.settings.nodes:
                with contextlib.suppress(OSError):
                    remove_folder(self.run_path)
                return
            time.sleep(1)


def _name_resolves(name: str) -> bool:
    try:
        socket.getaddrinfo(name, None)
    except OSError:
        return False
    return True


def _describe_unresolved_head(head: str) -> tuple[str, str]:
    hint = "check that node 0's pod is running, that the Service exists and that the cluster DNS works"
    return f"cannot resolve node 0's host name: {head}", hint


def _extract_archive(archive: Path, folder: Path) -> None:
    """Unpack the submitting machine's archive into a new folder. Raises OSError."""
    if os.path.lexists(folder):
        remove_folder(folder)
    folder.mkdir()
    try:
        with tarfile.open(archive) as file:
            file.extraction_filter = lambda member, path: member  # links and modes as sent, in every Python version
            file.extractall(folder)
    except tarfile.TarError as error:
        raise OSError(str(error)) from error
