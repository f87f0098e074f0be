"""One node of a SkyPilot task: its JOBC_ variables, and the run's attempt that it joins. Packed into jobctl."""

from __future__ import annotations

import os
import subprocess
from collections.abc import MutableMapping
from pathlib import Path

from ....runtime.exit_codes import CRASHED, DATA_BROKEN
from ....runtime.node.join_attempt import (
    SPACE_HINT,
    StartFailure,
    bucket_variables,
    call_or_fail_start,
    depot_command,
    join_run_in_bucket,
    port_from_text,
    prepare_attempt,
    recorded_init_from,
)
from ....runtime.node.node_settings import NodeSettings
from ....runtime.run_folder.artifact_copies import artifact_copy_of_attempt
from ....runtime.run_folder.removal import remove_folder
from ....runtime.run_folder.run import Run
from ....runtime.system.values import number_or_none


class SkypilotNode:
    """One node of the job.

    artifact: the folder that was sent
    payload: `train`, `smoke` or `preflight`
    environ: os.environ, with SkyPilot's variables. The node's JOBC_ variables are added to it.
    Raises StartFailure if SkyPilot does not provide the number of nodes and GPUs that the job was compiled for.
    """

    def __init__(self, artifact: Path, payload: str, environ: MutableMapping[str, str]) -> None:
        self.artifact, self.payload, self.environ = artifact, payload, environ
        self.settings = NodeSettings.read(artifact)
        self.storage = self.settings.storage
        self.timeout_s = float(self.settings.tree.get("start_timeout_s", 0))
        self.is_in_bucket = self.storage == "object"
        addresses = environ.get("SKYPILOT_NODE_IPS", "").split("\n")
        if addresses == [""]:
            hint = "SkyPilot sets this variable in `run`: call sky launch task.sky.yaml"
            raise StartFailure(CRASHED, "SKYPILOT_NODE_IPS is not set", hint)
        gpus = environ.get("SKYPILOT_NUM_GPUS_PER_NODE") or "0"
        sizes = (("nodes", str(len(addresses)), self.settings.nodes), ("GPUs per node", gpus, self.settings.gpus))
        for what, count, compiled in sizes:
            if count != str(compiled):
                title = f"SkyPilot provides {count} {what}, but the job was compiled for {compiled}"
                hint = f"compile the job again for {count} {what}"
                raise StartFailure(DATA_BROKEN, title, hint)
        self.rank, self.task_id = int(environ["SKYPILOT_NODE_RANK"]), environ["SKYPILOT_TASK_ID"]
        self.home = environ.get("HOME") or str(Path.home())
        self.project = f"{self.home}/sky_workdir"
        self.root = self._run_root()
        run_id = environ.get("JOBC_RUN_ID") or self.task_id
        self.run = self.root / (self.settings.run_folder if payload == "train" else ".checks") / run_id
        environ.update(
            JOBC_NODE_RANK=str(self.rank),
            JOBC_NODES=str(self.settings.nodes),
            JOBC_NODE_LIST=",".join(addresses),
            JOBC_HEAD_ADDR=addresses[0],
            JOBC_HEAD_PORT=str(self.settings.rendezvous_port),  # 0: node 0 chooses a port and shares it
            JOBC_JOB_ID=self.task_id,
            JOBC_RUN_ID=run_id,
            JOBC_RUN_ROOT=str(self.root),
            JOBC_RUN_DIR=str(self.run),
            JOBC_PROJECT=self.project,
            JOBC_TIME_LIMIT_S=str(self.settings.time_limit_s),
        )

    def _run_root(self) -> Path:
        """Return the run root or, with a bucket, the folder that holds this node's part of the runs."""
        root = str(self.settings.tree.get("storage_root", ""))
        path = Path(root if root.startswith("/") else f"{self.home}/{root[2:] if root.startswith('~/') else root}")
        return path / f"node_{self.rank:02}" if self.is_in_bucket else path

    # ---- the attempt

    def join_attempt(self) -> int:
        """Wait for all nodes and for the attempt's files. Return the attempt. Raises NodeFailure, NodeMustNotStart."""
        call_or_fail_start(f"create the folder {self.run}", self.run.mkdir, parents=True, exist_ok=True)
        join = {"shared": self._join_shared, "object": self._join_bucket, "node": self._join_without_shared_storage}
        attempt = join[self.storage]()
        self.environ["JOBC_ATTEMPT"] = str(attempt)
        init_from = recorded_init_from(self.run)
        if init_from:
            self.environ["JOBC_INIT_FROM"] = init_from
        return attempt

    def _join_shared(self) -> int:
        from ....runtime.node.join_shared_run import join_run  # packed only in jobs with storage.run=shared

        if self.rank == 0:  # before the other nodes start; the next launch on this cluster would replace the code
            self._copy_code()
        nodes, most = self.settings.nodes, self.settings.max_requeues
        return join_run(self.run, self.rank, nodes, self.task_id, most, self.timeout_s, self._prepare_attempt)

    def _join_bucket(self) -> int:
        """Join a run that has a folder on this node's disk and another one in the bucket."""
        self.environ.update(bucket_variables(self.settings, self.environ, self.payload))
        fork_of, most = self.environ.get("JOBC_FORK_OF", ""), self.settings.max_requeues
        attempt = join_run_in_bucket(self.run, self.task_id, most, self.timeout_s, fork_of, self._prepare_attempt)
        self._copy_code()
        return attempt

    def _join_without_shared_storage(self) -> int:
        """Join without shared storage. jobctl submit sets the attempt, and the checkpoints are on node 0."""
        attempt = number_or_none(self.environ.get("JOBC_ATTEMPT", "")) or 0
        if self.settings.nodes > 1 and not self.settings.rendezvous_port:  # node 0 cannot publish a port
            self.environ["JOBC_HEAD_PORT"] = str(port_from_text(self.task_id))
        self._copy_code()
        if self.rank == 0 or artifact_copy_of_attempt(self.run, attempt) is None:
            self._prepare_attempt(attempt)
        return attempt

    def _prepare_attempt(self, attempt: int) -> None:
        fork_of, folder = self.environ.get("JOBC_FORK_OF", ""), self.settings.run_folder
        init_from = str(self.root / folder / fork_of) if fork_of else ""
        prepare_attempt(self.run, attempt, self.artifact, init_from, folder, self.project)

    def _copy_code(self) -> None:
        """Copy the code into the run folder, unless it is already there.

        The source is what jobctl submit sent or, in a task launched by hand, the working directory.
        """
        sent, code = Path(self.project, self.run.name, "code"), self.run / "code"
        if not sent.is_dir() or code.exists():
            return
        copy = self.run / f".code.{self.rank}"
        if copy.exists():
            call_or_fail_start(f"remove {copy}", remove_folder, copy)
        done = subprocess.run(["cp", "-R", "--", str(sent), str(copy)], stderr=subprocess.PIPE, check=False)
        if done.returncode:
            reason = done.stderr.decode(errors="replace").strip().rpartition(": ")[2]
            raise StartFailure(CRASHED, f"cannot copy the code to {self.run}: {reason}", SPACE_HINT)
        try:
            copy.rename(code)
        except OSError as error:
            if not code.is_dir():  # otherwise, another node on the same storage was first
                title = f"cannot move the code to {code}: {error.strerror}"
                raise StartFailure(CRASHED, title, SPACE_HINT) from error
            remove_folder(copy)

    # ---- the other nodes

    def unfinished_node_count(self, attempt: int) -> int:
        """Return how many nodes have not recorded an exit code in the attempt but may still do so."""
        if not self.is_in_bucket:
            return unfinished_node_count(Run(self.run, attempt), self.settings.nodes)
        os.makedirs(self.run / f"exit/{attempt}", exist_ok=True)  # depot.py downloads the exit codes to this folder
        words = depot_command(self.run, "lacking")
        done = subprocess.run(words, env=self.environ, stdout=subprocess.PIPE, check=False)
        return 0 if done.returncode else number_or_none(done.stdout.decode().strip()) or 0


def has_ended(run: Run, node: int) -> bool:
    return (run.path / f"exit/{run.attempt}/node_{node:02}").is_file()


def unfinished_node_count(run: Run, nodes: int) -> int:
    """Return how many nodes have not recorded an exit code but may still do so."""
    statuses = [status for node, status in run.statuses().items() if node < nodes and not has_ended(run, node)]
    return sum(status not in ("dead", "silent") for status in statuses)
