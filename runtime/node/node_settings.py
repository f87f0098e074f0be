"""Read from .jobc/job.json what a node needs to start the ranks of its job."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from ..exit_codes import DATA_BROKEN
from ..run_folder.artifact_copies import JOB_FILE
from ..system.values import read_artifact_json
from .node_failure import NodeFailure

TORCH_LAUNCHERS = ("torchrun", "torch_distributed_launch", "accelerate")


class NodeSettings(NamedTuple):
    """Settings of one node, taken from the plan and documented in compiler/plan/launch_plan.py.

    container: the image, runtime, options and mounts, or None if there is no container.
    tree: the whole job.json.
    """

    tree: dict[str, Any]
    name: str
    run_folder: str
    nodes: int
    procs: int
    gpus: int
    gpu_type: str | None
    launcher: str
    network_profile: str
    interface: str
    rendezvous_port: int
    rendezvous_timeout_s: int
    max_restarts: int
    max_requeues: int
    threads: int
    grace_s: int
    time_limit_s: int
    code_kind: str
    code_root: str
    repository: str | None
    commit: str | None
    python: str
    uses_trainer: bool
    parallel: str
    shm_bytes: int | None
    secrets: dict[str, dict[str, str]]
    data: str | None
    downloads: str | None
    compiled: str | None
    storage: str
    store: dict[str, str] | None
    container: dict[str, Any] | None

    @classmethod
    def read(cls, artifact: Path) -> NodeSettings:
        """Return the settings of an artifact. Raises NodeFailure if its job.json is missing or damaged."""
        tree = read_artifact_json(artifact / JOB_FILE)
        node = tree.get("node")
        try:
            if not isinstance(node, dict):
                raise KeyError("node")
            named = {name: node[name] for name in cls._fields if name in node}
            return cls(
                tree=tree,
                container=tree.get("container"),
                network_profile=node["network"]["profile"],
                interface=node["network"]["interface"] or "",
                rendezvous_port=node["rendezvous"]["port"],
                rendezvous_timeout_s=node["rendezvous"]["timeout_s"],
                code_kind=node["code"]["kind"],
                code_root=node["code"]["root"],
                repository=node["code"]["repository"],
                commit=node["code"]["commit"],
                downloads=node["caches"]["downloads"],
                compiled=node["caches"]["compiled"],
                **named,
            )
        except (KeyError, TypeError) as error:
            title = f"{artifact / JOB_FILE} does not describe a job: {error}"
            raise NodeFailure(DATA_BROKEN, title, "compile the job again with --force") from None

    def settings_for_payload(self, payload: str) -> NodeSettings:
        """Return the settings. For payload smoke, adapt them to the smoke test: few processes and no launcher."""
        if payload != "smoke":
            return self
        procs = 1 if self.nodes > 1 and self.gpus == 1 else 2  # two ranks can communicate, but cannot share a GPU
        gpus = self.gpus if procs <= self.gpus else 0  # 0: the collective runs on CPUs
        return self._replace(procs=procs, gpus=gpus, launcher="spawn", uses_trainer=True)

    @property
    def needs_torch(self) -> bool:
        return self.launcher in TORCH_LAUNCHERS or self.uses_trainer
